"""`frost analyze RUN`: similarity of states, dimension of paths and contraction of a run's step."""

from __future__ import annotations

import argparse

from frost.commands.common import RUN_HELP, Reply, add_data, add_device
from frost.workflows.analyze import analyze, as_json, text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost analyze`."""
    add_device(parser)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    add_data(parser)


def run(options: argparse.Namespace) -> Reply:
    """Measure a run's states."""
    result = analyze(options.run, options.data, options.download)
    return Reply(as_json(result), text(result))
