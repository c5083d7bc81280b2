"""Quality against cost, adaptive and at fixed depth: the number that decides is quality at a budget.

A run's frontier is what its calibration answers at a row of mean depths, beside stopping all inputs after each step.
Costs are FLOPs an input in the mean, the stem included, so that runs of different models lie in one picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy.stats import binomtest

from frost.analysis.traces import Traces
from frost.halting.budget import stops_at
from frost.halting.calibration import Calibration, Cost

BUDGETS = 64              # mean depths at which the adaptive rule is asked, evenly spread from 1 to T
LOSSES = (0.005, 0.01)    # of quality, below that of full depth: what does it cost to lose no more?


class Point(NamedTuple):
    """One way to run a model."""

    run: str
    kind: Literal["adaptive", "fixed"]
    rule: str              # the form that won there
    mean_depth: float
    flops: float | None    # an input in the mean, stem included; None where they cannot be counted
    quality: float
    low: float             # 95 % interval (Wilson's)
    high: float


class Needed(NamedTuple):
    """The least that each kind needs for full quality less a loss."""

    run: str
    loss: float                     # a share, 0.01 is a point
    quality: float                  # full quality less the loss
    fixed_depth: float
    adaptive_depth: float
    fixed_flops: float | None
    adaptive_flops: float | None
    depth_ratio: float              # fixed ÷ adaptive
    flops_ratio: float | None       # fixed ÷ adaptive


def frontier(run: str, measured: Traces, calibration: Calibration | None, cost: Cost | None) -> list[Point]:
    """The points of a run on the inputs measured on; without a calibration those at fixed depth only."""
    depth, count = measured.depth, measured.inputs

    quality = measured.quality.double().numpy()

    def point(kind: Literal["adaptive", "fixed"], form: str, depths: np.ndarray) -> Point:
        reached, mean_depth = quality[np.arange(count), depths - 1], float(depths.mean())
        sure = binomtest(round(float(reached.sum())), count).proportion_ci(method="wilson")    # wider if not all 0 or 1
        return Point(run, kind, form, mean_depth, None if cost is None else cost.at(mean_depth), float(reached.mean()),
                     float(sure.low), float(sure.high))

    points = [point("fixed", "fixed", np.full(count, step)) for step in range(1, depth + 1)]
    if calibration is None or calibration.quality is None or depth < 2:
        return points
    for _, form, rule in calibration.choices_at(np.linspace(1, depth, BUDGETS) / depth):
        values = measured.signals[rule.name].numpy().astype(np.float32)
        points.append(point("adaptive", form, stops_at(values, rule.thresholds)))
    return points


def needed(points: Sequence[Point], loss: float) -> Needed | None:
    """What one run needs to lose no more than `loss` against full depth; None where it has no adaptive points."""
    fixed = [point for point in points if point.kind == "fixed"]
    adaptive = [point for point in points if point.kind == "adaptive"]
    if not adaptive:
        return None
    full = max(fixed, key=lambda point: point.mean_depth)
    quality = full.quality - loss
    then, now = (_first(line, quality) for line in (fixed, adaptive))
    costs = [point.flops for point in fixed if point.flops is not None]
    if len(costs) < len(fixed):
        return Needed(full.run, loss, quality, then, now, None, None, then / now, None)
    dear, cheap = (float(np.interp(depth, [point.mean_depth for point in fixed], costs)) for depth in (then, now))
    return Needed(full.run, loss, quality, then, now, dear, cheap, then / now, dear / cheap)


def _first(points: Sequence[Point], quality: float) -> float:
    """The least mean depth from which a line through the points, in the order of their depth, has that quality."""
    ordered = sorted(points, key=lambda point: point.mean_depth)
    before = ordered[0]
    for after in ordered:
        if after.quality >= quality:
            rise = after.quality - before.quality
            share = (quality - before.quality) / rise if rise > 0 else 1.0
            return before.mean_depth + share * (after.mean_depth - before.mean_depth)
        before = after
    return ordered[-1].mean_depth
