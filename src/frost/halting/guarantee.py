"""How deep one must go to lose no more than so many points, with a bound that holds on fresh data.

Rules are tried from the deepest downwards, each by a test of "this rule loses more than allowed"; the last one before
the first that is not rejected is taken. Which rules are tried is said by images that are not tested on. Testing in a
fixed order keeps the chance of any wrong rejection at one test's (Angelopoulos et al., Learn then test, 2021).

The test is exact. Against full depth an image is lost, won or neither, so the counts of n images are trinomial, and the
chance of counts as good as ours is a finite sum. It depends on how often images are won, which is not known: the
largest chance is taken over all shares that the counts allow, but for a doubt that is added (Berger and Boos, 1994).
Nothing is promised about images of another kind than the held-out ones. The paper has no such budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from frost.halting.threshold_fit import Quality, ThresholdFit, Values, fitted_threshold, per_step_at_price, stops_at

GRID = 200             # thresholds that are tried
FOR_RULES = 0.2        # share of the images that only says which rules to try
RUNGS_APART = 0.05     # mean depth between two rules, about
PRICES = (*(-np.geomspace(0.1, 0.001, 16)), 0.0, *np.geomspace(0.001, 0.5, 32))    # of a step, in right answers
DOUBT = 0.02           # of the chance to be wrong: that the share of images won lies outside what is looked at
SHARES = 15            # of images won, that are looked at; then as many again around the worst
TAIL = 6.5             # standard deviations beyond which counts are left out: a chance below 1e-9


@lru_cache(maxsize=4096)
def chance_of_excess(lost: int, won: int, images: int, allowed: float, doubt: float) -> float:
    """A limit for the chance of counts as good as these, if the mean loss is `allowed` or more: a p-value.

    Args:
        lost: images that are right at full depth and wrong under the rule; `won` the other way round.
        allowed: a share of all images.
        doubt: chance that the share of images won lies outside what is looked at; it is part of the limit.
    """
    seen = float(_deviation(np.array(lost), np.array(won), images, allowed))
    if seen <= 0:
        return 1.0
    low, high = _shares_allowed(won, images, (1 - allowed) / 2, doubt)
    wons = _near(low, high, images)[:, None]
    losts = _near(low + allowed, high + allowed, images)[None, :]
    as_good = (wons + losts <= images) & (_deviation(losts, wons, images, allowed) >= seen - 1e-9)
    rows, columns = np.nonzero(as_good)
    then_won, then_lost = wons[rows, 0], losts[0, columns]
    same = images - then_won - then_lost
    factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, images + 1)))])
    ways = factorial[images] - factorial[then_won] - factorial[then_lost] - factorial[same]

    def chance(share: float) -> float:
        return float(np.exp(ways + then_won * math.log(share) + then_lost * math.log(share + allowed)
                            + same * math.log(max(1 - 2 * share - allowed, 1e-300))).sum())

    shares = np.linspace(low, high, SHARES)
    worst = int(np.argmax([chance(share) for share in shares]))
    around = np.linspace(shares[max(worst - 1, 0)], shares[min(worst + 1, SHARES - 1)], SHARES)
    return min(1.0, max(chance(share) for share in (shares[worst], *around)) + doubt)


def certified_threshold(signals: Mapping[str, Values], quality: Quality, allowed: float, confidence: float,
                        seed: int = 0) -> tuple[str, tuple[float, ...]]:
    """A signal and the thresholds of least depth that are certified to lose at most `allowed` (a share); +∞ if none.

    Which signal, with one threshold for all steps or one for each, is said by images that are not tested on.

    Args:
        confidence: the chance, over the draw of the held-out images, that the promise holds for fresh ones.
    """
    if not 0.0 < allowed < 1.0:
        raise ValueError(f"the loss allowed must lie between 0 and 100 points, got {100 * allowed:g}.")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence}; 0.95 is usual.")
    if not np.isin(quality, (0.0, 1.0)).all():
        raise ValueError("a certified loss needs a quality of 0 or 1, right or wrong, for each answer; this one has "
                         "values between. Calibrate with quality= a function that says yes or no.")
    is_right = quality > 0
    order = np.random.default_rng(seed).permutation(len(quality))
    count = max(1, int(FOR_RULES * len(quality)))
    known, fresh = order[:count], order[count:]
    signal, ladder = _ladder({name: values[known] for name, values in signals.items()}, quality[known], allowed)
    safe: tuple[float, ...] = (math.inf,)
    if not fresh.size:
        return signal, safe
    last, values = is_right[fresh, -1], signals[signal][fresh]
    for rule in ladder:
        then = is_right[fresh, stops_at(values, rule) - 1]
        lost, won = int((last & ~then).sum()), int((then & ~last).sum())
        if chance_of_excess(lost, won, len(fresh), allowed, DOUBT * (1 - confidence)) > 1 - confidence:
            break
        safe = rule
    return signal, safe


def _ladder(signals: Mapping[str, Values], quality: Quality, allowed: float) -> tuple[str, list[tuple[float, ...]]]:
    """The signal and the rules to try, in the form that promises least depth."""
    ladders = [(name, ladder) for name, values in signals.items()
               for ladder in (pooled_ladder(values), per_step_ladder(values, quality))]
    return min(ladders, key=lambda found: _least_depth(found[1], signals[found[0]], quality, allowed))


def _least_depth(ladder: list[tuple[float, ...]], values: Values, quality: Quality, allowed: float) -> float:
    """Of the rules that do not lose more on these images."""
    depths = [math.inf]
    for rule in ladder:
        at = stops_at(values, rule)
        if quality[:, -1].mean() - quality[np.arange(len(quality)), at - 1].mean() <= allowed:
            depths.append(float(at.mean()))
    return min(depths)


def pooled_ladder(values: Values) -> list[tuple[float, ...]]:
    """One threshold each, from the highest downwards."""
    maxima = np.maximum.accumulate(values[:, :-1], axis=1)
    finite = maxima[np.isfinite(maxima)]
    if not finite.size:
        return []
    return [(float(threshold),) for threshold in np.unique(np.quantile(finite, np.linspace(0, 1, GRID)))[::-1]]


def per_step_ladder(values: Values, quality: Quality, fit: ThresholdFit = fitted_threshold) -> list[tuple[float, ...]]:
    """A threshold for each step, deepest first: the best for one price of a step each, and between them."""
    finite = values[np.isfinite(values)]
    if values.shape[1] < 2 or not finite.size:
        return []
    bottom, top = float(finite.min()) - 1.0, float(finite.max()) + 1.0
    priced = sorted({(-rule.mean_depth, rule.thresholds) for rule in (
        per_step_at_price(values, quality, price, fit) for price in PRICES)})
    ends = [np.clip(np.array(thresholds), bottom, top) for _, thresholds in priced]
    rungs = [ends[0]]
    for (deep, _), (shallow, _), above, below in zip(priced[:-1], priced[1:], ends[:-1], ends[1:], strict=True):
        parts = math.ceil((shallow - deep) / RUNGS_APART)
        rungs += [above + (below - above) * part / parts for part in range(1, parts + 1)]
    ladder = {tuple(rung.tolist()): float(stops_at(values, tuple(rung.tolist())).mean()) for rung in rungs}
    return sorted(ladder, key=lambda thresholds: -ladder[thresholds])


def _deviation(lost: NDArray[np.int64], won: NDArray[np.int64], images: int, allowed: float) -> NDArray[np.float64]:
    """How far the counts lie below a mean loss of `allowed`, in standard deviations under it (Tango's score, 1998).

    The share won that makes the counts likeliest, among those with lost − won = allowed, is the root of a quadratic.
    """
    same = images - lost - won
    half = lost * (1 - allowed) + won * (1 - 3 * allowed) - 2 * same * allowed
    share = (half + np.sqrt(np.maximum(half**2 + 8 * images * won * allowed * (1 - allowed), 0.0))) / (4 * images)
    spread = 2 * np.clip(share, 0.0, (1 - allowed) / 2) + allowed - allowed**2
    result: NDArray[np.float64] = (allowed * images - lost + won) / np.sqrt(images * spread)
    return result


def _shares_allowed(won: int, images: int, most: float, doubt: float) -> tuple[float, float]:
    """The shares of images won under which counts like `won` are not too rare: Chernoff's bound, solved by halving."""
    seen = won / images
    limit = math.log(2 / doubt) / images

    def is_rare(share: float) -> bool:
        information = (seen * math.log(seen / share) if seen else 0.0) + (
            (1 - seen) * math.log((1 - seen) / (1 - share)) if seen < 1 else 0.0)
        return information > limit

    ends = []
    for outer in (1e-12, most * (1 - 1e-9)):
        inner = min(max(seen, 1e-12), most * (1 - 1e-9))
        if is_rare(outer):
            for _ in range(50):
                middle = (inner + outer) / 2
                inner, outer = (inner, middle) if is_rare(middle) else (middle, outer)
        ends.append(outer)
    return ends[0], ends[1]


def _near(low: float, high: float, images: int) -> NDArray[np.int64]:
    """Counts that shares between two limits make likely."""
    first = images * low - TAIL * math.sqrt(images * low) - TAIL**2
    last = images * high + TAIL * math.sqrt(images * high) + TAIL**2
    return np.arange(max(0, math.floor(first)), min(images, math.ceil(last)) + 1)
