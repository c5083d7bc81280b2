"""The Minkowski dimension of a latent path (§6.1), and the exponent of its increments.

    D = lim_{ε→0} log N(ε) / log(1/ε),   N(ε): boxes of side ε that the path visits

Two things stand between the definition and a path of T points. In many dimensions every point has a box of its own, so
each path is seen in the plane in which it spreads most. And below the length of its segments a polyline is a line, with
D = 1 by construction; so D is the slope of log (N − 1) over box sizes from half the path's extent down to the median
segment, less than a decade for T = 16. N − 1 rather than N: a straight line on a grid at random visits 1 + length/ε
boxes, and its slope is then 1. How the grid of boxes lies decides as much as the paths do, so counts are averaged over
many turns and shifts of it. The estimate stays biased; `curves` shows by how much, with as many points of curves whose
dimension is known.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

SIZES = 8          # box sizes in the fit
TURNS = 24         # of the grid of boxes, evenly over a right angle, each with a shift at random
SMALLEST = 2.0**-7 # box, as a share of the extent
BETWEEN = 8        # points that lie on a length of the smallest box
MOST = 4096        # points along a path


class Dimension(NamedTuple):
    """One estimate for each path."""

    value: Tensor        # (b,)
    r_squared: Tensor    # of the straight line through the log counts, (b,)
    smallest: Tensor     # box in the fit, as a share of the path's extent, (b,)


def box_dimension(paths: Tensor, seed: int = 0) -> Dimension:
    """Box counting of many polylines, (b, t, c), with at least three points each."""
    if paths.ndim != 3 or paths.shape[1] < 3:
        raise ValueError(f"paths must be (b, t, c) with at least 3 steps, got shape {tuple(paths.shape)}.")
    plane = in_plane(paths)
    extent = (plane.amax(dim=1) - plane.amin(dim=1)).norm(dim=1).clamp_min(1e-300)
    plane = plane / extent[:, None, None]                                    # the diagonal of its frame is 1
    segments = (plane[:, 1:] - plane[:, :-1]).norm(dim=2)                    # (b, t − 1)
    smallest = segments.median(dim=1).values.clamp(SMALLEST, 0.25)
    share = torch.linspace(0, 1, SIZES, dtype=torch.double)
    sizes = 0.5 * (smallest[:, None] / 0.5) ** share                         # (b, s), from ½ down to the smallest
    dense = _dense(plane, segments, smallest)
    generator = torch.Generator().manual_seed(seed)
    counts = torch.zeros(sizes.shape, dtype=torch.double)
    for turn in range(TURNS):
        turned = dense @ _rotation(math.pi / 2 * turn / TURNS)
        for index in range(SIZES):
            shift = torch.rand(2, generator=generator, dtype=torch.double)
            counts[:, index] += _boxes(turned / sizes[:, index, None, None] + shift) - 1
    slope, r_squared = _fit(-sizes.log(), (counts / TURNS).clamp_min(0.25).log())
    return Dimension(slope, r_squared, smallest)


def in_plane(paths: Tensor) -> Tensor:
    """Each path in the plane of its two leading principal directions, (b, t, c) → (b, t, 2)."""
    centred = paths.double() - paths.double().mean(dim=1, keepdim=True)
    left, values, _ = torch.linalg.svd(centred, full_matrices=False)
    if values.shape[1] < 2:
        return torch.cat([left * values[:, None], torch.zeros_like(left)], dim=2)
    return left[:, :, :2] * values[:, None, :2]


def increments_exponent(paths: Tensor) -> Tensor:
    """The exponent H in ‖h_t − h_s‖ ∝ |t − s|^H (5), by least squares over lags up to T/2: (b, t, c) → (b,)."""
    depth = paths.shape[1]
    lags = torch.arange(1, max(3, depth // 2 + 1))
    if depth < 4:
        raise ValueError(f"an exponent needs at least 4 steps, got {depth}.")
    lengths = torch.stack([(paths[:, lag:] - paths[:, :-lag]).double().norm(dim=2).mean(dim=1) for lag in lags], dim=1)
    return _fit(lags.double().log().expand_as(lengths), lengths.clamp_min(1e-300).log())[0]


def _rotation(angle: float) -> Tensor:
    return torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=torch.double)


def _dense(plane: Tensor, segments: Tensor, smallest: Tensor) -> Tensor:
    """Points evenly along each polyline by length, (b, t, 2) → (b, m, 2), so near that few boxes are jumped over."""
    lengths = torch.cat([torch.zeros_like(segments[:, :1]), segments.cumsum(dim=1)], dim=1)      # (b, t), from 0
    count = min(MOST, int(BETWEEN * float((lengths[:, -1] / smallest).max())) + 2)
    places = torch.linspace(0, 1, count, dtype=torch.double) * lengths[:, -1:]                   # (b, m)
    after = torch.searchsorted(lengths, places.contiguous()).clamp(1, plane.shape[1] - 1)
    start, end = lengths.gather(1, after - 1), lengths.gather(1, after)
    share = ((places - start) / (end - start).clamp_min(1e-300)).clamp(0, 1)[:, :, None]
    first, second = (plane.gather(1, index[:, :, None].expand(-1, -1, 2)) for index in (after - 1, after))
    return first + share * (second - first)


def _boxes(points: Tensor) -> Tensor:
    """How many unit boxes each row of points falls into, (b, m, 2) → (b,)."""
    cells = points.floor().long()
    keys = (cells[:, :, 0] * 2**20 + cells[:, :, 1]).sort(dim=1).values
    return 1.0 + (keys[:, 1:] != keys[:, :-1]).double().sum(dim=1)


def _fit(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Slope and R² of each row's straight line."""
    dx, dy = x - x.mean(dim=1, keepdim=True), y - y.mean(dim=1, keepdim=True)
    slope = (dx * dy).sum(dim=1) / dx.square().sum(dim=1)
    rest = (dy - slope[:, None] * dx).square().sum(dim=1)
    return slope, 1 - rest / dy.square().sum(dim=1).clamp_min(1e-300)
