"""The picture of `frost evaluate --frontier`: quality against mean FLOPs, adaptive and at fixed depth."""

from __future__ import annotations

from collections.abc import Sequence

from frost.analysis.frontier import Point
from frost.report.drawing import CYCLE, as_files, legend_above, panels

LONGEST = 24    # letters of a run in the legend


def frontier_figure(points: Sequence[Point], title: str) -> bytes:
    """One PNG; a colour a run, solid where it is adaptive, dashed at fixed depth."""
    figure, (axes,) = panels(1, 3.8)
    has_flops = all(point.flops is not None for point in points)
    for run, colour in zip(dict.fromkeys(point.run for point in points), CYCLE * len(points), strict=False):
        for kind, style, words in (("fixed", "s--", "fixed depth"), ("adaptive", "o-", "adaptive")):
            line = sorted((point for point in points if (point.run, point.kind) == (run, kind)),
                          key=lambda point: point.mean_depth)
            if not line:
                continue
            costs = [(point.flops or 0) / 1e6 if has_flops else point.mean_depth for point in line]
            axes.plot(costs, [100 * point.quality for point in line], style, color=colour, ms=3.5, lw=1.4,
                      alpha=1.0 if kind == "adaptive" else 0.6, label=f"{_short(run)}, {words}")
            axes.fill_between(costs, [100 * point.low for point in line], [100 * point.high for point in line],
                              color=colour, alpha=0.1, lw=0)
    axes.set(xlabel="MFLOP an input in the mean, stem included" if has_flops else "mean depth (steps an input)",
             ylabel="quality (%)")
    legend_above(axes)
    figure.suptitle(title, fontsize=9.5)
    return as_files(figure, "frontier")["frontier.png"]


def _short(run: str) -> str:
    """The end of a long path, where runs differ."""
    return run if len(run) <= LONGEST else f"…{run[1 - LONGEST:]}"
