"""`frost reproduce`: every table and figure of the paper, beside the paper's numbers."""

from __future__ import annotations

import argparse
from pathlib import Path

from frost.commands.common import Reply, add_data, add_device
from frost.workflows import reproduce as kit
from frost.workflows.kit.scales import scale_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost reproduce`."""
    add_device(parser)
    parser.add_argument("--scale", required=True, choices=("smoke", "cpu", "paper"),
                        help="smoke: digits, minutes; cpu: CIFAR-100, hours; paper: the original settings, for a GPU")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for report, figures and runs")
    add_data(parser, can_download=False)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="sections, such as halting collapse (default: all)")
    parser.add_argument("--plan", action="store_true", help="say what would be done and how long it takes; do nothing")
    parser.add_argument("--resume", action="store_true", help="go on with what is in DIR")


def run(options: argparse.Namespace) -> Reply:
    """Do what is missing, and write the report."""
    scale = scale_of(options.scale)
    if options.plan:
        what = kit.plan(scale, options.out, options.data, options.only)
        return Reply(kit.plan_json(what), kit.plan_text(what))
    result = kit.reproduce(scale, options.out, options.data, options.only, options.resume, ("frost", *options.words))
    return Reply(result.results, kit.text(result))
