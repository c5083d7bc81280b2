"""`frost evaluate RUN --frontier [OTHER…]`: quality against cost, of one run or of several on the same data."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from frost import directory
from frost.analysis.frontier import LOSSES, Needed, Point, frontier, needed
from frost.analysis.traces import Traces, trace
from frost.checkpoint import Run, load
from frost.data.splits import labelled
from frost.report.pictures.frontier import frontier_figure
from frost.report.tables import percent, si, table
from frost.workflows.calibrate import counted
from frost.workflows.dataset import data_of
from frost.workflows.progress import progress

SHOWN = 8    # adaptive points in the table for a person; all are in the JSON and the picture


class Frontiers(NamedTuple):
    """The frontiers of some runs, and what each needs for nearly full quality."""

    points: list[Point]
    needed: list[Needed]
    picture: Path | None


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


def as_json(result: Frontiers) -> dict[str, Any]:
    """The parts that `--frontier` adds."""
    return {"frontier": [point._asdict() for point in result.points],
            "needed": [one._asdict() for one in result.needed]}


def text(result: Frontiers) -> str:
    """The same for a person."""
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
