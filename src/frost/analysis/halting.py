"""The halting table (§6.3, Table 2), with the line that it has to beat.

A stopping rule is worth something only if it is more accurate than stopping everybody at the same mean depth: the paper
does not show that line, every table of ours does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from frost.core.trajectory import Prediction, Trajectory, choose
from frost.halting.calibration import Calibration
from frost.halting.policy import Policy, Rule, depth_under, first_passage
from frost.halting.signals import SIGNALS, along

BUDGETS = (0.35, 0.5, 0.75, 1.0)              # of full depth
EIGHTHS = tuple(i / 8 for i in range(1, 9))   # the quantiles of Table 2


class HaltingRow(NamedTuple):
    """One line of the table."""

    quantile: float
    threshold: float | None         # s_halt in [0, 1]; None at quantile 1
    mean_depth: float
    accuracy: float
    fixed_depth_accuracy: float     # of stopping everybody at this mean depth


def halt(trajectory: Trajectory, policy: Policy) -> Prediction:
    """Run everything, then pick: the obvious way to stop each image where a rule says so."""
    return choose(trajectory, depth_under(policy, trajectory.outputs, trajectory.score_logits, trajectory.states))


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


def depths_at(quantiles: Sequence[float], trajectory: Trajectory, calibration: Calibration,
              signal: Tensor | None = None) -> Iterator[tuple[float, Rule, Tensor]]:
    """For each quantile its rule, and the step at which each image stops under it."""
    if signal is None:
        signal = along(SIGNALS[calibration.rule], trajectory.outputs, trajectory.score_logits, trajectory.states)
    for quantile in quantiles:
        rule = calibration.at_quantile(quantile)
        yield quantile, rule, first_passage(rule.stops(signal))


def halting_table(trajectory: Trajectory, labels: Tensor, calibration: Calibration,
                  quantiles: Sequence[float] = EIGHTHS, signal: Tensor | None = None) -> list[HaltingRow]:
    """Mean depth and accuracy for each quantile, with thresholds from the calibration.

    Args:
        signal: what the calibration's rule looks at, (b, t), where the trajectory kept no states to compute it from.
    """
    per_step = per_step_accuracy(trajectory.outputs, labels)
    rows = []
    for quantile, policy, depths in depths_at(quantiles, trajectory, calibration, signal):
        prediction = choose(trajectory, depths)
        mean_depth = prediction.depth.double().mean().item()
        right = (prediction.outputs.argmax(dim=-1) == labels).double().mean().item()
        line = fixed_depth_accuracy(per_step, mean_depth)
        rows.append(HaltingRow(quantile, policy.threshold, mean_depth, right, line))
    return rows


class BudgetRow(NamedTuple):
    """The run's own rule at a budget."""

    fraction: float                 # of full depth, that was asked for
    mean_depth: float               # that it took
    accuracy: float
    fixed_depth_accuracy: float     # of stopping everybody at this mean depth


def budget_table(outputs: Tensor, labels: Tensor, calibration: Calibration, signal: Tensor,
                 fractions: Sequence[float] = BUDGETS) -> list[BudgetRow]:
    """Depth and accuracy under `at_mean_depth`, with thresholds from the calibration, in the form that it prefers."""
    per_step, rows = per_step_accuracy(outputs, labels), []
    for fraction in fractions:
        try:
            rule = calibration.at_mean_depth(max(1.0, fraction * outputs.shape[1]))
        except ValueError:
            continue    # a rule in whole steps may have no threshold near it
        depth = first_passage(rule.stops(signal))
        right = outputs[torch.arange(len(labels)), depth - 1].argmax(dim=-1) == labels
        mean_depth = depth.double().mean().item()
        rows.append(BudgetRow(fraction, mean_depth, right.double().mean().item(),
                              fixed_depth_accuracy(per_step, mean_depth)))
    return rows


def standard_error(share: float, count: int) -> float:
    """Of a share of `count` independent images."""
    return math.sqrt(share * (1 - share) / count)


def settling_order(trajectory: Trajectory) -> Tensor:
    """Images from the easiest to the hardest: by the mean halting score along the trajectory, highest first."""
    return torch.argsort(trajectory.scores.mean(dim=1), descending=True, stable=True)
