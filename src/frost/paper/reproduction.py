"""A whole reproduction: plan it, do what is missing, and judge what is there.

    DIR/reproduction.json    which size this folder is for
    DIR/units/  runs/        what was measured and trained, one unit each; what is there is never done again
    DIR/figures/             one SVG and one PNG for each section
    DIR/results.json  report.html
"""

from __future__ import annotations

import json
import shlex
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from frost import directory
from frost.data.splits import DataSet, Images
from frost.evaluation.datasets import open_data
from frost.interrupt import Stopped
from frost.paper import abstract
from frost.paper.report import write
from frost.paper.section import CRITERION, Section, chosen_sections, sections, units_of
from frost.paper.sizes import Size
from frost.paper.units import UNITS, Unit, do, done, is_left
from frost.report.progress import say
from frost.training.loop import fit, steps_in
from frost.training.runfolder import LOCK, alone_in
from frost.training.settings import RunConfig
from frost.zoo.registry import build

FILE, OLD_FILE = "reproduction.json", "kit.json"    # the old name is read, with its word for the size
TRIED_STEPS = 4    # training steps that are timed for the plan


class Plan(NamedTuple):
    """What there is to do, and how long it may take."""

    size: str
    out: Path
    sections: list[str]
    units: dict[str, str]      # by name: done, to train, to measure
    seconds: float             # that are left, estimated
    seconds_a_training: float


class Reproduction(NamedTuple):
    """What was measured."""

    out: Path
    results: dict[str, Any]


def plan(size: Size, out: Path, data_folder: Path | None = None, only: Sequence[str] | None = None) -> Plan:
    """What `reproduce` would do, with a time from a few timed training steps; writes nothing."""
    chosen = chosen_sections(only)
    _check_folder(out, size, resume=True)
    states = {unit.name: _state(out, unit, size) for unit in units_of(chosen, size)}
    data = open_data(size.base.data, data_folder, size.base.model.image_size)
    seconds = _seconds_a_training(size.base, data)
    total = sum(_share(unit, size, states[unit.name]) for unit in units_of(chosen, size)) * seconds
    return Plan(size.name, out, [section.name for section in chosen], states, total, seconds)


def reproduce(size: Size, out: Path, data_folder: Path | None = None, only: Sequence[str] | None = None,
              resume: bool = False, command: Sequence[str] = ()) -> Reproduction:
    """Do what is missing of the sections asked for, and write the report of all that is there."""
    chosen = chosen_sections(only)
    _check_folder(out, size, resume)
    data = open_data(size.base.data, data_folder, size.base.model.image_size)
    with directory.explained(out):
        out.mkdir(parents=True, exist_ok=True)
    with alone_in(out), _explained_stop(command):
        directory.replace_file(out / FILE, (json.dumps({"format": 2, "size": size.name}) + "\n").encode())
        (out / UNITS).mkdir(exist_ok=True)
        units = units_of(chosen, size)
        left = [unit for unit in units if is_left(out, unit, size)]
        started = time.monotonic()
        for number, unit in enumerate(left):
            say(f"unit {len(units) - len(left) + number + 1} of {len(units)}: {unit.name}" +
                _left(started, number, len(left)))
            do(unit, size, out, data, data_folder)
        found = results(size, out, facts_of(data))
        for section in chosen:
            if section.name not in found["sections"]:
                say(_left_out(section, size, out))
        write(out, found)
    return Reproduction(out, found)


def facts_of(data: DataSet[Images]) -> dict[str, Any]:
    """What `results.json` says of the data set."""
    return {"name": data.name, "train": len(data.train), "validation": len(data.validation), "test": len(data.test)}


def results(size: Size, out: Path, data: dict[str, Any]) -> dict[str, Any]:
    """All sections whose units are there, with what they want of them; from the units' files alone."""
    units = _units_there(size, out)
    there = {name: section for name, section in sections().items() if not section.lacks(size, units)}
    judged = {name: section.judged({unit.name: units[unit.name] for unit in section.units(size)})
              for name, section in there.items()}
    command = f"frost reproduce --size {size.name} --out REPORT" + ("" if size.name == "smoke" else " --data DIR")
    timing: dict[str, Any] = {"seconds": sum(numbers["timing"]["seconds"] for numbers in units.values())}
    for section in there.values():
        timing |= {} if section.timed is None else section.timed(units)
    return {
        "size": size.name, "command": command, "data": data,
        "sections": {name: {**part._asdict(), "criterion": f"{part.criterion}. It {CRITERION}.",
                            "command": f"{command} --only {name}"} for name, part in judged.items()},
        "claims": abstract.judged(judged), "claims_criterion": abstract.CRITERION,
        "timing": {**timing, "units": {name: numbers["timing"] for name, numbers in units.items()}}}


def _units_there(size: Size, out: Path) -> dict[str, dict[str, Any]]:
    found = {unit.name: done(out, unit, size) for unit in units_of(sections().values(), size)}
    return {name: numbers for name, numbers in found.items() if numbers is not None}


def _left_out(section: Section, size: Size, out: Path) -> str:
    """Why a section that was asked for is not in the report."""
    lacks = section.lacks(size, _units_there(size, out))
    return (f"{section.name} is left out: {', '.join(lacks)} was not measured, and the training is not in {out} any "
            f"more; move the unit's file away from {out / UNITS} to train it anew.")


def _state(out: Path, unit: Unit, size: Size) -> str:
    if not is_left(out, unit, size):
        return "done"
    is_training = isinstance(unit.run, RunConfig) and unit.is_trained and done(out, unit, size) is None
    return "to train" if is_training else "to measure"


def _share(unit: Unit, size: Size, state: str) -> float:
    """The time that a unit takes, as a share of a training."""
    if state == "to train":
        assert isinstance(unit.run, RunConfig)
        return unit.run.model.depth / size.base.model.depth
    return 0.3 if state == "to measure" else 0.0


def _check_folder(out: Path, size: Size, resume: bool) -> None:
    """Refuse a folder of another size, of something else, or one that was begun where --resume is not given."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} exists and is not a folder; choose another --out.")
    if not out.exists() or all(file.name in (LOCK, f".{FILE}.tmp") for file in out.iterdir()):
        return
    there = _size_of(out)
    if there is None:
        raise ValueError(f"{out} holds something else than a reproduction; choose another --out.")
    if there != size.name:
        raise ValueError(f"{out} is a reproduction at size {there}, not {size.name}; choose another --out.")
    if not resume:
        raise ValueError(f"{out} holds a reproduction that was begun; add --resume to go on with it.")


def _size_of(out: Path) -> str | None:
    """What a folder says of itself; None if it is no reproduction."""
    for file, key in ((FILE, "size"), (OLD_FILE, "scale")):
        if (out / file).is_file():
            return str(directory.read_json(out / file).get(key))
    return None


def _seconds_a_training(run: RunConfig, data: DataSet[Images]) -> float:
    """By a few steps of a training that is thrown away."""
    model = build(run.model, seed=0)
    records = fit(model, data.train, replace(run.train, seed=0), run.halting, runtime=run.runtime)
    next(records)
    started = time.monotonic()
    for _ in range(TRIED_STEPS):
        next(records)
    return (time.monotonic() - started) / TRIED_STEPS * steps_in(data.train, run.train)[1]


@contextmanager
def _explained_stop(command: Sequence[str]) -> Iterator[None]:
    words = shlex.join([*(word for word in command if word != "--resume"), "--resume"])
    try:
        yield
    except KeyboardInterrupt as stop:
        number = getattr(stop, "status", 128 + signal.SIGINT) - 128
        raise Stopped(f"stopped; what is done stays. To go on: {words}", number) from None


def _left(started: float, before: int, total: int) -> str:
    if not before:
        return ""
    seconds = (time.monotonic() - started) / before * (total - before)
    return f", about {seconds / 60:.0f} min left"
