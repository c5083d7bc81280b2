"""`frost export RUN --out DIR`: the run as a folder that runs in ONNX Runtime, without PyTorch; `--check` runs one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from frost.checkpoint import load
from frost.commands.common import RUN_HELP, Reply
from frost.evaluation.budget import Budget, policy_of, shown
from frost.exporting.check import Report, checked
from frost.exporting.package import export_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost export`."""
    parser.add_argument("run", nargs="?", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder to write; an older package is replaced")
    parser.add_argument("--check", type=Path, metavar="DIR",
                        help="verify a package and run its golden inputs, instead of writing one")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--quantile", type=float, metavar="Q", help="stop inputs by the run's rule")
    budget.add_argument("--mean-depth", type=float, metavar="D", help="the same, for D steps an input in the mean")
    budget.add_argument("--accuracy-loss", type=float, metavar="P",
                        help="the same, losing at most P points with 95 %% confidence")
    budget.add_argument("--depth", type=int, metavar="T", help="stop every input after T steps (default: full depth)")
    parser.add_argument("--examples", type=Path, nargs="+", default=[], metavar="FILE",
                        help="images or folders of them to check hosts with (default: inputs that come with frost)")


def run(options: argparse.Namespace) -> Reply:
    """Write a package, or check one."""
    if options.check is not None:
        if options.run is not None or options.out is not None:
            raise ValueError("--check takes the folder of a package, and no RUN or --out beside it.")
        report = checked(options.check)
        return Reply(as_json(report), text(report), 1 if report.found.wrong else 0)
    if options.run is None or options.out is None:
        raise ValueError("name a run and a folder: frost export RUN --out DIR; or a package: frost export --check DIR.")
    opened = load(options.run)
    budget = Budget(options.quantile, options.mean_depth, options.accuracy_loss, options.depth)
    name = Path(shown(options.run, opened)).name
    report = export_run(opened, policy_of(opened, budget), options.out, name, options.examples)
    return Reply(as_json(report), text(report))


def as_json(report: Report) -> dict[str, Any]:
    """One object."""
    return {**report._asdict(), "path": str(report.path), "found": report.found._asdict()}


def text(report: Report) -> str:
    """The same for a person."""
    found, total = report.found, sum(report.sizes.values())
    near = f", {found.near} of another depth because a signal is next to its threshold" if found.near else ""
    verdict = f"{len(found.wrong)} wrong (first: number {found.wrong[0]})" if found.wrong else "all right"
    return (f"{report.name} · {report.path} · {total / 1e6:.2f} MB · mean depth {report.mean_depth:g} of "
            f"{report.depth} · {len(report.budgets)} budgets\n\n{found.inputs} golden inputs in ONNX Runtime: "
            f"{verdict}{near}; outputs within {found.largest:.1e}.")
