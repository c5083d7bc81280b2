"""`frost evaluate RUN`: the halting table (§6.3, Table 2) of a finished run, and its accuracy after each step.

Measures only: thresholds come from the calibration that lies in the run, never from the images measured on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import torch

from frost.checkpoint import Run, load
from frost.commands.common import RUN_HELP, Reply, add_data, add_device
from frost.data.splits import Images, labelled
from frost.evaluation import frontier
from frost.evaluation.beyond import BeyondRow, beyond_rows
from frost.evaluation.budget import is_calibrated, rule_at, shown
from frost.evaluation.comparison import Compared, compared, signals_for
from frost.evaluation.comparison import chosen as chosen_policies
from frost.evaluation.datasets import data_of, words_of
from frost.evaluation.frontier import Frontiers
from frost.evaluation.halting_table import (
    EIGHTHS,
    BudgetRow,
    HaltingRow,
    budget_table,
    halting_table,
    standard_error,
)
from frost.evaluation.traces import Traces, trace
from frost.report.progress import progress
from frost.report.tables import percent, table

Part = Literal["test", "validation"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost evaluate`."""
    add_device(parser)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    add_data(parser)
    parser.add_argument("--quantiles", type=float, nargs="+", metavar="Q",
                        help="of the halting score, in [0, 1]; 1 is full depth (default: those of the paper's Table 2)")
    parser.add_argument("--policy", nargs="+", metavar="RULE",
                        help="stopping rules to compare at equal mean depth, such as rank confidence; or all")
    parser.add_argument("--frontier", nargs="*", metavar="OTHER",
                        help="quality against mean FLOPs, adaptive and at fixed depth, beside that of other runs; by "
                             "itself, without the other tables")
    parser.add_argument("--figure", type=Path, default=Path("frontier.png"), metavar="FILE",
                        help="where --frontier is drawn (default: %(default)s)")
    parser.add_argument("--split", choices=("test", "validation"), default="test",
                        help="images to measure on (default: %(default)s); choose settings on validation")


def run(options: argparse.Namespace) -> Reply:
    """Measure a run."""
    result = evaluate_run(options.run, options.data, options.quantiles, options.split, options.download,
                          options.policy, options.frontier, None if options.frontier is None else options.figure)
    return Reply(as_json(result), text(result))


class Evaluation(NamedTuple):
    """What was measured of a run on one split."""

    run: str
    data: str
    split: Part
    images: int
    depth: int                        # T
    rows: list[HaltingRow]            # none if only the frontier was asked for, which then has the other tables' place
    per_step_accuracy: list[float]    # t = 1…T
    is_calibrated: bool
    seconds: float
    rule: str = "rank"                # whose quantiles the rows are
    budgets: Sequence[BudgetRow] = () # the run's own rule at shares of full depth
    compared: Compared | None = None  # with other stopping rules, if asked for
    beyond: Sequence[BeyondRow] = ()  # problems larger than those trained on, and more steps than T
    frontiers: Frontiers | None = None    # quality against cost, if asked for


def evaluate_run(run_path: Path | str, data_folder: Path | None = None, quantiles: Sequence[float] | None = None,
             split: Part = "test", download: bool = False, policies: Sequence[str] | None = None,
             others: Sequence[str] | None = None, figure: Path | None = None) -> Evaluation:
    """Measure a run on a split of the data set that it was trained on.

    Args:
        run_path: a folder, or the name of a run that comes with the package.
        data_folder: where the data set lies; None is the cache folder.
        quantiles: one row each; None is the eight of Table 2, or full depth alone for a run without calibration.
        policies: stopping rules to compare at equal mean depth; `all` is all that the run can answer.
        others: runs whose frontiers are shown beside this one's; empty for its own alone, None for none. Without
            quantiles and policies nothing else is measured.
        figure: where the frontier is drawn.
    """
    started = time.monotonic()
    if split not in get_args(Part):
        raise ValueError(f"split is one of {', '.join(get_args(Part))}, got '{split}'; training images flatter.")
    run = load(run_path, device="auto")
    asked = list(quantiles or (EIGHTHS if is_calibrated(run) else (1.0,)))
    for quantile in asked:
        rule_at(run, quantile)    # refuses now, not after minutes of measuring
    names = None if policies is None else chosen_policies(run, policies)
    name = shown(run_path, run)
    beside = None if others is None else frontier.opened(name, run, others, figure)
    data = data_of(run, data_folder, download)
    chosen = data.test if split == "test" else data.validation
    rule = "rank" if run.calibration is None else run.calibration.rule
    traces = _traced(run, chosen, rule, [] if names is None else signals_for(run, names))
    rivals = None if names is None else compared(run, data.validation, traces, names, asked)
    per_step = traces.quality.mean(dim=0).tolist()
    frontiers = None if beside is None else frontier.of_runs(name, run, traces, beside, data_folder, split, download,
                                                             figure)
    rows: list[HaltingRow] = []
    budgets: list[BudgetRow] = []
    beyond: list[BeyondRow] = []
    if frontiers is None or names is not None or quantiles:
        rows, budgets = _rows(run, traces, asked), _budgets(run, traces)
        beyond = beyond_rows(run, data) if split == "test" else []
    return Evaluation(name, data.name, split, len(chosen), traces.depth, rows, per_step, is_calibrated(run),
                      time.monotonic() - started, rule, budgets, rivals, beyond, frontiers)


def _traced(run: Run, images: Images, rule: str, more: Sequence[str]) -> Traces:
    """What the run's own rule and some others look at, for all images; refused where the model has diverged."""
    signals = [rule] if run.calibration is None else list(run.calibration.signals)
    signals += [name for name in more if name not in signals]
    with progress("evaluating", len(images)) as report:
        traces = trace(run.model, labelled(images), signals, report=report)
    if not traces.is_finite or bool(torch.isnan(traces.signals[rule]).any()):
        raise ValueError(f"the model in {run.path} answers with NaN or infinity; it diverged, train it again with a "
                         "smaller train.learning_rate.")
    return traces


def as_json(result: Evaluation) -> dict[str, Any]:
    """One object: accuracies and quantiles lie in [0, 1], the threshold at quantile 1 is None."""
    head = {"run": result.run, "data": result.data, "split": result.split, "images": result.images,
            "depth": result.depth}
    others = {} if result.compared is None else result.compared.to_json(result.depth)
    if result.beyond:
        others["beyond"] = [row._asdict() for row in result.beyond]
    if result.frontiers is not None:
        others |= result.frontiers.to_json()
    tables = {"rows": _rows_as_json(result), "per_step_accuracy": result.per_step_accuracy} if result.rows else {}
    budgets = [{**row._asdict(), "gain": row.accuracy - row.fixed_depth_accuracy} for row in result.budgets]
    return {**head, **tables, "is_calibrated": result.is_calibrated, **({"budgets": budgets} if result.rows else {}),
            **others, "seconds": result.seconds}


def _rows_as_json(result: Evaluation) -> list[dict[str, Any]]:
    tables = {result.rule: result.rows, **({} if result.compared is None else {
        rule: rows for rule, rows in result.compared.rows.items() if rule != result.rule})}
    return [{"policy": rule, **row._asdict(), "gain": row.accuracy - row.fixed_depth_accuracy,
             "standard_error": standard_error(row.accuracy, result.images)}
            for rule, lines in tables.items() for row in lines]


def text(result: Evaluation) -> str:
    """The same for a person."""
    parts = [f"{result.run} · {result.data} {result.split} · {result.images:,} {words_of(result.data)[1]} · depth "
             f"{result.depth}"]
    if result.rows:
        parts += [_tables(result)]
    elif not result.is_calibrated:
        parts += ["This run has no calibration, so only fixed depth is shown; frost calibrate makes one."]
    parts += [] if result.compared is None else [result.compared.text(result.depth)]
    parts += [] if result.frontiers is None else [result.frontiers.text()]
    return "\n\n".join(parts) + f"\nMeasured in {result.seconds:.1f} s."


def _tables(result: Evaluation) -> str:
    """Budgets, quantiles, steps and sizes, and what their columns mean."""
    def measured(accuracy: float) -> str:
        return f"{percent(accuracy)} ±{100 * standard_error(accuracy, result.images):.2f}"

    halting = [[f"{row.quantile:.3f}", "never" if row.threshold is None else f"{row.threshold:.3f}",
                f"{row.mean_depth:.2f}", f"{100 * row.mean_depth / result.depth:.0f} %", measured(row.accuracy),
                percent(row.fixed_depth_accuracy), f"{100 * (row.accuracy - row.fixed_depth_accuracy):+.2f}"]
               for row in result.rows]
    word = words_of(result.data)[0]
    steps = [[str(step), measured(accuracy)] for step, accuracy in enumerate(result.per_step_accuracy, start=1)]
    budgets = [[f"{100 * row.fraction:.0f} %", f"{row.mean_depth:.2f}", row.form, measured(row.accuracy),
                percent(row.fixed_depth_accuracy), f"{100 * (row.accuracy - row.fixed_depth_accuracy):+.2f}"]
               for row in result.budgets]
    beyond = [[row.size, *(percent(quality) for quality in row.quality.values())] for row in result.beyond]
    notes = ["±: one standard error, in points. fixed depth: stopping every input at the same mean depth;",
             "gain: points above that line, which an adaptive rule must beat. budget: the rule that won on held-out",
             "images at a share of full depth; quantile: one threshold on the score for all steps, as in the paper."]
    if not result.is_calibrated:
        notes.append("This run has no calibration, so only full depth is shown; frost calibrate makes one.")
    elif result.split == "validation":
        notes.append("The thresholds may come from these very images; the split to report on is test.")
    tables = [table(["quantile", "threshold", "mean depth", "of T", word, "fixed depth", "gain"], halting),
              table(["after step", word], steps)]
    if budgets:
        tables.insert(0, table(["budget", "mean depth", "rule", word, "fixed depth", "gain"], budgets))
    if beyond:
        tables.append(table(["size", *(f"{step} steps" for step in result.beyond[0].quality)], beyond))
    return "\n\n".join([*tables, "\n".join(notes)])


def _budgets(run: Run, traces: Traces) -> list[BudgetRow]:
    """The rule that the run answers with when it is asked for a mean depth; none without right answers to go by."""
    if run.calibration is None or run.calibration.quality is None or traces.depth < 2:
        return []
    return budget_table(traces.quality, traces.signals, run.calibration)


def _rows(run: Run, traces: Traces, quantiles: Sequence[float]) -> list[HaltingRow]:
    if run.calibration is not None and is_calibrated(run):
        return halting_table(traces.quality, traces.signals[run.calibration.rule], run.calibration, quantiles)
    full = traces.quality[:, -1].mean().item()
    return [HaltingRow(1.0, None, float(traces.depth), full, full) for _ in quantiles]
