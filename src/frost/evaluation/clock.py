"""The frontier by the clock, for `frost bench RUN`: quality against inputs per second, adaptive and at fixed depth.

Quality is that of the run's held-out inputs, by its calibration; the clock is this machine's. All candidates take turns
in one sitting, and the best round of each counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from frost.core.precision import Precision
from frost.core.trajectory import IterativeModel
from frost.evaluation.depth_distribution import in_shares
from frost.evaluation.full_depth import at_full_depth
from frost.evaluation.timing import full_rate
from frost.halting.calibration import Calibration
from frost.report.tables import percent, table

SHARES = (0.25, 0.35, 0.5, 0.75, 1.0)    # of full depth
LEAST = 0.3                              # seconds that a fixed depth is timed for in a round


class ClockPoint(NamedTuple):
    """One way to run a model, on the clock."""

    kind: Literal["adaptive", "fixed"]
    rule: str
    mean_depth: float
    images_per_second: float
    quality: float               # on the held-out inputs


def clock_frontier(model: IterativeModel, calibration: Calibration, images: Tensor, precision: Precision, rounds: int,
                   count: int, seed: int, timed: Callable[[NDArray[np.int64]], float]) -> list[ClockPoint]:
    """Adaptive at shares of full depth, by `timed` (depths → images per second); fixed at every step, by a plain loop.
    """
    if calibration.quality is None or calibration.depth < 2:
        return []
    random = np.random.default_rng(seed)
    points: dict[tuple[str, float], ClockPoint] = {}
    fixed = [at_full_depth(model, "eager", precision, step) for step in range(1, calibration.depth + 1)]
    for number in range(rounds + 1):    # the first round warms up
        for _, form, rule in calibration.choices_at(SHARES):
            found = calibration.depths_of(rule)
            shares = np.bincount(found, minlength=calibration.depth + 1)[1:] / len(found)
            right = float(calibration.quality[np.arange(len(found)), found - 1].mean())
            rate = timed(in_shares(shares, count, random))
            _keep(points, number, ClockPoint("adaptive", form, float(found.mean()), rate, right))
        for step, run in enumerate(fixed, 1):
            rate = full_rate(run, images, LEAST)
            _keep(points, number, ClockPoint("fixed", "fixed", float(step), rate,
                                             float(calibration.quality[:, step - 1].mean())))
    return list(points.values())


def _keep(points: dict[tuple[str, float], ClockPoint], number: int, point: ClockPoint) -> None:
    """The best round of each; the warm-up is forgotten."""
    key = point.kind, point.mean_depth
    if number < 2 or point.images_per_second > points[key].images_per_second:
        points[key] = point


def text(points: list[ClockPoint], batch: int) -> str:
    """A table for a person."""
    rows = [[point.kind, point.rule if point.kind == "adaptive" else "", f"{point.mean_depth:.2f}",
             f"{point.images_per_second:.1f}", percent(point.quality)]
            for point in sorted(points, key=lambda point: (point.kind, point.mean_depth))]
    return "\n".join([f"By the clock, batch {batch}; quality is that of the run's held-out inputs:", "",
                      table(["kind", "rule", "mean depth", "images/s", "quality"], rows)])
