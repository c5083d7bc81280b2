"""Depths to time a model with, where no threshold has made them yet: a distribution, and a stream that follows it.

A stream of a few hundred images drawn one by one misses the mean that was asked for by several per cent, and with it
every speed-up. Here each depth gets its share of the stream, to one image, and chance decides the order alone.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import root

CLOSE = 1e-9
SHARE_OF_WIDEST = 0.9    # of the largest deviation that a mean leaves between 1 and T


def normal_depths(mean: float, deviation: float, depth: int) -> NDArray[np.float64]:
    """The share of images that stop after step 1, …, T: a normal on these T numbers with this mean and deviation.

        p_t ∝ exp(a t + b t²)

    a and b are solved for, since rounding and clipping a normal of the same mean and deviation would move both. A
    deviation that no such distribution has is lowered.
    """
    if not 1 <= mean <= depth:
        raise ValueError(f"mean depth must lie between 1 and {depth}, got {mean}.")
    steps = np.arange(1, depth + 1)
    widest = math.sqrt((mean - 1) * (depth - mean))
    if widest < CLOSE:
        return (steps == round(mean)).astype(float)
    deviation = min(deviation, SHARE_OF_WIDEST * widest)
    centred = (steps - mean) / deviation
    values = np.stack([centred, centred**2])

    def moments(found: NDArray[np.float64]) -> NDArray[np.float64]:
        return values @ _shares(found, values) - np.array([0.0, 1.0])

    def spread(found: NDArray[np.float64]) -> NDArray[np.float64]:
        shares = _shares(found, values)
        means = values @ shares
        return (values * shares) @ values.T - np.outer(means, means)

    solved = root(moments, np.array([0.0, -0.5]), jac=spread, tol=CLOSE)
    return _shares(solved.x, values)


def in_shares(shares: NDArray[np.float64], count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """`count` depths in random order, of which each has its share to one image; (t,) → (count,)."""
    places = (np.arange(count) + 0.5) / count
    depths = 1 + np.searchsorted(np.cumsum(shares)[:-1], places)
    return generator.permutation(depths).astype(np.int64)


def _shares(found: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    logs = found @ values
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()
