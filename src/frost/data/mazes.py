"""Mazes made by code: the longer and the more winding the way, the more steps it takes to find.

A maze is a random spanning tree of a square grid, grown by depth-first search, with a start and a goal. An input has
six maps: a wall to the north, east, south and west of each cell, the start, and the goal. The answer is the cells of
the one way between the two.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from frost.data.splits import DataSet, Split, distinct

SIDE = 9
LARGER = (11, 13, 17)                             # beyond what is trained on
TRAIN, VALIDATION, TEST, BEYOND = 40_000, 2_000, 8_000, 1_000
SEED = 20_260_118
NORTH, EAST, SOUTH, WEST, START, GOAL = range(6)
OPPOSITE = (SOUTH, WEST, NORTH, EAST)


def load_mazes() -> DataSet[Split]:
    """Distinct mazes of 9 × 9 cells in three splits, and larger ones beside them; the same on every machine."""
    train, validation, test = distinct(mazes, SIDE, (TRAIN, VALIDATION, TEST), SEED)
    beyond = {f"{side} × {side}": distinct(mazes, side, (BEYOND,), SEED + side)[0] for side in LARGER}
    return DataSet("mazes", train, validation, test, ("off the way", "on the way"), beyond)


def mazes(count: int, side: int, random: np.random.Generator) -> Split:
    """Mazes as six maps, (n, 6, side, side), and the cells of their ways, (n, side, side)."""
    walls, cells = carved(count, side, random), side * side
    ends = random.integers(0, cells, count)
    ends = np.stack([ends, (ends + random.integers(1, cells, count)) % cells], axis=1)    # two that differ
    images = np.zeros((count, 6, cells), np.float32)
    images[:, :4] = walls
    images[np.arange(count), START, ends[:, 0]] = images[np.arange(count), GOAL, ends[:, 1]] = 1
    way = way_between(walls, ends, side)
    return Split(torch.from_numpy(images.reshape(count, 6, side, side)),
                 torch.from_numpy(way.reshape(count, side, side).astype(np.int64)))


def carved(count: int, side: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """The walls of random spanning trees, bool (n, 4, cells); all mazes are grown side by side, a move at a time."""
    cells, rows = side * side, np.arange(count)
    neighbour = _neighbours(side)
    walls = np.ones((count, 4, cells), bool)
    seen = np.zeros((count, cells + 1), bool)
    seen[:, cells] = True                                          # beyond the border
    stack, height = np.zeros((count, cells), np.int64), np.zeros(count, np.int64)
    stack[:, 0] = random.integers(0, cells, count)
    seen[rows, stack[:, 0]] = True
    for _ in range(2 * (cells - 1)):                               # each cell but the first is entered and left once
        here = stack[rows, height]
        free = ~seen[rows[:, None], neighbour[here]]               # (n, 4)
        goes = free.any(axis=1)
        way = np.where(free, random.random((count, 4)), -1.0).argmax(axis=1)
        there = neighbour[here, way]
        some, start, end, side_of = rows[goes], here[goes], there[goes], way[goes]
        walls[some, side_of, start] = walls[some, np.array(OPPOSITE)[side_of], end] = False
        seen[some, end] = True
        height += np.where(goes, 1, -1)
        np.maximum(height, 0, out=height)
        stack[some, height[goes]] = end
    return walls


def way_between(walls: NDArray[np.bool_], ends: NDArray[np.int64], side: int) -> NDArray[np.bool_]:
    """The cells of the way between two ends, bool (n, cells): what is left when all dead ends are filled."""
    count, _, cells = walls.shape
    neighbour = _neighbours(side)
    is_end = np.zeros((count, cells), bool)
    is_end[np.arange(count)[:, None], ends] = True
    left = np.concatenate([np.ones((count, cells), bool), np.zeros((count, 1), bool)], axis=1)
    for _ in range(cells):
        exits = sum((~walls[:, way] & left[:, neighbour[:, way]]).astype(np.int8) for way in range(4))
        dead = left[:, :cells] & ~is_end & (exits <= 1)
        if not dead.any():
            break
        left[:, :cells] &= ~dead
    return left[:, :cells]


def _neighbours(side: int) -> NDArray[np.int64]:
    """The cell to the north, east, south and west of each cell, (cells, 4); `cells` stands for beyond the border."""
    row, column = np.divmod(np.arange(side * side), side)
    beyond = side * side
    return np.stack([np.where(row > 0, row * side - side + column, beyond),
                     np.where(column < side - 1, row * side + column + 1, beyond),
                     np.where(row < side - 1, row * side + side + column, beyond),
                     np.where(column > 0, row * side + column - 1, beyond)], axis=1)
