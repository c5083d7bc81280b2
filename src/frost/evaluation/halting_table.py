"""The halting table (§6.3, Table 2), with the line that it has to beat.

A stopping rule is worth something only if it is more accurate than fixed depth at the same mean depth: the paper
does not show that line, every table of ours does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from frost.checkpoint import weights_hash
from frost.core.task import Judge
from frost.core.trajectory import IterativeModel, Prediction, Trajectory, choose, evaluating
from frost.evaluation.traces import trace
from frost.halting.calibration import Calibration, NotCalibrated
from frost.halting.fixed_depth import fixed_depth_line
from frost.halting.stopping import Rule, StoppingRule, depth_under, first_passage
from frost.report.tables import percent, table

BUDGETS = (0.35, 0.5, 0.75, 1.0)              # of full depth
EIGHTHS = tuple(i / 8 for i in range(1, 9))   # the quantiles of Table 2


class HaltingRow(NamedTuple):
    """One line of the table."""

    quantile: float
    threshold: float | None         # s_halt in [0, 1]; None at quantile 1
    mean_depth: float
    accuracy: float
    fixed_depth_accuracy: float     # of fixed depth at this mean depth


def halt(trajectory: Trajectory, policy: StoppingRule) -> Prediction:
    """Run everything, then pick: the obvious way to stop each image where a rule says so."""
    return choose(trajectory, depth_under(policy, trajectory.outputs, trajectory.score_logits, trajectory.states,
                                          trajectory.mask))


def per_step_accuracy(outputs: Tensor, labels: Tensor) -> list[float]:
    """Accuracy when every image stops at step 1, 2, …, T: (b, t, k), (b,) → T numbers."""
    return (outputs.argmax(dim=-1) == labels[:, None]).double().mean(dim=0).tolist()


def fixed_depth_accuracy(per_step: Sequence[float], mean_depth: float) -> float:
    """The fixed-depth line at a mean depth that may lie between two steps: linear interpolation."""
    if not 1 <= mean_depth <= len(per_step):
        raise ValueError(f"mean_depth must lie in [1, {len(per_step)}], got {mean_depth}.")
    return float(fixed_depth_line(np.asarray([per_step]), mean_depth)[0])


def depths_at(quantiles: Sequence[float], calibration: Calibration,
              signal: Tensor) -> Iterator[tuple[float, Rule, Tensor]]:
    """For each quantile its rule, and the step at which each input stops under it; `signal` is the rule's, (n, t)."""
    for quantile in quantiles:
        rule = calibration.at_quantile(quantile)
        yield quantile, rule, first_passage(rule.stops(signal))


def halting_table(quality: Tensor, signal: Tensor, calibration: Calibration,
                  quantiles: Sequence[float] = EIGHTHS) -> list[HaltingRow]:
    """Mean depth and accuracy for each quantile, with thresholds from the calibration.

    Args:
        quality: of each answer at each step, (n, t).
        signal: what the calibration's rule looks at, (n, t).
    """
    rows = []
    for quantile, policy, depths in depths_at(quantiles, calibration, signal):
        mean_depth, reached, line = _measured(quality, depths)
        rows.append(HaltingRow(quantile, policy.threshold, mean_depth, reached, line))
    return rows


class BudgetRow(NamedTuple):
    """The run's own rule at a budget."""

    fraction: float                 # of full depth, that was asked for
    form: str                       # of the rule, as in `halting.rule_choice`: margin, margin-per-step, …; or fixed
    mean_depth: float               # that it took
    accuracy: float
    fixed_depth_accuracy: float     # of stopping every input at this mean depth


def budget_table(quality: Tensor, signals: Mapping[str, Tensor], calibration: Calibration,
                 fractions: Sequence[float] = BUDGETS) -> list[BudgetRow]:
    """Depth and accuracy under `at_mean_depth`, with thresholds from the calibration, in the form that won there."""
    rows = []
    for fraction, form, rule in calibration.choices_at(fractions):
        depths = first_passage(rule.stops(signals[rule.name]))
        rows.append(BudgetRow(fraction, form, *_measured(quality, depths)))
    return rows


def _measured(quality: Tensor, depths: Tensor) -> tuple[float, float, float]:
    """Mean depth, mean quality there, and the fixed-depth line at that mean depth."""
    mean_depth = depths.double().mean().item()
    reached = quality.double()[torch.arange(len(depths)), depths - 1].mean().item()
    return mean_depth, reached, fixed_depth_accuracy(quality.double().mean(dim=0).tolist(), mean_depth)


class BudgetTable(NamedTuple):
    """Adaptive and fixed depth of a model at a few budgets."""

    rows: list[BudgetRow]         # accuracy is the mean quality
    missing: list[float]          # shares of full depth that no threshold of the rule gives
    per_step: list[float]         # quality when every input stops after step 1, 2, …
    inputs: int

    def __str__(self) -> str:
        rows = [[f"{row.mean_depth:.2f}", row.form, f"{percent(row.accuracy)} "
                 f"±{100 * standard_error(row.accuracy, self.inputs):.2f}", percent(row.fixed_depth_accuracy),
                 f"{round(100 * (row.accuracy - row.fixed_depth_accuracy), 2) + 0.0:+.2f}"] for row in self.rows]
        shares = ", ".join(f"{100 * share:.0f} %" for share in self.missing)
        notes = [f"No threshold gives {shares} of full depth."] if self.missing else []
        return "\n".join([f"{self.inputs:,} inputs · depth {len(self.per_step)}", "",
                          table(["mean depth", "rule", "adaptive", "fixed depth", "gain"], rows), *notes])


def evaluate(model: IterativeModel, data: Iterable[Any], calibration: Calibration | None = None, *,
             quality: Judge | None = None, fractions: Sequence[float] = BUDGETS) -> BudgetTable:
    """Measure a calibrated model on inputs that it has not seen: adaptive against fixed depth at a few budgets.

    Args:
        data: batches of (inputs, targets), neither trained nor calibrated on.
        calibration: whose thresholds are used; None is the model's own, made by `frost.calibrate`.
        quality: how good an answer is, in [0, 1] a sample, where not as the head says.
        fractions: budgets, as shares of full depth.
    """
    if not isinstance(model, IterativeModel) or not isinstance(calibration, (Calibration, NoneType)):
        raise ValueError("evaluate takes a model with begin, step and read, and a calibration of it, got "
                         f"{type(model).__name__} and {type(calibration).__name__}.")
    calibration = model.calibration if calibration is None else calibration
    if calibration is None:
        raise NotCalibrated("thresholds come from held-out inputs; make a calibration first: frost.calibrate(model, "
                            "held_out).")
    if calibration.weights_hash != weights_hash(model):
        raise NotCalibrated("the calibration was made for other weights than the model has now; calibrate it again: "
                            "frost.calibrate(model, held_out).")
    if not fractions or not all(0 < fraction <= 1 for fraction in fractions):
        raise ValueError(f"fractions are shares of full depth, above 0 and at most 1, got {list(fractions)}.")
    with evaluating(model):
        traces = trace(model, data, list(calibration.signals), model.judged_by(quality))
    rows = budget_table(traces.quality, traces.signals, calibration, fractions)
    reached = {row.fraction for row in rows}
    missing = [share for share in fractions if share not in reached]
    return BudgetTable(rows, missing, traces.quality.mean(dim=0).tolist(), traces.inputs)


def standard_error(share: float, count: int) -> float:
    """Of a share of `count` independent images."""
    return math.sqrt(share * (1 - share) / count)


def settling_order(trajectory: Trajectory) -> Tensor:
    """Images from the easiest to the hardest: by the mean halting score along the trajectory, highest first."""
    return torch.argsort(trajectory.scores.mean(dim=1), descending=True, stable=True)
