"""`frost demo`: the whole story on data that comes with the package.

Trains a small FROST, calibrates it on images that were neither trained on nor are tested on, and shows what halting
buys, beside the paper's Table 2 and the fixed-depth line.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from frost.analysis.halting import HaltingRow, halt, halting_table, settling_order, standard_error
from frost.analysis.published import TABLE_2, TABLE_2_DEPTH
from frost.analysis.traces import Traces
from frost.checkpoint import check_destination, save, weights_hash
from frost.config import to_dict
from frost.core.model import Frost
from frost.core.trajectory import IterativeModel, Trajectory
from frost.data.digits import load_digits
from frost.data.splits import DataSet, Split
from frost.halting.calibration import Calibration
from frost.halting.signals import SIGNALS, along
from frost.recipes import RunConfig
from frost.report.figures import Curve, Stopped, demo_figure
from frost.report.tables import percent, table
from frost.training.evaluate import run_frozen
from frost.training.loop import StepRecord, fit
from frost.training.refit import refit
from frost.workflows.calibrate import gather
from frost.workflows.progress import progress
from frost.workflows.steprecord import check_finite, line_of
from frost.zoo.registry import build

STRIP = 10   # images in each row of the picture


class DemoResult(NamedTuple):
    """What the demo measured."""

    rows: list[HaltingRow]
    per_step_accuracy: list[float]
    test_images: int
    seconds: float
    scale: float | None
    lipschitz: float | None
    config: RunConfig
    out: Path

    def to_json(self) -> dict[str, Any]:
        """The same numbers as the table."""
        return {"rows": [row._asdict() for row in self.rows], "seconds": self.seconds,
                "per_step_accuracy": self.per_step_accuracy, "test_images": self.test_images,
                "depth": self.config.model.depth, "rule": self.config.model.rule, "seed": self.config.train.seed,
                "scale": self.scale, "lipschitz": self.lipschitz, "out": str(self.out),
                "paper": [row._asdict() for row in TABLE_2]}


def run_demo(config: RunConfig, out: Path) -> DemoResult:
    """Train, calibrate, measure, write the run and its picture."""
    started = time.monotonic()
    check_destination(out)
    if config.data != "digits":
        raise ValueError(f"the demo is about digits, got data={config.data}; use frost train for other data.")
    data = load_digits()
    _check_fits(config, data)
    model = build(config.model, seed=config.train.seed)
    records, last_epoch = train_with_bar(model, data.train, config)
    if config.halting.refit:
        refit(model, data.train, config.halting, config.train.augment, config.train.seed)
    if config.halting.calibrate == "held-out":
        calibration = gather(model.eval(), data.validation, config.halting.objective)
    else:
        calibration = Calibration.gather(last_epoch, weights_hash=weights_hash(model))
    trajectory = run_frozen(model, data.test.images)
    signal = along(SIGNALS[calibration.rule], trajectory.outputs, trajectory.score_logits)
    quality = Traces.of(trajectory.outputs, data.test.labels, {}).quality
    rows, per_step = halting_table(quality, signal, calibration), quality.mean(dim=0).tolist()
    scale, lipschitz = (model.scale.value.item(), model.lipschitz) if isinstance(model, Frost) else (None, None)
    result = DemoResult(rows, per_step, len(data.test), time.monotonic() - started, scale, lipschitz, config, out)
    picture = _picture(result, trajectory, data.test, calibration)
    numbers = json.dumps(result.to_json(), indent=2, allow_nan=False) + "\n"
    logbook = "".join(json.dumps(record._asdict(), allow_nan=False) + "\n" for record in records)
    save(out, model, to_dict(config), calibration,
         {"halting.json": numbers.encode(), "logbook.jsonl": logbook.encode(), "demo.png": picture})
    return result


def train_with_bar(model: IterativeModel, data: Split, config: RunConfig) -> tuple[list[StepRecord], Tensor]:
    """Train in place, with a progress bar; a record a step, and the score logits of the last epoch, (n, t)."""
    batches = -(-len(data) // config.train.batch)
    records: list[StepRecord] = []
    seen: list[Tensor] = []

    def watch(epoch: int, trajectory: Trajectory) -> None:
        if epoch == config.train.epochs:
            seen.append(trajectory.score_logits)

    with progress("training", config.train.epochs * batches, per_unit=config.train.batch) as report:
        for record in fit(model, data, config.train, config.halting, watch):
            check_finite(record, config.train.learning_rate)
            records.append(record)
            report(record.step, line_of(record))
    return records, torch.cat(seen)


def text(result: DemoResult) -> str:
    """The demo's answer for a person."""
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
          f"{100 * (row.accuracy - full.accuracy):+.2f} points; stopping everybody at that depth changes it by "
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
    frost = "" if result.scale is None else f", rule {model.rule}, λ = {result.scale:.3f}"
    return f"digits test · {result.test_images} images · {model.architecture}, depth {model.depth}{frost}, seed {seed}"


def _check_fits(config: RunConfig, data: DataSet) -> None:
    _, channels, height, _ = data.train.images.shape
    model = config.model
    if (model.image_channels, model.image_size) != (channels, height):
        raise ValueError(f"digits are {channels}×{height}×{height} images, but the model is set to "
                         f"{model.image_channels}×{model.image_size}×{model.image_size}.")
    if model.classes < int(data.train.labels.max()) + 1:
        raise ValueError(f"digits have 10 classes, but model.classes is {model.classes}.")


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
