"""How deep one must go to lose no more than so many points, with a bound that holds on fresh data.

Rules are tried from the deepest, which loses nothing, downwards, each by a test of "this rule loses more than allowed";
the last one before the first that is not rejected is taken. Which rules are tried is said by images that are not tested
on. Testing in a fixed order keeps the chance of any wrong rejection at one test's (Angelopoulos et al., Learn then
test, 2021). Each test is a bet: a gambler who stakes against the hypothesis cannot, if it is true, multiply his capital
by 1/δ with a chance of more than δ, for any number of images and any distribution (Waudby-Smith and Ramdas, 2020).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from frost.halting.budget import Hits, Values, per_step_at_price, stops_at

GRID = 200             # thresholds that are tried
FOR_GRID = 0.1         # share of the images that only says which thresholds to try
FOR_RULES = 0.3        # the same where each step has its own
PRICES = (*(-np.geomspace(0.1, 0.001, 16)), 0.0, *np.geomspace(0.001, 0.5, 32))    # of a step, in right answers
LARGEST_STAKE = 0.9    # of the capital: nobody is ever ruined


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


def cheapest_safe(values: Values, hits: Hits, allowed: float, confidence: float, seed: int = 0,
                  per_step: bool = False) -> tuple[float, ...]:
    """The thresholds of the least depth that are certified to lose at most `allowed` (a share); +∞ if none are.

    Args:
        confidence: the chance, over the draw of the held-out images, that the promise holds for fresh ones.
        per_step: a threshold for each step instead of one for all.
    """
    if not 0.0 < allowed < 1.0:
        raise ValueError(f"the loss allowed must lie between 0 and 100 points, got {100 * allowed:g}.")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence}; 0.95 is usual.")
    order = np.random.default_rng(seed).permutation(len(values))
    cut = max(1, int((FOR_RULES if per_step else FOR_GRID) * len(values)))
    known, fresh = order[:cut], order[cut:]
    if not fresh.size:
        return (math.inf,)
    rules = per_step_ladder(values[known], hits[known]) if per_step else pooled_ladder(values[known])
    if not rules:
        return (math.inf,)
    last = hits[fresh, -1].astype(float)
    losses = np.stack([last - hits[fresh, stops_at(values[fresh], rule) - 1] for rule in rules], axis=1)
    safe = final_capital(losses, allowed) >= -math.log(1 - confidence)
    passed = int(np.argmin(safe)) if not safe.all() else len(rules)
    return rules[passed - 1] if passed else (math.inf,)


def pooled_ladder(values: Values) -> list[tuple[float, ...]]:
    """One threshold each, from the highest downwards."""
    maxima = np.maximum.accumulate(values[:, :-1], axis=1)
    finite = maxima[np.isfinite(maxima)]
    if not finite.size:
        return []
    return [(float(threshold),) for threshold in np.unique(np.quantile(finite, np.linspace(0, 1, GRID)))[::-1]]


def per_step_ladder(values: Values, hits: Hits) -> list[tuple[float, ...]]:
    """A threshold for each step, the best for one price of a step each, from the deepest downwards."""
    if values.shape[1] < 2:
        return []
    rungs = sorted({(-rule.mean_depth, rule.thresholds) for rule in (
        per_step_at_price(values, hits, price) for price in PRICES)})
    return [thresholds for _, thresholds in rungs]
