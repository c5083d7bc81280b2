"""What is measured of every trained unit: accuracy, the halting table, and what its training wrote down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from frost.core.trajectory import IterativeModel, Trajectory
from frost.data.splits import Images
from frost.evaluation.halting_table import EIGHTHS, depths_at, per_step_accuracy
from frost.evaluation.stopping_rules import Depths, judge
from frost.evaluation.traces import Traces
from frost.halting.calibration import Calibration
from frost.halting.signals import SIGNALS, along
from frost.paper.intervals import of_mean, rank_correlation
from frost.training.logging import LOGBOOK, PROBES, read_logbook
from frost.training.losses import step_losses
from frost.training.validation import run_frozen

POINTS = 60    # of a curve over a training


def outcome(model: IterativeModel, calibration: Calibration | None, test: Images) -> dict[str, Any]:
    """Accuracy after each step, the halting table, and how far the scores differ."""
    trajectory = run_frozen(model, test)
    rows = [] if calibration is None else _at_quantiles(trajectory, test.labels, calibration)
    losses = step_losses(trajectory.outputs, test.labels)
    return {"images": len(test), "depth": trajectory.depth, "classes": trajectory.outputs.shape[2],
            "per_step_accuracy": per_step_accuracy(trajectory.outputs, test.labels),
            "rows": rows, "score_deviation": trajectory.scores.double().std(correction=0).item(),
            "score_and_loss": rank_correlation(-trajectory.score_logits.double().numpy(), losses.double().numpy())}


def with_intervals(policy: str, depths: Depths, test: Traces) -> dict[str, Any]:
    """Mean depth, accuracy, gain over the fixed-depth line and loss against full depth, each with its interval."""
    found, count = judge(policy, depths.mean() / test.depth, depths, test), test.inputs
    correct = test.quality.numpy()
    return {"mean_depth": of_mean(depths)._asdict(), "accuracy": {**found.accuracy._asdict(), "n": count},
            "gain": {**found.gain._asdict(), "n": count},
            "lost": of_mean(correct[:, -1] - correct[range(count), depths - 1])._asdict()}


def over_training(run: Path) -> dict[str, Any]:
    """λ, H and the scores of easy, hard and median pairs, as the logbook has them; at most `POINTS` of each."""
    book = read_logbook(run / LOGBOOK)
    step = max(1, len(book) // POINTS)
    chosen = book[::step] + ([] if (len(book) - 1) % step == 0 else book[-1:])
    names = ("scale", "hurst", "easy_score", "hard_score", "median_score")
    return {"share": [line["step"] / line["steps"] for line in chosen],
            **{name: [line[name] for line in chosen] for name in names},
            "least_scale": min((line["scale"] for line in book if line["scale"] is not None), default=None),
            "largest_scale": max((line["scale"] for line in book if line["scale"] is not None), default=None),
            "conflict": read_logbook(run / PROBES)}


def _at_quantiles(trajectory: Trajectory, labels: Tensor, calibration: Calibration) -> list[dict[str, Any]]:
    """Table 2, each number with its interval."""
    traces = Traces.of(trajectory.outputs, labels, {})
    signal = along(SIGNALS[calibration.rule], trajectory.outputs, trajectory.score_logits)
    return [{"quantile": quantile, "threshold": rule.threshold,
             **with_intervals(calibration.rule, depths.numpy(), traces)}
            for quantile, rule, depths in depths_at(EIGHTHS, calibration, signal)]
