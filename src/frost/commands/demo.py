"""`frost demo [addition|mazes|digits]`: the whole story on data that comes with the package.

Trains a small FROST, calibrates it on inputs that were neither trained on nor are tested on, and shows what adaptive
depth buys over fixed depth: at budgets for problems, at the quantiles of the paper's Table 2 for digits.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from frost.checkpoint import check_destination, load, pretrained, save, weights_hash
from frost.commands.common import Reply, add_device, add_settings
from frost.config import override, to_dict
from frost.core.model import Frost
from frost.core.trajectory import IterativeModel, Trajectory
from frost.data.catalogue import BUNDLED, PROBLEMS
from frost.data.splits import Split
from frost.evaluation.calibrating import candidates, gather
from frost.evaluation.datasets import check_fits
from frost.evaluation.halting_table import (
    BudgetRow,
    HaltingRow,
    budget_table,
    halt,
    halting_table,
    settling_order,
    standard_error,
)
from frost.evaluation.traces import Traces
from frost.halting.calibration import Calibration
from frost.halting.signals import SIGNALS, along
from frost.halting.stopping import first_passage
from frost.paper.sections.table2_halting import TABLE_2, TABLE_2_DEPTH
from frost.recipes import recipe
from frost.report.demo_digits import Curve, Stopped, demo_figure
from frost.report.demo_problems import Sharpening, problem_figure
from frost.report.progress import progress
from frost.report.tables import percent, table
from frost.training.loop import StepRecord, Training, go_on
from frost.training.refit import refit
from frost.training.settings import RunConfig
from frost.training.validation import run_frozen
from frost.zoo.registry import build

STRIP = 10                               # images in each row of the picture of digits
STEPS = tuple(range(1, 13))              # at which the picture shows mazes
SHARES = (0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.75, 1.0)    # of full depth, that the table of problems shows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost demo`."""
    parser.add_argument("data", nargs="?", choices=("addition", "mazes", "digits"), default="addition",
                        help="what it is about (default: %(default)s)")
    add_device(parser)
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), metavar="DIR",
                        help="folder for the run and its picture (default: %(default)s)")
    add_settings(parser)


def run(options: argparse.Namespace) -> Reply:
    """Train, calibrate and show."""
    result = run_demo(override(recipe(options.data), options.assignments), options.out)
    return Reply(result.to_json(), text(result))


class DemoResult(NamedTuple):
    """What the demo measured."""

    rows: list[HaltingRow]
    budgets: list[BudgetRow]
    per_step_accuracy: list[float]
    test_images: int
    seconds: float
    scale: float | None
    lipschitz: float | None
    config: RunConfig
    out: Path

    def to_json(self) -> dict[str, Any]:
        """The same numbers as the table."""
        return {"rows": [row._asdict() for row in self.rows], "data": self.config.data,
                "budgets": [{**row._asdict(), "gain": row.accuracy - row.fixed_depth_accuracy}
                            for row in self.budgets], "seconds": self.seconds,
                "per_step_accuracy": self.per_step_accuracy, "test_images": self.test_images,
                "depth": self.config.model.depth, "update": self.config.model.update, "seed": self.config.train.seed,
                "scale": self.scale, "lipschitz": self.lipschitz, "out": str(self.out),
                "paper": [row._asdict() for row in TABLE_2]}


def run_demo(config: RunConfig, out: Path) -> DemoResult:
    """Train, calibrate, measure, write the run and its picture."""
    started = time.monotonic()
    check_destination(out)
    if config.data not in BUNDLED:
        raise ValueError(f"the demo is about data that come with the package, {', '.join(BUNDLED)}; got "
                         f"data={config.data}; use frost train for other data.")
    if config.data in PROBLEMS and config.halting.calibrate != "held-out":
        raise ValueError(f"the demo of {config.data} compares stopping rules on held-out problems; halting.calibrate "
                         f"must be held-out, got {config.halting.calibrate}.")
    data = BUNDLED[config.data]()
    check_fits(config.model, data)
    model = build(config.model, seed=config.train.seed)
    records, last_epoch, model = train_with_bar(model, data.train, config)
    if config.halting.refit:
        refit(model, data.train, config.halting, config.train.augment, config.train.seed)
    if config.halting.calibrate == "held-out":
        calibration = gather(model.eval(), data.validation, candidates(model, config.halting.objective))
    else:
        assert last_epoch is not None, "refused by RunConfig"
        calibration = Calibration.gather(last_epoch, weights_hash=weights_hash(model))
    trajectory = run_frozen(model, data.test.images)
    signals = {name: along(SIGNALS[name], trajectory.outputs, trajectory.score_logits) for name in calibration.signals}
    quality = Traces.of(trajectory.outputs, data.test.labels, {}, model.task).quality
    rows, per_step = halting_table(quality, signals[calibration.rule], calibration), quality.mean(dim=0).tolist()
    budgets = [] if calibration.quality is None else budget_table(quality, signals, calibration, SHARES)
    scale, lipschitz = (model.scale.value.item(), model.lipschitz) if isinstance(model, Frost) else (None, None)
    result = DemoResult(rows, budgets, per_step, len(data.test), time.monotonic() - started, scale, lipschitz, config,
                        out)
    picture = (_picture(result, trajectory, data.test, calibration) if config.data == "digits" else
               _problem_picture(result))
    numbers = json.dumps(result.to_json(), indent=2, allow_nan=False) + "\n"
    logbook = "".join(json.dumps(record._asdict(), allow_nan=False) + "\n" for record in records)
    save(out, model, to_dict(config), calibration,
         {"halting.json": numbers.encode(), "logbook.jsonl": logbook.encode(), "demo.png": picture})
    return result


def train_with_bar(model: IterativeModel, data: Split,
                   config: RunConfig) -> tuple[list[StepRecord], Tensor | None, IterativeModel]:
    """Train with a progress bar: a record a step, the score logits of the last epoch, (n, t), and what is kept."""
    training = Training.begin(model, config.train, runtime=config.runtime)
    batches = -(-len(data) // config.train.batch)
    records: list[StepRecord] = []
    seen: list[Tensor] = []

    def watch(epoch: int, trajectory: Trajectory) -> None:
        if epoch == config.train.epochs and config.train.depth_schedule == "full":
            seen.append(trajectory.score_logits)

    with progress("training", config.train.epochs * batches, per_unit=config.train.batch) as report:
        for record in go_on(training, data, config.train, config.halting, watch):
            record.check_finite(config.train.learning_rate)
            records.append(record)
            report(record.step, record.line())
    return records, torch.cat(seen) if seen else None, training.result


def text(result: DemoResult) -> str:
    """The demo's answer for a person."""
    return _digits_text(result) if result.config.data == "digits" else _problems_text(result)


def _problems_text(result: DemoResult) -> str:
    depth, count = result.config.model.depth, result.test_images
    body = [[f"{row.mean_depth:.2f}", f"{100 * row.mean_depth / depth:.0f} %", row.form,
             f"{percent(row.accuracy)} ±{100 * standard_error(row.accuracy, count):.2f}",
             percent(row.fixed_depth_accuracy), f"{100 * (row.accuracy - row.fixed_depth_accuracy):+.2f}"]
            for row in result.budgets]
    best = max(result.budgets, key=lambda row: row.accuracy - row.fixed_depth_accuracy)
    return "\n".join([
        _title(result), "",
        table(["mean depth", "of T", "stops by", "solved", "fixed depth", "gain"], body), "",
        f"With {best.mean_depth:.2f} steps a problem in the mean, adaptive depth solves {percent(best.accuracy)}; "
        f"stopping every problem there solves {percent(best.fixed_depth_accuracy)}.",
        "solved: every position of the answer is right. fixed depth: every problem stops at the same mean depth.",
        f"Trained and measured in {result.seconds:.0f} s. Written: {result.out} (weights, calibration, halting.json, "
        "logbook.jsonl, demo.png)."])


def _digits_text(result: DemoResult) -> str:
    count, depth = result.test_images, result.config.model.depth
    body = [[f"{row.quantile:.3f}", "never" if row.threshold is None else f"{row.threshold:.3f}",
             f"{row.mean_depth:.2f}", f"{100 * row.mean_depth / depth:.0f} %",
             f"{percent(row.accuracy)} ±{100 * standard_error(row.accuracy, count):.2f}",
             percent(row.fixed_depth_accuracy),
             f"{paper.mean_depth:.2f}", f"{100 * paper.mean_depth / TABLE_2_DEPTH:.0f} %", percent(paper.accuracy)]
            for row, paper in zip(result.rows, TABLE_2, strict=True)]
    header = ["quantile", "threshold", "mean depth", "of T", "accuracy", "fixed depth",
              "| paper: depth", "of T", "accuracy"]
    full = result.rows[-1]
    bound = [] if result.lipschitz is None else [
        f"One step is a contraction with L = {result.lipschitz:.3f}; L^T = {result.lipschitz**depth:.3f}."]
    return "\n".join([
        _title(result),
        "",
        table(header, body),
        "",
        *(f"At quantile {row.quantile} images take {row.mean_depth:.2f} of {depth} steps "
          f"({100 * row.mean_depth / depth:.0f} %) and accuracy changes by "
          f"{100 * (row.accuracy - full.accuracy):+.2f} points; fixed depth at that mean depth changes it by "
          f"{100 * (row.fixed_depth_accuracy - full.accuracy):+.2f}." for row in result.rows
          if row.quantile in (0.25, 0.5)),
        *bound,
        "fixed depth: accuracy of stopping every image at the same mean depth; what an adaptive rule must beat.",
        "paper: Table 2, CIFAR-100, T = 16; another data set, shown for the shape of the curve.",
        f"Trained and measured in {result.seconds:.0f} s. Written: {result.out} (weights, calibration, halting.json, "
        "logbook.jsonl, demo.png).",
    ])


def _title(result: DemoResult) -> str:
    model, seed = result.config.model, result.config.train.seed
    frost = "" if result.scale is None else f", update {model.update}, λ = {result.scale:.3f}"
    what = "images" if result.config.data == "digits" else "problems"
    return (f"{result.config.data} test · {result.test_images:,} {what} · {model.architecture}, depth "
            f"{model.depth}{frost}, seed {seed}")


def _picture(result: DemoResult, trajectory: Trajectory, test: Split, calibration: Calibration) -> bytes:
    prediction = halt(trajectory, calibration.at_quantile(0.5))
    order = settling_order(trajectory)

    def stopped(indices: Tensor) -> list[Stopped]:
        return [Stopped(test.images[i, 0], int(test.labels[i]), int(prediction.outputs[i].argmax()),
                        int(prediction.depth[i])) for i in indices.tolist()]

    def curve(depths: Sequence[float], accuracies: Sequence[float]) -> Curve:
        return Curve(depths, accuracies, [standard_error(a, result.test_images) for a in accuracies])

    steps = list(range(1, trajectory.depth + 1))
    return demo_figure(
        curve([row.mean_depth for row in result.rows], [row.accuracy for row in result.rows]),
        curve(steps, result.per_step_accuracy), [row.quantile for row in result.rows],
        stopped(order[:STRIP]), stopped(torch.flip(order, (0,))[:STRIP]),
        f"digits · {result.test_images} test images · T = {trajectory.depth} · seed {result.config.train.seed}")


def _problem_picture(result: DemoResult) -> bytes:
    """The curves of this demo, and mazes of the run that comes with the package."""
    def curve(depths: Sequence[float], qualities: Sequence[float]) -> Curve:
        return Curve(depths, qualities, [standard_error(quality, result.test_images) for quality in qualities])

    config, rows = result.config, result.budgets
    steps = list(range(1, config.model.depth + 1))
    mazes = _mazes()
    return problem_figure(
        curve([row.mean_depth for row in rows], [row.accuracy for row in rows]), curve(steps, result.per_step_accuracy),
        [("an easy maze", mazes[0]), ("a middling one", mazes[1]), ("a hard one", mazes[2])], STEPS,
        f"{config.data} · {result.test_images:,} test problems · T = {config.model.depth} · seed {config.train.seed}",
        "The run `mazes`: how likely each cell is on the way, step by step, and where each maze stopped")


def _mazes() -> list[Sharpening]:
    """Three test mazes of the pretrained run that stop early, halfway and late, with their answers at every step."""
    run, test = load(pretrained()["mazes"]), BUNDLED["mazes"]().test
    assert run.calibration is not None
    count = 400
    rule = run.calibration.at_mean_depth(0.35 * run.model.depth)
    trajectory = run_frozen(run.model, test.images[:count])
    depths = first_passage(rule.stops(along(rule.signal, trajectory.outputs, trajectory.score_logits)))
    chances = trajectory.outputs.softmax(dim=-1)[..., 1]
    order = torch.argsort(depths, stable=True)
    within = order[depths[order] <= STEPS[-1]]
    shown = [int(within[place]) for place in (len(within) // 50, len(within) // 2, len(within) - 1)]
    return [Sharpening(test.images[i].numpy(), chances[i].numpy(), int(depths[i]),
                       bool((trajectory.outputs[i, depths[i] - 1].argmax(-1) == test.labels[i]).all())) for i in shown]
