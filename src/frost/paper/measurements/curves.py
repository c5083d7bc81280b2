"""Curves of known dimension, and what the estimator makes of them with as few points as a trajectory has (§6.1)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from frost.paper.intervals import Measured, of_mean
from frost.paper.measurements.dimension_and_exponent import box_dimension

KOCH = math.log(4) / math.log(3)
KNOWN = {"line": 1.0, "koch": KOCH, "square": 2.0}    # by name, the true dimension
GRIDS = 8    # of boxes, at random, over which an estimate spreads


def known_curve(name: str, points: int, channels: int = 2, seed: int = 0) -> Tensor:
    """That many points along a curve, turned at random into `channels` dimensions: (t, c).

    `line` is a straight line, `koch` the Koch curve, `square` a Hilbert curve, which fills a square.
    """
    if name not in KNOWN:
        raise ValueError(f"known curves are {', '.join(KNOWN)}; got '{name}'.")
    if points < 2 or channels < 2:
        raise ValueError(f"a curve needs at least 2 points and 2 channels, got {points} and {channels}.")
    fine = {"line": _line, "koch": _koch, "square": _hilbert}[name]()
    picked = fine[torch.linspace(0, len(fine) - 1, points).round().long()]
    generator = torch.Generator().manual_seed(seed)
    turn, _ = torch.linalg.qr(torch.randn(channels, channels, generator=generator, dtype=torch.double))
    return picked @ turn[:2]


def seen_with(name: str, count: int) -> Measured:
    """The estimate for a line, a Koch curve or a filled square with that many points, over random grids."""
    path = known_curve(name, count)[None]
    return of_mean([box_dimension(path, seed).value.item() for seed in range(GRIDS if count < 100 else 3)])


def _line() -> Tensor:
    return torch.linspace(0, 1, 4097, dtype=torch.double)[:, None] * torch.tensor([1.0, 0.0], dtype=torch.double)


def _koch(levels: int = 6) -> Tensor:
    """Each segment becomes four of a third of its length: 4^levels + 1 corners."""
    points = torch.tensor([[0.0, 0.0], [1.0, 0.0]], dtype=torch.double)
    cos, sin = 0.5, -math.sqrt(3) / 2
    turn = torch.tensor([[cos, -sin], [sin, cos]], dtype=torch.double)
    for _ in range(levels):
        start, third = points[:-1], (points[1:] - points[:-1]) / 3
        peak = start + third + third @ turn
        corners = torch.stack([start, start + third, peak, start + 2 * third], dim=1).flatten(0, 1)
        points = torch.cat([corners, points[-1:]])
    return points


def _hilbert(order: int = 6) -> Tensor:
    """The 4^order cells of a square in Hilbert's order."""
    cells = torch.zeros(1, 2, dtype=torch.double)
    for level in range(order):
        size = 2.0**level
        x, y = cells[:, 0], cells[:, 1]
        cells = torch.cat([torch.stack([y, x], 1), torch.stack([x, y + size], 1),
                           torch.stack([x + size, y + size], 1),
                           torch.stack([2 * size - 1 - y, size - 1 - x], 1)])
    return cells / (2.0**order - 1)
