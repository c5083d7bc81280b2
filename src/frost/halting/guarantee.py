"""How deep one must go to lose no more than so many points, with a bound that holds on fresh data.

Thresholds are tried from the highest, which loses nothing, downwards, each by a test of "this threshold loses more than
allowed"; the last one before the first that is not rejected is taken. Testing in a fixed order keeps the chance of any
wrong rejection at one test's (Angelopoulos et al., Learn then test, 2021). Each test is a bet: a gambler who stakes
against the hypothesis cannot, if it is true, multiply his capital by 1/δ with a chance of more than δ, for any number
of images and any distribution (Waudby-Smith and Ramdas, 2020).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from frost.halting.budget import Hits, Values

GRID = 200             # thresholds that are tried
FOR_GRID = 0.1         # share of the images that only says which thresholds to try
LARGEST_STAKE = 0.9    # of the capital: nobody is ever ruined


def losses_at(values: Values, hits: Hits, thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Right at full depth less right where it stops, −1, 0 or 1: (n, t) and (m,) thresholds → (n, m)."""
    depth = values.shape[1]
    maxima = np.maximum.accumulate(values[:, :-1], axis=1)                                  # (n, t − 1)
    stop = np.stack([np.searchsorted(row, thresholds, side="right") for row in maxima])     # steps passed, (n, m)
    return hits[:, -1:].astype(float) - np.take_along_axis(hits.astype(float), np.minimum(stop, depth - 1), axis=1)


def final_capital(losses: NDArray[np.float64], allowed: float) -> NDArray[np.float64]:
    """The logarithm of the largest capital of a gambler who stakes against "the mean loss is above `allowed`".

    Args:
        losses: in [−1, 1], images in an order that was drawn without looking at them, (n, m).
    """
    scaled, limit = (losses + 1) / 2, (allowed + 1) / 2        # in [0, 1]
    capital = np.zeros(losses.shape[1])
    largest = capital.copy()
    total, squares = np.full(losses.shape[1], 0.5), np.full(losses.shape[1], 0.25)
    for number, row in enumerate(scaled, start=1):
        mean = total / number
        spread = squares / number
        edge = limit - mean
        stake = np.clip(edge / (spread + edge**2), 0.0, LARGEST_STAKE / (1 - limit))   # known before the image is seen
        capital += np.log1p(stake * (limit - row))
        largest = np.maximum(largest, capital)
        total += row
        squares += (row - total / (number + 1)) ** 2
    return largest


def lowest_safe_threshold(values: Values, hits: Hits, allowed: float, confidence: float, seed: int = 0) -> float:
    """The lowest threshold that is certified to lose at most `allowed` (a share) with this confidence; +∞ if none is.

    Args:
        confidence: the chance, over the draw of the held-out images, that the promise holds for fresh ones.
    """
    if not 0.0 < allowed < 1.0:
        raise ValueError(f"the loss allowed must lie between 0 and 100 points, got {100 * allowed:g}.")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence}; 0.95 is usual.")
    order = np.random.default_rng(seed).permutation(len(values))
    cut = max(1, int(FOR_GRID * len(values)))
    grid_images, images = order[:cut], order[cut:]
    if not images.size:
        return math.inf
    maxima = np.maximum.accumulate(values[grid_images, :-1], axis=1)
    finite = maxima[np.isfinite(maxima)]
    if not finite.size:
        return math.inf
    grid = np.unique(np.quantile(finite, np.linspace(0, 1, GRID)))[::-1]
    safe = final_capital(losses_at(values[images], hits[images], grid), allowed) >= -math.log(1 - confidence)
    passed = int(np.argmin(safe)) if not safe.all() else len(grid)
    return float(grid[passed - 1]) if passed else math.inf
