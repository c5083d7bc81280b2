"""The Minkowski dimension of a latent path (§6.1), and the exponent of its increments.

    D = lim_{ε→0} log N(ε) / log(1/ε),   N(ε): boxes of side ε that the path visits

Two things stand between the definition and a path of T points. In many dimensions every point has a box of its own, so
each path is seen in the plane in which it spreads most. And below the length of its segments a polyline is a line, with
D = 1 by construction; so D is the slope of log (N − 1) over box sizes from half the path's extent down to the median
segment, less than a decade for T = 16. N − 1 rather than N: a straight line on a grid at random visits 1 + length/ε
boxes, and its slope is then 1. The estimate stays biased, and by how much is told by what it gives for curves of known
dimension with as many points (`curves`).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

SIZES = 8          # box sizes in the fit
BETWEEN = 48       # points put on each segment
SHIFTS = 4         # of the grid of boxes, at random; counts are averaged
SMALLEST = 2.0**-7 # box, as a share of the extent


class Dimension(NamedTuple):
    """One estimate for each path."""

    value: Tensor        # (b,)
    r_squared: Tensor    # of the straight line through the log counts, (b,)
    smallest: Tensor     # box in the fit, as a share of the path's extent, (b,)


def box_dimension(paths: Tensor, seed: int = 0) -> Dimension:
    """Box counting of many polylines, (b, t, c), with at least three points each."""
    if paths.ndim != 3 or paths.shape[1] < 3:
        raise ValueError(f"paths must be (b, t, c) with at least 3 steps, got shape {tuple(paths.shape)}.")
    paths = in_plane(paths)
    low = paths.amin(dim=1, keepdim=True)
    extent = (paths.amax(dim=1, keepdim=True) - low).amax(dim=2, keepdim=True).clamp_min(1e-300)
    paths = (paths - low) / extent                                           # the largest side is 1
    segments = (paths[:, 1:] - paths[:, :-1]).abs().amax(dim=2)              # (b, t − 1)
    smallest = segments.median(dim=1).values.clamp(SMALLEST, 0.25)
    share = torch.linspace(0, 1, SIZES, dtype=torch.double)
    sizes = 0.5 * (smallest[:, None] / 0.5) ** share                         # (b, s), from ½ down to the smallest
    generator = torch.Generator().manual_seed(seed)
    dense = _dense(paths, smallest)
    counts = torch.zeros(sizes.shape, dtype=torch.double)
    for index in range(SIZES):
        for _ in range(SHIFTS):
            shift = torch.rand(paths.shape[2], generator=generator, dtype=torch.double)
            counts[:, index] += _boxes(dense / sizes[:, index, None, None] + shift)
    slope, r_squared = _fit(-sizes.log(), (counts / SHIFTS - 1).clamp_min(0.25).log())
    return Dimension(slope, r_squared, smallest)


def in_plane(paths: Tensor) -> Tensor:
    """Each path in the plane of its two leading principal directions, (b, t, c) → (b, t, 2)."""
    centred = paths.double() - paths.double().mean(dim=1, keepdim=True)
    left, values, _ = torch.linalg.svd(centred, full_matrices=False)
    turn = torch.tensor(0.5)    # a straight line would lie on an axis, where it crosses the boxes of one direction only
    plane = left[:, :, :2] * values[:, None, :2]
    rotation = torch.stack([torch.stack([turn.cos(), -turn.sin()]), torch.stack([turn.sin(), turn.cos()])]).double()
    return plane @ rotation


def increments_exponent(paths: Tensor) -> Tensor:
    """The exponent H in ‖h_t − h_s‖ ∝ |t − s|^H (5), by least squares over lags up to T/2: (b, t, c) → (b,)."""
    depth = paths.shape[1]
    lags = torch.arange(1, max(3, depth // 2 + 1))
    if depth < 4:
        raise ValueError(f"an exponent needs at least 4 steps, got {depth}.")
    lengths = torch.stack([(paths[:, lag:] - paths[:, :-lag]).double().norm(dim=2).mean(dim=1) for lag in lags], dim=1)
    return _fit(lags.double().log().expand_as(lengths), lengths.clamp_min(1e-300).log())[0]


def _dense(paths: Tensor, smallest: Tensor) -> Tensor:
    """Points along each polyline, (b, t, c) → (b, m, c), near enough that few boxes are jumped over."""
    longest = float(((paths[:, 1:] - paths[:, :-1]).abs().amax(dim=(1, 2)) / smallest).max())
    between = max(2, min(BETWEEN, int(8 * longest) + 1))
    share = torch.arange(between, dtype=torch.double)[None, None, :, None] / between
    start, move = paths[:, :-1, None], (paths[:, 1:] - paths[:, :-1])[:, :, None]
    return torch.cat([(start + share * move).flatten(1, 2), paths[:, -1:]], dim=1)


def _boxes(points: Tensor) -> Tensor:
    """How many unit boxes each row of points falls into, (b, m, c) → (b,)."""
    generator = torch.Generator().manual_seed(1)
    odd = torch.randint(1, 2**62, (points.shape[2],), generator=generator) | 1
    keys = (points.floor().long() * odd).sum(dim=2).sort(dim=1).values    # equal keys are equal boxes, all but surely
    return 1.0 + (keys[:, 1:] != keys[:, :-1]).double().sum(dim=1)


def _fit(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Slope and R² of each row's straight line."""
    dx, dy = x - x.mean(dim=1, keepdim=True), y - y.mean(dim=1, keepdim=True)
    slope = (dx * dy).sum(dim=1) / dx.square().sum(dim=1)
    rest = (dy - slope[:, None] * dx).square().sum(dim=1)
    return slope, 1 - rest / dy.square().sum(dim=1).clamp_min(1e-300)
