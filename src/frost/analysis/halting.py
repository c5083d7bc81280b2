"""The halting table (§6.3, Table 2), with the line that it has to beat.

A stopping rule is worth something only if it is more accurate than stopping everybody at the same mean depth: the paper
does not show that line, every table of ours does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from frost.core.trajectory import Prediction, Trajectory, choose
from frost.halting.calibration import Calibration
from frost.halting.stopping import Rule, StoppingRule, depth_under, first_passage

BUDGETS = (0.35, 0.5, 0.75, 1.0)              # of full depth
EIGHTHS = tuple(i / 8 for i in range(1, 9))   # the quantiles of Table 2


class HaltingRow(NamedTuple):
    """One line of the table."""

    quantile: float
    threshold: float | None         # s_halt in [0, 1]; None at quantile 1
    mean_depth: float
    accuracy: float
    fixed_depth_accuracy: float     # of stopping everybody at this mean depth


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
    below = math.floor(mean_depth)
    above = min(below + 1, len(per_step))
    share = mean_depth - below
    return (1 - share) * per_step[below - 1] + share * per_step[above - 1]


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
    form: str                       # of the rule, as in `halting.choice`: margin, margin-per-step, …; or fixed
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


def standard_error(share: float, count: int) -> float:
    """Of a share of `count` independent images."""
    return math.sqrt(share * (1 - share) / count)


def settling_order(trajectory: Trajectory) -> Tensor:
    """Images from the easiest to the hardest: by the mean halting score along the trajectory, highest first."""
    return torch.argsort(trajectory.scores.mean(dim=1), descending=True, stable=True)
