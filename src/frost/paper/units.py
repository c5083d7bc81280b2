"""Units: the smallest things that a reproduction keeps. What they are, doing them, and going on with them.

    DIR/units/NAME.json    what was measured; once it is there, nothing in it is measured again
    DIR/runs/NAME/         the training, which goes on from its last checkpoint after a kill

A unit is one model, trained and measured, or one table. A name says all that it is: `frost-mean-s0` is FROST with the
mean of the ranking loss over steps and seed 0. A section asks for units and says what it wants measured of them; where
several sections ask for the same unit, it is trained once and all that they want is measured.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from frost import directory
from frost.checkpoint import load, weights_hash
from frost.config import from_dict
from frost.core.trajectory import IterativeModel
from frost.data.splits import DataSet, Images
from frost.halting.ranking import HaltingConfig
from frost.legacy import modern
from frost.paper.measurements.every_unit import outcome, over_training
from frost.paper.sizes import Size, with_halting, with_model, with_training
from frost.report.progress import say
from frost.training.run import train
from frost.training.runner import Probe
from frost.training.settings import RunConfig
from frost.zoo.registry import build

UNITS, RUNS = "units", "runs"
FORM = 3    # of what a unit's file holds; it changes with the names and shapes of its numbers
BASE = "frost-mean-s0"          # FROST as the paper prints it
FOLDED = "basic-ssm-folded"     # BasicSSM that starts as a folded FROST
HURSTS = (0.2, 0.5, 1.0)        # beside the paper's 0.8


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One thing that is measured of a model; its name is the key of its numbers in a unit's file."""

    name: str
    take: Callable[[IterativeModel, DataSet[Images], Size], Any] | None = None     # of the trained model
    probe: Callable[[DataSet[Images], HaltingConfig], Probe] | None = None         # while it trains, instead
    settings: Callable[[Size], Mapping[str, Any]] = lambda size: {}                # what its numbers depend on


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One thing to be done and kept."""

    name: str
    run: RunConfig | str | None = None         # what is trained; the name of a run that is there; None for a table
    wants: tuple[Measurement, ...] = ()
    is_trained: bool = True                    # False: measured as it starts
    table: Callable[[Size], dict[str, Any]] | None = None    # makes the numbers of a unit without a model

    def wanting(self, *more: Measurement) -> Unit:
        """The same unit with more to be measured; what is wanted twice is measured once."""
        return replace(self, wants=tuple(dict.fromkeys((*self.wants, *more))))


def ours(size: Size, *wants: Measurement) -> Unit:
    """The form that we ship."""
    return Unit(name="ours", run=size.ours, wants=wants)


def base(size: Size, *wants: Measurement) -> Unit:
    """FROST as the paper prints it, with the first seed."""
    return grid(size, "frost", "mean", 0, *wants)


def grid(size: Size, model: str, reduce: str, seed: int, *wants: Measurement) -> Unit:
    """A model with the ranking loss reduced over steps by `mean` or `sum`, or trained without it, `none`."""
    run = with_model(size.base, architecture=model)
    run = with_halting(run, relative_weight=0.0, anchoring_weight=0.0) if reduce == "none" else \
        with_halting(run, reduce=reduce)
    return Unit(name=f"{model}-{reduce}-s{seed}", run=with_training(run, seed=seed), wants=wants)


def at_other_hursts(size: Size, *wants: Measurement) -> list[Unit]:
    """FROST as the paper prints it, with other H."""
    return [Unit(name=f"frost-hurst-{hurst:g}", run=with_model(size.base, hurst=hurst), wants=wants)
            for hurst in HURSTS]


def merged(units: Iterable[Unit]) -> dict[str, Unit]:
    """Each unit once, with all that is wanted of it; one name for two different things is a ValueError."""
    found: dict[str, Unit] = {}
    for unit in units:
        there = found.setdefault(unit.name, unit)
        if replace(there, wants=()) != replace(unit, wants=()):
            raise ValueError(f"two sections mean different units by the name '{unit.name}'; give one another name.")
        found[unit.name] = there.wanting(*unit.wants)
    return found


def unit_file(out: Path, name: str) -> Path:
    """Where a unit's numbers lie."""
    return out / UNITS / f"{name}.json"


def done(out: Path, unit: Unit, size: Size) -> dict[str, Any] | None:
    """The numbers of a unit that was done before; of one that was done with other settings, a ValueError."""
    file = unit_file(out, unit.name)
    if not file.exists():
        return None
    numbers = directory.read_json(file)
    there = numbers.get("measured_with") or {}
    known = replace(unit, wants=tuple(want for want in unit.wants if want.name in there.get("wants", ())))
    asked = {key: value for key, value in _measured_with(known, size).items() if key != "wants"}
    if not _same_settings(unit, numbers.get("config")) or any(there.get(key) != asked[key] for key in asked):
        raise ValueError(f"{file} was measured with other settings, or written by another version; move it away, or "
                         f"all of {file.parent}, and what is missing is done anew.")
    return numbers


def missing(unit: Unit, numbers: Mapping[str, Any]) -> list[Measurement]:
    """What is wanted of a unit and was not measured when its file was written; of one that diverged, nothing is."""
    if numbers.get("is_finite") is False:
        return []
    return [want for want in unit.wants if want.name not in numbers["measured_with"].get("wants", ())]


def is_left(out: Path, unit: Unit, size: Size) -> bool:
    """Whether there is something to do: the whole unit, or a measurement of a model that is still there."""
    numbers = done(out, unit, size)
    if numbers is None:
        return True
    is_there = not (isinstance(unit.run, RunConfig) and unit.is_trained) or _has_run(out, unit)
    return is_there and any(want.take is not None for want in missing(unit, numbers))


def do(unit: Unit, size: Size, out: Path, data: DataSet[Images], data_folder: Path | None) -> dict[str, Any]:
    """Train and measure a unit, or add the measurements that its file lacks, and write its numbers in one move."""
    started = time.monotonic()
    before = done(out, unit, size)
    if before is None:
        numbers = {"name": unit.name, "config": _settings(unit), "measured_with": _measured_with(unit, size),
                   **_whole(unit, size, out, data, data_folder)}
    else:
        more = tuple(want for want in missing(unit, before) if want.take is not None)
        added = _measured_with(replace(unit, wants=more), size)
        wants = sorted({*before["measured_with"]["wants"], *added["wants"]})
        numbers = {**before, "measured_with": {**before["measured_with"], **added, "wants": wants},
                   **_taken(_model_of(out, unit), more, size, data)}
    seconds = numbers["timing"].get("seconds", 0.0)
    numbers["timing"]["seconds"] = seconds + time.monotonic() - started
    directory.replace_file(unit_file(out, unit.name), (json.dumps(numbers, allow_nan=False) + "\n").encode())
    return numbers


def _whole(unit: Unit, size: Size, out: Path, data: DataSet[Images], data_folder: Path | None) -> dict[str, Any]:
    """All numbers of a unit."""
    if unit.table is not None:
        return unit.table(size)
    if isinstance(unit.run, str):
        run = load(unit.run)
        found = outcome(run.model, run.calibration, data.test)
        return {"is_finite": True, **found, **_taken(run.model, unit.wants, size, data),
                "seed": run.config["train"]["seed"], "timing": {}}
    assert unit.run is not None
    if unit.is_trained:
        return _trained(unit, unit.run, size, out, data, data_folder)
    return {**_taken(_model_of(out, unit), unit.wants, size, data), "seed": unit.run.train.seed, "timing": {}}


def _trained(unit: Unit, run: RunConfig, size: Size, out: Path, data: DataSet[Images],
             data_folder: Path | None) -> dict[str, Any]:
    folder = out / RUNS / unit.name
    probe = next((want.probe(data, run.halting) for want in unit.wants if want.probe is not None), None)
    try:
        result = train(run, folder, data_folder=data_folder, resume=True, probe=probe,
                       command=("frost", "reproduce", "--size", size.name, "--out", str(out)))
    except FloatingPointError as error:    # a collapse is a result here
        return {"is_finite": False, "why": str(error), "over_training": over_training(folder),
                "seed": run.train.seed, "timing": {}}
    ended = load(folder)
    found = outcome(ended.model, ended.calibration, data.test)
    return {"is_finite": True, **found, **_taken(ended.model, unit.wants, size, data),
            "over_training": over_training(folder), "seed": run.train.seed,
            "timing": {"training": result.origin["seconds"]}}


def _taken(model: IterativeModel, wants: Iterable[Measurement], size: Size, data: DataSet[Images]) -> dict[str, Any]:
    """The measurements of a trained model, by name."""
    model.eval()
    found: dict[str, Any] = {}
    for want in wants:
        if want.take is not None:
            say(f"measuring: {want.name}")
            found[want.name] = want.take(model, data, size)
    return found


def _has_run(out: Path, unit: Unit) -> bool:
    return (out / RUNS / unit.name / directory.MANIFEST).exists()


def _model_of(out: Path, unit: Unit) -> IterativeModel:
    """The model of a unit: the shipped one, one as it starts, or the trained one in its folder."""
    if isinstance(unit.run, RunConfig):
        return load(out / RUNS / unit.name).model if unit.is_trained else \
            build(unit.run.model, seed=unit.run.train.seed)
    assert unit.run is not None
    return load(unit.run).model


def _measured_with(unit: Unit, size: Size) -> dict[str, Any]:
    """What a unit's numbers depend on beside the run."""
    if unit.table is not None:
        return {"form": FORM, "backbones": list(size.backbones), "batches": list(size.batches)}
    settings = {key: value for want in unit.wants for key, value in want.settings(size).items()}
    return {"form": FORM, "wants": sorted(want.name for want in unit.wants), **settings}


def _same_settings(unit: Unit, there: Any) -> bool:
    """Whether a file was measured with a unit's settings; a field that is younger than the file has its default."""
    if not isinstance(unit.run, RunConfig):
        return bool(there == _settings(unit))
    try:
        return from_dict(RunConfig, modern(there)).identity == unit.run.identity
    except (ValueError, TypeError):    # also of a file that holds something else
        return False


def _settings(unit: Unit) -> Any:
    """What a unit's numbers depend on, as a file gives it back."""
    if isinstance(unit.run, str):
        return {"run": unit.run, "weights": weights_hash(load(unit.run, with_calibration=False).model)}
    return None if unit.run is None else json.loads(json.dumps(unit.run.identity))
