"""All stopping rules in one protocol: at equal mean depth, with thresholds from held-out images (§6.3 and beyond).

Fixed depth is the line to beat: *adaptive gain* is the accuracy of a rule less that line at the
mean depth that the rule really took. Intervals come from a paired bootstrap over the images measured on; the
thresholds, which come from other images, stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from frost.evaluation.traces import Traces
from frost.halting.fixed_depth import fixed_depth_line
from frost.halting.rule_choice import PER_STEP
from frost.halting.stopping import label_oracle
from frost.halting.threshold_fit import Reached, bracket, per_step_at_mean_depth, stops_at

Depths = NDArray[np.int64]    # the step at which each image stops, (n,)
RESAMPLES = 2000


class Interval(NamedTuple):
    """A number, and where it lies in 95 % of the resamples."""

    value: float
    low: float
    high: float


class Comparison(NamedTuple):
    """A rule at one mean depth."""

    policy: str
    fraction: float        # of T, that was asked for
    mean_depth: float      # that it took
    accuracy: Interval
    gain: Interval         # accuracy less the fixed-depth line at that mean depth


def depths_of(policy: str, held_out: Traces, measured: Traces, mean_depth: float, seed: int = 0,
              known: dict[float, Reached] | None = None) -> Depths:
    """Where each measured image stops if the rule takes `mean_depth` steps on the held-out images.

    Where no threshold gives that mean depth, as with whole numbers of steps, a share of the images drawn at random uses
    the next one.

    Args:
        known: thresholds by price that other mean depths of this rule and these held-out images found; see
            `per_step_at_mean_depth`.
    """
    name = policy.removesuffix(PER_STEP)
    then, now = _numbers(held_out, name), _numbers(measured, name)
    if policy.endswith(PER_STEP):
        quality = held_out.quality.numpy()
        return stops_at(now, per_step_at_mean_depth(then, quality, mean_depth, known=known).thresholds)
    shallow, deep = bracket(then, mean_depth)
    width = deep.mean_depth - shallow.mean_depth
    share = (mean_depth - shallow.mean_depth) / width if width > 0 else 0.0
    goes_deep = np.random.default_rng(seed).random(len(now)) < share
    return np.where(goes_deep, stops_at(now, deep.thresholds), stops_at(now, shallow.thresholds))


def compare(policies: Sequence[str], held_out: Traces, measured: Traces, fractions: Sequence[float],
            seed: int = 0) -> list[Comparison]:
    """Every rule at every fraction of full depth."""
    return [judge(policy, fraction, depths_of(policy, held_out, measured, max(1.0, fraction * measured.depth), seed),
                  measured, seed) for policy in policies for fraction in fractions]


def judge(policy: str, fraction: float, depths: Depths, measured: Traces, seed: int = 0) -> Comparison:
    """Accuracy and adaptive gain of given depths, with intervals."""
    quality = measured.quality.numpy()
    line, draws = quality.mean(axis=0), _resampled_means(quality, seed)
    if policy == "fixed":     # the line itself, without the luck of who was drawn to go deeper
        accuracies = fixed_depth_line(draws, depths.mean())
        accuracy = _interval(float(fixed_depth_line(line[None], depths.mean())[0]), accuracies)
        return Comparison(policy, fraction, float(depths.mean()), accuracy, Interval(0.0, 0.0, 0.0))
    right = _at(quality, depths)
    accuracies, means = _resampled_means(np.stack([right, depths], axis=1), seed).T
    gain = right.mean() - fixed_depth_line(line[None], depths.mean())[0]
    return Comparison(policy, fraction, float(depths.mean()), _interval(right.mean(), accuracies),
                      _interval(gain, accuracies - fixed_depth_line(draws, means)))


def paired_difference(ours: Depths, theirs: Depths, measured: Traces, seed: int = 0) -> Interval:
    """Accuracy of one set of depths less that of another, on the same images.

    Where the two mean depths differ a little, the difference of the fixed-depth line between them is taken off.
    """
    quality = measured.quality.numpy()
    columns = np.stack([_at(quality, ours), _at(quality, theirs), ours, theirs], axis=1)

    def difference(means: NDArray[np.float64], line: NDArray[np.float64]) -> NDArray[np.float64]:
        return means[:, 0] - means[:, 1] - (fixed_depth_line(line, means[:, 2]) - fixed_depth_line(line, means[:, 3]))

    draws = difference(_resampled_means(columns, seed), _resampled_means(quality, seed))
    return _interval(float(difference(columns.mean(axis=0)[None], quality.mean(axis=0)[None])[0]), draws)


def area(policy: str, held_out: Traces, measured: Traces, points: int = 29) -> float:
    """Mean accuracy over all mean depths from 1 to T: the area under the depth–accuracy curve, in [0, 1]."""
    quality = measured.quality.numpy()
    budgets = np.linspace(1, measured.depth, points)
    known: dict[float, Reached] = {}
    if policy == "fixed":
        accuracies = fixed_depth_line(np.repeat(quality.mean(axis=0)[None], points, axis=0), budgets).tolist()
    else:
        accuracies = [_at(quality, depths_of(policy, held_out, measured, budget, known=known)).mean()
                      for budget in budgets]
    return float(np.mean([(before + after) / 2 for before, after in pairwise(accuracies)]))    # evenly spaced


def distance_to_oracle(policy: str, held_out: Traces, measured: Traces) -> float:
    """What a rule loses against the agreement oracle at the oracle's mean depth, which is right as often as step T."""
    budget = float(measured.settles.double().mean())
    quality = measured.quality.numpy()
    return float(quality[:, -1].mean() - _at(quality, depths_of(policy, held_out, measured, budget)).mean())


class Oracles(NamedTuple):
    """Rules that cannot be run, since they look at later steps, or at labels."""

    agreement_depth: float        # the first step after which the class no longer changes
    agreement_accuracy: float     # that of full depth, by definition
    label_depth: float            # the first right step
    label_accuracy: float


def oracles(measured: Traces) -> Oracles:
    """Mean depth and accuracy of the agreement oracle and the label oracle."""
    quality = measured.quality.numpy()
    agreement, label = measured.settles.numpy(), label_oracle(measured.quality).numpy()
    return Oracles(float(agreement.mean()), float(_at(quality, agreement).mean()), float(label.mean()),
                   float(_at(quality, label).mean()))


def _numbers(traces: Traces, name: str) -> NDArray[np.float32]:
    return traces.signals[name].numpy().astype(np.float32)


def _at(quality: NDArray[Any], depths: Depths) -> NDArray[np.float64]:
    return quality[np.arange(len(quality)), depths - 1].astype(float)


@lru_cache(maxsize=2)
def _draws(count: int, seed: int) -> NDArray[np.float32]:
    """How often each image is in each resample, (r, n)."""
    generator = np.random.default_rng(seed)
    return np.stack([np.bincount(generator.integers(0, count, count), minlength=count)
                     for _ in range(RESAMPLES)]).astype(np.float32)


def _resampled_means(columns: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """The mean of each column, (n, c), in each resample: (r, c)."""
    return (_draws(len(columns), seed) @ columns.astype(np.float32)).astype(float) / len(columns)


def _interval(value: float, draws: NDArray[np.float64]) -> Interval:
    low, high = np.quantile(draws, [0.025, 0.975])
    return Interval(float(value), float(low), float(high))
