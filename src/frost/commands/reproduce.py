"""`frost reproduce`: every table and figure of the paper, beside the paper's numbers."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from frost.commands.common import Reply, add_data, add_device
from frost.paper.report import FIGURES, REPORT, RESULTS
from frost.paper.reproduction import TRIED_STEPS, Plan, Reproduction, plan, reproduce
from frost.paper.sizes import size_of
from frost.report.tables import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost reproduce`."""
    add_device(parser)
    parser.add_argument("--size", required=True, choices=("smoke", "cpu", "paper"),
                        help="smoke: digits, minutes; cpu: CIFAR-100, hours; paper: the original settings, for a GPU")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for report, figures and runs")
    add_data(parser, can_download=False)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="sections, such as halting collapse (default: all)")
    parser.add_argument("--plan", action="store_true", help="say what would be done and how long it takes; do nothing")
    parser.add_argument("--resume", action="store_true", help="go on with what is in DIR")


def run(options: argparse.Namespace) -> Reply:
    """Do what is missing, and write the report."""
    size = size_of(options.size)
    if options.plan:
        what = plan(size, options.out, options.data, options.only)
        return Reply(plan_json(what), plan_text(what))
    result = reproduce(size, options.out, options.data, options.only, options.resume, ("frost", *options.words))
    return Reply(result.results, text(result))


def plan_json(what: Plan) -> dict[str, Any]:
    """One object."""
    return {**what._asdict(), "out": str(what.out)}


def plan_text(what: Plan) -> str:
    """The same for a person."""
    counts = Counter(what.units.values())
    return "\n".join([
        f"{what.out} · size {what.size} · sections: {', '.join(what.sections)}", "",
        table(["unit", "state"], [[name, state] for name, state in what.units.items()]), "",
        f"{counts['done']} done, {counts['to train']} to train at about {what.seconds_a_training:.0f} s each, "
        f"{counts['to measure']} to measure: about {what.seconds / 60:.0f} minutes on this machine, by "
        f"{TRIED_STEPS} timed steps. Nothing was written."])


def text(result: Reproduction) -> str:
    """What holds, in a table."""
    sections = result.results["sections"]
    rows = [[name, section["verdict"], ", ".join(map(str, section["seeds"]))] for name, section in sections.items()]
    return "\n".join([
        f"{result.out} · size {result.results['size']} · {result.results['data']['name']} · "
        f"{result.results['timing']['seconds'] / 60:.1f} minutes of work", "",
        table(["section", "verdict", "seeds"], rows), "",
        *(f"{name}: {section['finding']}" for name, section in sections.items()), "",
        f"Written: {result.out / REPORT}, {RESULTS}, {FIGURES}/."])
