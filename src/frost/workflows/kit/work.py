"""Do one unit: train it if it has to be trained, measure it, and keep the numbers.

    DIR/units/NAME.json    what was measured; once it is there, the unit is never done again
    DIR/runs/NAME/         the training, which goes on from its last checkpoint after a kill
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from frost import directory
from frost.checkpoint import Run, load, weights_hash
from frost.config import from_dict, to_dict
from frost.core.trajectory import IterativeModel
from frost.data.splits import DataSet, Images
from frost.recipes import RunConfig
from frost.report.progress import say
from frost.training.run import train
from frost.workflows.kit import adaptive, complexity, measure, stability
from frost.workflows.kit.plan import Unit
from frost.workflows.kit.scales import Scale
from frost.zoo.registry import build

UNITS, RUNS = "units", "runs"
FORM = 3    # of what a unit's file holds; it changes with the names and shapes of its numbers


def unit_file(out: Path, name: str) -> Path:
    """Where a unit's numbers lie."""
    return out / UNITS / f"{name}.json"


def done(out: Path, unit: Unit, scale: Scale) -> dict[str, Any] | None:
    """The numbers of a unit that was done before; of one that was done with other settings, a ValueError."""
    file = unit_file(out, unit.name)
    if not file.exists():
        return None
    numbers = directory.read_json(file)
    if not _same_settings(unit, numbers.get("config")) or numbers.get("measured_with") != _measured_with(unit, scale):
        raise ValueError(f"{file} was measured with other settings, or written by another version; move it away, or "
                         f"all of {file.parent}, and what is missing is done anew.")
    return numbers


def do(unit: Unit, scale: Scale, out: Path, data: DataSet[Images], data_folder: Path | None) -> dict[str, Any]:
    """Train and measure a unit, and write its numbers in one move."""
    started = time.monotonic()
    if unit.run is None:
        counted, timed = complexity.complexity(scale)
        numbers: dict[str, Any] = {"counted": counted, "timing": {"rows": timed}}
    elif isinstance(unit.run, str):
        run = load(unit.run)
        numbers = {**_measured(run, unit, scale, data), "seed": run.config["train"]["seed"], "timing": {}}
    elif unit.is_trained:
        numbers = _trained(unit, unit.run, scale, out, data, data_folder)
    else:
        model = build(unit.run.model, seed=unit.run.train.seed)
        numbers = {**_wanted(model, unit, scale, data), "seed": unit.run.train.seed, "timing": {}}
    numbers = {"name": unit.name, "config": _settings(unit), "measured_with": _measured_with(unit, scale), **numbers}
    numbers["timing"]["seconds"] = time.monotonic() - started
    directory.replace_file(unit_file(out, unit.name), (json.dumps(numbers, allow_nan=False) + "\n").encode())
    return numbers


def _trained(unit: Unit, run: RunConfig, scale: Scale, out: Path, data: DataSet[Images],
             data_folder: Path | None) -> dict[str, Any]:
    folder = out / RUNS / unit.name
    probe = measure.conflict_probe(data, run.halting) if "conflict" in unit.wants else None
    try:
        result = train(run, folder, data_folder=data_folder, resume=True, probe=probe,
                       command=("frost", "reproduce", "--scale", scale.name, "--out", str(out)))
    except FloatingPointError as error:    # a collapse is a result here
        return {"is_finite": False, "why": str(error), "over_training": measure.over_training(folder),
                "seed": run.train.seed, "timing": {}}
    found = _measured(load(folder), unit, scale, data)
    return {**found, "over_training": measure.over_training(folder), "seed": run.train.seed,
            "timing": {"training": result.origin["seconds"]}}


def _measured(run: Run, unit: Unit, scale: Scale, data: DataSet[Images]) -> dict[str, Any]:
    numbers = measure.outcome(run.model, run.calibration, data.test)
    return {"is_finite": True, **numbers, **_wanted(run.model, unit, scale, data)}


def _wanted(model: IterativeModel, unit: Unit, scale: Scale, data: DataSet[Images]) -> dict[str, Any]:
    ways = {"geometry": lambda: measure.geometry(model, data.test, scale.paths),
            "theory": lambda: stability.theory(model, data.test, scale.probes),
            "rules": lambda: adaptive.rules(model, data),
            "extrapolation": lambda: measure.extrapolation(model, data.test),
            "shift": lambda: adaptive.shift(model, data)}
    model.eval()
    found: dict[str, Any] = {}
    for name in (name for name in ways if name in unit.wants):
        say(f"measuring: {name}")
        found[name] = ways[name]()
    return found


def _measured_with(unit: Unit, scale: Scale) -> dict[str, Any]:
    """What a unit's numbers depend on beside the run."""
    if unit.run is None:
        return {"form": FORM, "backbones": list(scale.backbones), "batches": list(scale.batches)}
    found = {"form": FORM, "wants": sorted(unit.wants), "paths": scale.paths, "probes": scale.probes}
    return {**found, "shifted": list(adaptive.RANKS)} if "shift" in unit.wants else found


def _same_settings(unit: Unit, there: Any) -> bool:
    """Whether a file was measured with a unit's settings; a field that is younger than the file has its default."""
    if not isinstance(unit.run, RunConfig):
        return bool(there == _settings(unit))
    try:
        return from_dict(RunConfig, there) == unit.run
    except ValueError:
        return False


def _settings(unit: Unit) -> Any:
    """What a unit's numbers depend on, as a file gives it back."""
    if isinstance(unit.run, str):
        return {"run": unit.run, "weights": weights_hash(load(unit.run, with_calibration=False).model)}
    return None if unit.run is None else json.loads(json.dumps(to_dict(unit.run)))
