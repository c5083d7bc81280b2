"""Quality against cost, adaptive and at fixed depth: the number that decides is quality at a budget.

A run's frontier is what its calibration answers at a row of mean depths, beside stopping all inputs after each step.
Costs are FLOPs an input in the mean, the stem included, so that runs of different models lie in one picture.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.stats import binomtest

from frost import directory
from frost.checkpoint import Run, load
from frost.data.splits import labelled
from frost.evaluation.calibrating import counted
from frost.evaluation.datasets import data_of
from frost.evaluation.traces import Traces, trace
from frost.halting.calibration import Calibration
from frost.halting.cost import Cost
from frost.halting.threshold_fit import stops_at
from frost.report.drawing import CYCLE, as_files, legend_above, panels
from frost.report.progress import progress
from frost.report.tables import percent, si, table

POINTS = 64               # mean depths at which the adaptive rule is asked, evenly spread from 1 to T
LOSSES = (0.005, 0.01)    # of quality, below that of full depth: what does it cost to lose no more?
SHOWN = 8                 # adaptive points in the table for a person; all are in the JSON and the picture
LONGEST = 24              # letters of a run in the picture's legend


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
    for _, form, rule in calibration.choices_at(np.linspace(1, depth, POINTS) / depth):
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


class Frontiers(NamedTuple):
    """The frontiers of some runs, and what each needs for nearly full quality."""

    points: list[Point]
    needed: list[Needed]
    picture: Path | None

    def to_json(self) -> dict[str, Any]:
        """The parts that `--frontier` adds."""
        return {"frontier": [point._asdict() for point in self.points],
                "needed": [one._asdict() for one in self.needed]}

    def text(self) -> str:
        """The same for a person."""
        return _text(self)


def opened(name: str, run: Run, others: Sequence[str], figure: Path | None) -> dict[str, Run]:
    """The other runs; what cannot be compared or drawn is refused now, not after minutes of measuring."""
    if figure is not None and (figure.suffix.lower() != ".png" or figure.is_dir()):
        raise ValueError(f"{figure} cannot be written: a picture is a file that ends in .png; name one with --figure.")
    if figure is not None and not (figure.parent.is_dir() and os.access(figure.parent, os.W_OK)):
        raise ValueError(f"{figure} cannot be written: {figure.parent} is no folder, or not yours to write to; name "
                         "another with --figure.")
    found = {other: load(other, device="auto") for other in others if other != name}    # once is enough
    for other, theirs in found.items():
        if theirs.config.get("data") != run.config.get("data"):
            raise ValueError(f"{other} was trained on {theirs.config.get('data')}, and {name} on "
                             f"{run.config.get('data')}; a frontier compares runs on the same data.")
    return found


def of_runs(name: str, run: Run, traces: Traces, others: Mapping[str, Run], data_folder: Path | None, split: str,
            download: bool, figure: Path | None) -> Frontiers:
    """The frontier of a run that was measured, and of others, which are measured here on the same split."""
    lines = [frontier(name, traces, run.calibration, counted(run.model))]
    for other, theirs in others.items():
        data = data_of(theirs, data_folder, download)
        images = data.test if split == "test" else data.validation
        signals = [] if theirs.calibration is None else list(theirs.calibration.signals)
        with progress(f"evaluating {other}", len(images)) as report:
            measured = trace(theirs.model, labelled(images), signals, report=report)
        if not measured.is_finite:
            raise ValueError(f"the model in {other} answers with NaN or infinity; leave it out.")
        lines.append(frontier(other, measured, theirs.calibration, counted(theirs.model)))
    points = [point for line in lines for point in line]
    if figure is not None:
        title = f"{run.config.get('data')} {split}, {traces.inputs:,} inputs; bands: 95 % intervals"
        directory.replace_file(figure, frontier_figure(points, title))
    found = [needed(line, loss) for line in lines for loss in LOSSES]
    return Frontiers(points, [one for one in found if one is not None], figure)


def _text(result: Frontiers) -> str:
    rows = []
    for run in dict.fromkeys(point.run for point in result.points):
        for kind in ("adaptive", "fixed"):
            line = [point for point in result.points if (point.run, point.kind) == (run, kind)]
            some = line if kind == "fixed" else line[::max(1, len(line) // SHOWN)]
            rows += [[point.run, point.kind, point.rule if kind == "adaptive" else "", f"{point.mean_depth:.2f}",
                      "" if point.flops is None else si(point.flops), percent(point.quality),
                      f"[{100 * point.low:.2f}, {100 * point.high:.2f}]"] for point in some]
    lines = [f"{one.run}: full quality less {100 * one.loss:g} points ({percent(one.quality)}) takes "
             f"{one.adaptive_depth:.2f} steps adaptively and {one.fixed_depth:.2f} at fixed depth; "
             + (f"FLOPs, fixed ÷ adaptive: {one.flops_ratio:.2f}." if one.flops_ratio is not None else
                f"steps, fixed ÷ adaptive: {one.depth_ratio:.2f}.") for one in result.needed]
    drawn = [] if result.picture is None else [f"Drawn: {result.picture}"]
    return "\n".join([table(["run", "kind", "rule", "mean depth", "FLOPs", "quality", "95 % interval"], rows), "",
                      *lines, *drawn])


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
