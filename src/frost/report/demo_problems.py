"""The demo's picture for problems: solved against mean depth, and mazes whose way sharpens step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from frost.report.demo_digits import ADAPTIVE, FIXED, INK, Curve
from frost.report.drawing import as_files

LATE = "#BBBBBB"    # what was not computed any more


class Sharpening(NamedTuple):
    """A maze, how likely each cell is on the way after each step, and the step where it stopped."""

    maze: NDArray[np.float32]       # (6, h, w): walls north, east, south, west; start; goal
    chances: NDArray[np.float32]    # (t, h, w)
    stop: int
    is_solved: bool


def problem_figure(adaptive: Curve, fixed: Curve, mazes: Sequence[tuple[str, Sharpening]], steps: Sequence[int],
                   title: str, below: str) -> bytes:
    """One PNG: the two curves, then a row of pictures for each maze."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=(10, 4.4 + 1.35 * len(mazes)), layout="constrained")
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=(4.0, 1.35 * len(mazes) + 0.4))[:, 0]
    axes = upper.subplots()
    axes.plot(fixed.depth, [100 * a for a in fixed.accuracy], "s--", color=FIXED, ms=4, label="fixed depth")
    axes.plot(adaptive.depth, [100 * a for a in adaptive.accuracy], "o-", color=ADAPTIVE, ms=4, label="adaptive")
    gap = [a - float(np.interp(d, fixed.depth, fixed.accuracy))
           for d, a in zip(adaptive.depth, adaptive.accuracy, strict=True)]
    best = int(np.argmax(gap))
    axes.annotate(f"+{100 * gap[best]:.0f} points", (adaptive.depth[best], 100 * adaptive.accuracy[best]),
                  textcoords="offset points", xytext=(-8, 4), ha="right", color=ADAPTIVE)
    axes.set(xlabel="mean depth (steps a problem)", ylabel="solved exactly (%)", title=title, ylim=(-2, 102))
    axes.grid(alpha=0.25)
    axes.legend(loc="lower right")
    if mazes:
        cells = lower.subplots(len(mazes), len(steps), squeeze=False)
        for row, (name, maze) in zip(cells, mazes, strict=True):
            for cell, step in zip(row, steps, strict=True):
                _draw(cell, maze, step)
            row[0].set_ylabel(name, fontsize=9)
        lower.suptitle(below, fontsize=10)
    return as_files(figure, "demo")["demo.png"]


def _draw(axes: Any, maze: Sharpening, step: int) -> None:
    """One maze after one step; grey once it has stopped."""
    is_late = step > maze.stop
    at = min(step, maze.stop)
    height, width = maze.maze.shape[1:]
    axes.imshow(maze.chances[at - 1], cmap="Greys" if is_late else "Blues", vmin=0, vmax=1,
                alpha=0.35 if is_late else 1.0)
    north, east, south, west, start, goal = maze.maze
    colour = LATE if is_late else INK
    for row in range(height):
        for column in range(width):
            for wall, line in ((north, ((-0.5, 0.5), (-0.5, -0.5))), (south, ((-0.5, 0.5), (0.5, 0.5))),
                               (west, ((-0.5, -0.5), (-0.5, 0.5))), (east, ((0.5, 0.5), (-0.5, 0.5)))):
                if wall[row, column]:
                    axes.plot([column + x for x in line[0]], [row + y for y in line[1]], color=colour, lw=1.0)
    for end, mark in ((start, "o"), (goal, "*")):
        (down,), (right,) = np.nonzero(end)
        axes.plot(right, down, mark, color=FIXED if not is_late else LATE, ms=5)
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_visible(False)
    if step == maze.stop:
        words = f"stops: {'solved' if maze.is_solved else 'wrong'}"
        axes.set_xlabel(words, fontsize=8, color=ADAPTIVE if maze.is_solved else FIXED, fontweight="bold")
    else:
        axes.set_xlabel("" if is_late else f"step {step}", fontsize=8)
