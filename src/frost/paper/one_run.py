"""The measurements of Table 1, §6.1 and App. B for one run, whichever it is (`frost analyze`)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

from frost.checkpoint import load
from frost.evaluation.budget import shown
from frost.evaluation.datasets import data_of
from frost.paper.measurements.geometry import geometry
from frost.paper.measurements.trained_step import theory
from frost.paper.sections.extrapolation import extrapolation
from frost.report.progress import say

PATHS, PROBES = 512, 4


class Analysis(NamedTuple):
    """What was measured of a run's states."""

    run: str
    data: str
    images: int
    depth: int
    geometry: dict[str, Any]
    theory: dict[str, Any]
    extrapolation: dict[str, Any] | None    # None for models that cannot go deeper than they were trained
    seconds: float


def analyze(run_path: Path | str, data_folder: Path | None = None, download: bool = False) -> Analysis:
    """Measure a run on the test images of its data set."""
    started = time.monotonic()
    run = load(run_path, with_calibration=False, device="auto")
    data = data_of(run, data_folder, download)
    model = run.model.eval()
    say(f"analyzing {len(data.test):,} images")
    more = extrapolation(model, data.test) if model.stationary else None
    return Analysis(shown(run_path, run), data.name, len(data.test), model.depth, geometry(model, data.test, PATHS),
                    theory(model, data.test, PROBES) if model.stationary else {}, more, time.monotonic() - started)
