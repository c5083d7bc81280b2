"""The demo's picture: depth against accuracy, and the easiest and hardest images with the step where each stopped."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

ADAPTIVE, FIXED, INK = "#0072B2", "#D55E00", "#333333"   # blue and vermilion: colour-blind readers can tell them apart


class Curve(NamedTuple):
    """Points of depth and accuracy, and the standard error of each accuracy."""

    depth: Sequence[float]
    accuracy: Sequence[float]
    error: Sequence[float]


class Stopped(NamedTuple):
    """An image, its label, the answer, and the step where it stopped."""

    image: Tensor   # (h, w)
    label: int
    answer: int
    depth: int


def demo_figure(adaptive: Curve, fixed: Curve, quantiles: Sequence[float], easiest: Sequence[Stopped],
                hardest: Sequence[Stopped], title: str) -> bytes:
    """One PNG."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    columns = len(easiest)
    figure = plt.figure(figsize=(10, 7.4), layout="constrained")
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=(1.35, 1))[:, 0]
    axes = upper.subplots()
    axes.plot(fixed.depth, [100 * a for a in fixed.accuracy], "s--", color=FIXED,
              label="fixed depth: all images stop at step t")
    axes.plot(adaptive.depth, [100 * a for a in adaptive.accuracy], "o-", color=ADAPTIVE,
              label="adaptive: each image stops by its halting score (label: quantile)")
    low, high = ([100 * (a + sign * e) for a, e in zip(adaptive.accuracy, adaptive.error, strict=True)]
                 for sign in (-1, 1))
    axes.fill_between(adaptive.depth, low, high, color=ADAPTIVE, alpha=0.12, lw=0, label="± one standard error")
    for depth, accuracy, quantile in zip(adaptive.depth, adaptive.accuracy, quantiles, strict=True):
        axes.annotate(f"{quantile:g}", (depth, 100 * accuracy), textcoords="offset points", xytext=(0, -15),
                      ha="center", fontsize=8, color=ADAPTIVE)
    axes.set(xlabel="mean depth (steps per image)", ylabel="test accuracy (%)", title=title)
    _zoom(axes, adaptive, fixed)
    axes.grid(alpha=0.25)
    axes.legend(loc="lower right")
    rows = lower.subplots(2, columns, squeeze=False)
    for row, (name, images) in zip(rows, (("easiest", easiest), ("hardest", hardest)), strict=True):
        for cell, stopped in zip(row, images, strict=True):
            cell.imshow(stopped.image, cmap="gray_r")
            cell.set(xticks=[], yticks=[])
            right = stopped.answer == stopped.label
            answer = f"“{stopped.answer}”" if right else f"“{stopped.answer}”, is {stopped.label}"
            cell.set_xlabel(f"step {stopped.depth}\n{answer}", fontsize=8, color=INK if right else FIXED)
        row[0].set_ylabel(name, fontsize=10)
    lower.suptitle("Where images stopped at quantile 0.5, and the answer given", fontsize=10)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    plt.close(figure)
    return buffer.getvalue()


def _zoom(axes: Any, adaptive: Curve, fixed: Curve) -> None:
    """Give the height to the adaptive curve; fixed depths far below it stand in words at the edge."""
    top, low = 100 * max(*adaptive.accuracy, *fixed.accuracy), 100 * min(adaptive.accuracy)
    error = 100 * max(adaptive.error)
    bottom = low - 0.4 * max(top - low, 1.0) - error
    axes.set_ylim(bottom, top + 1.5 * error + 0.1)
    for depth, accuracy in zip(fixed.depth, fixed.accuracy, strict=True):
        if 100 * accuracy < bottom:
            axes.annotate(f"step {depth:g}: {100 * accuracy:.0f} % ↓", (depth, bottom), textcoords="offset points",
                          xytext=(6, 6), fontsize=8, color=FIXED)
