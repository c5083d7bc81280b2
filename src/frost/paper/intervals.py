"""A number with where it lies in 95 % of the cases, and from how many observations."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

NORMAL = 1.959964    # 97.5 % of a normal distribution lie below


class Measured(NamedTuple):
    """A measured number, its 95 % interval, and the number of observations; with one, the interval is the number."""

    value: float
    low: float
    high: float
    n: int


def of_mean(values: ArrayLike) -> Measured:
    """The mean of independent observations, such as one for each image or each seed, with Student's interval."""
    numbers = np.asarray(values, dtype=float)
    if numbers.ndim != 1 or not len(numbers):
        raise ValueError(f"a mean needs a row of numbers, got shape {numbers.shape}.")
    mean, count = float(numbers.mean()), len(numbers)
    if count == 1:
        return Measured(mean, mean, mean, 1)
    half = float(stdtrit(count - 1, 0.975)) * float(numbers.std(ddof=1)) / math.sqrt(count)
    return Measured(mean, mean - half, mean + half, count)


def of_bootstrap(values: ArrayLike, resamples: int = 1000, seed: int = 0) -> Measured:
    """The mean of independent observations, with the interval of its resamples."""
    numbers = np.asarray(values, dtype=float)
    generator = np.random.default_rng(seed)
    means = [numbers[generator.integers(0, len(numbers), len(numbers))].mean() for _ in range(resamples)]
    low, high = np.quantile(means, [0.025, 0.975])
    return Measured(float(numbers.mean()), float(low), float(high), len(numbers))


def of_share(correct: int, count: int) -> Measured:
    """A share of independent images, with Wilson's interval, which stays in [0, 1]."""
    if not 0 <= correct <= count or count < 1:
        raise ValueError(f"a share needs 0 ≤ correct ≤ count and a count of at least 1, got {correct} of {count}.")
    share, square = correct / count, NORMAL**2
    centre = (share + square / (2 * count)) / (1 + square / count)
    half = NORMAL / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return Measured(share, min(share, centre - half), max(share, centre + half), count)


def difference(first: Measured, second: Measured) -> Measured:
    """Of two independent measurements; the half widths add in squares."""
    low = math.hypot(first.value - first.low, second.high - second.value)
    high = math.hypot(first.high - first.value, second.value - second.low)
    gap = first.value - second.value
    return Measured(gap, gap - low, gap + high, min(first.n, second.n))


def scaled(first: Measured, factor: float, more: float = 0.0) -> Measured:
    """factor × the number + more, for a factor above 0."""
    return Measured(factor * first.value + more, factor * first.low + more, factor * first.high + more, first.n)


def exact(value: float) -> Measured:
    """A number without an interval: counted, or the one value that a run has."""
    return Measured(value, value, value, 1)


def rank_correlation(first: ArrayLike, second: ArrayLike) -> list[float | None]:
    """Spearman's over the rows, for each column, (b, t), (b, t) → T numbers; equal values share their mean rank.

    None where all values of a column are equal.
    """
    from scipy.stats import spearmanr

    pairs = zip(np.asarray(first, dtype=float).T, np.asarray(second, dtype=float).T, strict=True)
    return [None if np.ptp(one) == 0 or np.ptp(other) == 0 else float(spearmanr(one, other).statistic)
            for one, other in pairs]
