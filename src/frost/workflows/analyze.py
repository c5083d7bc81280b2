"""`frost analyze RUN`: similarity of states (Table 1), dimension of paths (§6.1), contraction (App. B), more steps."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

from frost.analysis.claims.known import seen_with
from frost.analysis.consistency import random_walk
from frost.checkpoint import load
from frost.evaluation.budget import shown
from frost.evaluation.datasets import data_of
from frost.report.progress import say
from frost.report.tables import percent, table
from frost.workflows.kit.measure import extrapolation, geometry
from frost.workflows.kit.stability import theory

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


def as_json(result: Analysis) -> dict[str, Any]:
    """One object."""
    return result._asdict()


def text(result: Analysis) -> str:
    """The same for a person."""
    pooled, flat = result.geometry["pooled"], result.geometry["flattened"]
    rows = [[str(t + 1), f"{pooled['mean'][t]:.4f} ±{pooled['deviation'][t]:.2f}", f"{flat['mean'][t]:.4f}",
             f"{walk:.4f}"] for t, walk in enumerate(random_walk(result.depth))]
    size, fit = result.geometry["dimension"], result.geometry["r_squared"]
    lines = [f"Minkowski dimension of the path: {size['value']:.3f} [{size['low']:.3f}, {size['high']:.3f}] over "
             f"{size['n']} images, R² = {fit['value']:.3f}, boxes from 1/2 to {result.geometry['smallest_box']:.2f} of "
             f"its extent. With {result.depth} points a line gives {seen_with('line', result.depth).value:.3f} and a "
             f"Koch curve of 1.262 {seen_with('koch', result.depth).value:.3f}.",
             f"Increments grow as |t − s|^{result.geometry['exponent']['value']:.2f}."]
    if result.theory:
        bound = result.theory["lipschitz"]
        promise = "no bound is promised" if bound is None else f"the proven bound is {bound:.3f}"
        largest = max(result.theory["worst_expansion"], *result.theory["jacobian_at_end"])
        lines.append(f"Largest expansion of a step that was found: {largest:.3f}; {promise}. States "
                     f"{'come' if result.theory['rests'] else 'do not come'} to rest.")
        if result.theory["scale"] is not None:
            lines.append(f"λ = {result.theory['scale']:.3f}.")
    if result.extrapolation is not None:
        at = result.extrapolation["at"]
        lines.append(f"Accuracy at T/2, T, 2T and 4T steps: {percent(at['half'])}, {percent(at['full'])}, "
                     f"{percent(at['double'])}, {percent(at['fourfold'])}.")
    return "\n".join([f"{result.run} · {result.data} test · {result.images:,} images · depth {result.depth}", "",
                      table(["step t", "cosine to h_T, pooled", "flattened", "random walk"], rows), "", *lines,
                      f"Measured in {result.seconds:.1f} s."])
