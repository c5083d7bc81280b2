"""From a mean depth to thresholds, by first passage (§4.4).

The pooled quantile of (20) is not the share of images that stop: an image stops at the first step that exceeds the
threshold, and its later scores no longer count. These functions look at whole traces, the signal of each held-out image
at each step, and answer exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]    # (n, t)
Quality = NDArray[np.float64]   # (n, t): how good the answer is at that step, in [0, 1]
SWEEPS = 4                      # over the steps; the one that is worth most is taken
HALVINGS = 20                   # of an interval that holds the price of a step: to 2e-6 of a right answer
# A threshold for one step, from the values there and from what stopping is worth more than going on.
ThresholdFit = Callable[[Values, NDArray[np.float64]], float]


class Reached(NamedTuple):
    """Thresholds, and the mean depth that they give on the traces."""

    thresholds: tuple[float, ...]
    mean_depth: float


def stops_at(values: Values, thresholds: tuple[float, ...]) -> NDArray[np.int64]:
    """The step at which each trace stops, (n, t) → (n,); the last step stops every one."""
    depth = values.shape[1]
    each = np.array([thresholds[min(step, len(thresholds) - 1)] for step in range(depth)])
    exceeds = values > each
    exceeds[:, -1] = True
    return exceeds.argmax(axis=1) + 1


def pooled_at_mean_depth(values: Values, mean_depth: float) -> Reached:
    """The one threshold whose mean depth is nearest to the one asked for."""
    return min(bracket(values, mean_depth), key=lambda reached: abs(reached.mean_depth - mean_depth))


def bracket(values: Values, mean_depth: float) -> tuple[Reached, Reached]:
    """The two neighbouring thresholds whose mean depths hold the target between them, the shallower first.

    An image goes on past step t as long as no signal up to t has exceeded the threshold θ, so

        mean depth(θ) = 1 + Σ_{t<T} P(max_{s≤t} v_s ≤ θ)

    which is a count of running maxima at or below θ: θ is one of them, found by its place in their order.
    """
    count, depth = values.shape
    _check_depth(mean_depth, depth)
    maxima = np.sort(np.maximum.accumulate(values[:, :-1], axis=1), axis=None)
    target = math.ceil((mean_depth - 1) * count - 1e-9)     # running maxima at or below θ
    if target <= 0 or not maxima.size:
        return (_reached(values, (-math.inf,)),) * 2
    # of equal maxima either none or all are at or below θ
    place = maxima[target - 1]
    below = int(np.searchsorted(maxima, place, side="left"))
    shallow = -math.inf if below == 0 else float(maxima[below - 1])
    deep = math.inf if place == maxima[-1] else float(place)
    return _reached(values, (shallow,)), _reached(values, (deep,))


def best_threshold(values: Values, advantage: NDArray[np.float64]) -> float:
    """The threshold above which stopping gains most in sum on these very images."""
    if not values.size:
        return math.inf
    order = np.argsort(-values, kind="stable")
    ordered = values[order]
    sums = np.cumsum(advantage[order])
    last = np.append(ordered[1:] < ordered[:-1], True)          # a threshold cannot pass between equal values
    sums = np.where(last, sums, -np.inf)
    best = int(sums.argmax())
    if sums[best] <= 0:
        return math.inf
    if best + 1 == len(ordered):
        return -math.inf
    return float(ordered[best]) / 2 + float(ordered[best + 1]) / 2


def fitted_threshold(values: Values, advantage: NDArray[np.float64]) -> float:
    """The threshold above which stopping gains, if its advantage is a straight line of the value.

    One image more or less moves `best_threshold` far where the sums are flat; two numbers fitted to all images hardly
    move, and do better on images that are fresh (docs/decisions.md 90).
    """
    known = np.isfinite(values)
    if not known.any():
        return math.inf
    at, worth = values[known].astype(np.float64), advantage[known]
    off = at - at.mean()
    spread = float(off @ off)
    slope = float(off @ worth) / spread if spread > 0 else 0.0
    if slope <= 0:                                              # a higher value says nothing for stopping
        return -math.inf if worth.mean() > 0 else math.inf
    crossing = float(at.mean() - worth.mean() / slope)
    if crossing >= at.max():
        return math.inf
    return -math.inf if crossing < at.min() else crossing


def per_step_at_price(values: Values, quality: Quality, price: float, fit: ThresholdFit = fitted_threshold) -> Reached:
    """A threshold for each step that makes quality less `price` times steps large on the traces.

    Backward induction over the steps, then again among the images that really reach a step: at step t, an image that
    stops is worth its quality there, and one that goes on what the later thresholds make of it.
    """
    depth = values.shape[1]
    thresholds = np.full(depth, -np.inf)
    worth = quality - price * np.arange(1, depth + 1)
    found = (-math.inf, thresholds)
    for sweep in range(SWEEPS):
        going = worth[:, -1].copy()               # what an image is worth that has not stopped so far
        best = thresholds.copy()
        stopped = np.logical_or.accumulate(values > thresholds, axis=1)    # at this step or before
        for step in range(depth - 2, -1, -1):
            advantage = worth[:, step] - going
            if sweep and step:
                reaches = ~stopped[:, step - 1]
                best[step] = fit(values[reaches, step], advantage[reaches])
            else:
                best[step] = fit(values[:, step], advantage)
            going = np.where(values[:, step] > best[step], worth[:, step], going)
        if sweep and np.array_equal(best, thresholds):
            break
        thresholds = best
        gained = float(worth[np.arange(len(values)), stops_at(values, tuple(best.tolist())) - 1].mean())
        if gained > found[0]:
            found = (gained, best)
    return _reached(values, tuple(found[1].tolist()))


def per_step_at_mean_depth(values: Values, quality: Quality, mean_depth: float, fit: ThresholdFit = fitted_threshold,
                           known: dict[float, Reached] | None = None) -> Reached:
    """A threshold for each step: a good use of a mean depth, on images like those of the traces.

    The price of a step is found by halving. Where two neighbouring prices jump over the target, the thresholds
    between theirs are searched as well.

    Args:
        known: what each price gives on these traces with this fit, as far as it was found; more is added. Most prices
            of one mean depth are those of another.
    """
    depth, known = values.shape[1], {} if known is None else known
    _check_depth(mean_depth, depth)
    low, high = -1.0, 1.0                                       # at −1 a step is a gift, at 1 nothing is worth it
    deep, shallow = _reached(values, (math.inf,) * depth), _reached(values, (-math.inf,) * depth)
    for _ in range(HALVINGS):
        price = (low + high) / 2
        middle = known[price] = known.get(price) or per_step_at_price(values, quality, price, fit)
        if middle.mean_depth >= mean_depth:
            low, deep = price, middle
        else:
            high, shallow = price, middle
    return _between(values, deep, shallow, mean_depth)


def _between(values: Values, deep: Reached, shallow: Reached, mean_depth: float) -> Reached:
    """Thresholds on the way from one set to another whose mean depth is nearest to the target."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return min((deep, shallow), key=lambda reached: abs(reached.mean_depth - mean_depth))
    bottom, top = float(finite.min()) - 1.0, float(finite.max()) + 1.0
    ends = [np.clip(np.array(reached.thresholds), bottom, top) for reached in (deep, shallow)]
    best, low, high = min((deep, shallow), key=lambda reached: abs(reached.mean_depth - mean_depth)), 0.0, 1.0
    for _ in range(HALVINGS):
        share = (low + high) / 2
        middle = _reached(values, tuple(((1 - share) * ends[0] + share * ends[1]).tolist()))
        best = min((best, middle), key=lambda reached: abs(reached.mean_depth - mean_depth))
        low, high = (share, high) if middle.mean_depth >= mean_depth else (low, share)
    return best


def _reached(values: Values, thresholds: tuple[float, ...]) -> Reached:
    return Reached(thresholds, float(stops_at(values, thresholds).mean()))


def _check_depth(mean_depth: float, depth: int) -> None:
    if not 1 <= mean_depth <= depth:
        raise ValueError(f"mean depth must lie between 1 and {depth}, the steps of a trace; got {mean_depth}.")
