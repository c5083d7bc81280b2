"""What the estimator of a path's dimension makes of curves whose dimension is known (§6.1)."""

from __future__ import annotations

from frost.analysis.curves import known_curve
from frost.analysis.dimension import box_dimension
from frost.analysis.intervals import Measured, of_mean

GRIDS = 8    # of boxes, at random, over which an estimate spreads


def seen_with(name: str, count: int) -> Measured:
    """The estimate for a line, a Koch curve or a filled square with that many points, over random grids."""
    path = known_curve(name, count)[None]
    return of_mean([box_dimension(path, seed).value.item() for seed in range(GRIDS if count < 100 else 3)])
