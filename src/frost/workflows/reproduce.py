"""`frost reproduce`: every table and figure of the paper, beside the paper's numbers.

    DIR/kit.json        which scale this folder is for
    DIR/units/  runs/   what was measured and trained, one unit each; a unit that is there is never done again
    DIR/figures/        one SVG and one PNG for each section
    DIR/results.json  report.html
"""

from __future__ import annotations

import json
import shlex
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from frost import directory
from frost.analysis.claims import abstract, cost, geometry, scaling, stopping, training
from frost.analysis.claims.verdict import RULE, Section, Units, seeds_of, untested
from frost.data.splits import DataSet, Images
from frost.evaluation.datasets import open_data
from frost.interrupt import Stopped
from frost.recipes import RunConfig
from frost.report.page import page
from frost.report.pictures import figure_files
from frost.report.progress import say
from frost.report.tables import table
from frost.training.loop import fit, steps_in
from frost.training.runfolder import alone_in
from frost.workflows.kit.plan import SECTIONS, chosen_sections, chosen_units, needed_by
from frost.workflows.kit.scales import Scale
from frost.workflows.kit.work import UNITS, do, done
from frost.zoo.registry import build

KIT, RESULTS, REPORT, FIGURES = "kit.json", "results.json", "report.html", "figures"
TAKES_DIVERGED = ("collapse",)                  # there it is a result
MANY_SEEDS = ("consistency", "dimension")       # one seed of several may be missing
TRIED_STEPS = 4    # training steps that are timed for the plan
JUDGES: dict[str, Callable[[Units], Section]] = {
    "consistency": geometry.consistency, "dimension": geometry.dimension, "lambda": scaling.scale,
    "halting": stopping.halting, "losses": training.losses, "complexity": cost.complexity,
    "collapse": training.collapse, "theory": scaling.theory, "supervision": training.supervision,
    "rules": stopping.rules, "extrapolation": stopping.extrapolation, "shift": stopping.shift}


class Plan(NamedTuple):
    """What there is to do, and how long it may take."""

    scale: str
    out: Path
    sections: list[str]
    units: dict[str, str]      # by name: done, to train, to measure
    seconds: float             # that are left, estimated
    seconds_a_training: float


class Reproduction(NamedTuple):
    """What was measured."""

    out: Path
    results: dict[str, Any]


def plan(scale: Scale, out: Path, data_folder: Path | None = None, only: Sequence[str] | None = None) -> Plan:
    """What `reproduce` would do, with a time from a few timed training steps; writes nothing."""
    sections = chosen_sections(only)
    _check_folder(out, scale, resume=True)
    units = chosen_units(sections, scale)
    left = [unit for unit in units if done(out, unit, scale) is None]
    data = open_data(scale.base.data, data_folder, scale.base.model.image_size)
    seconds = _seconds_a_training(scale.base, data)
    states = {unit.name: "to measure" if unit.run is None or isinstance(unit.run, str) or not unit.is_trained
              else "to train" for unit in units} | {unit.name: "done" for unit in units if unit not in left}
    total = sum(seconds * (unit.run.model.depth / scale.base.model.depth) if isinstance(unit.run, RunConfig)
                and unit.is_trained else 0.3 * seconds for unit in left)
    return Plan(scale.name, out, sections, states, total, seconds)


def reproduce(scale: Scale, out: Path, data_folder: Path | None = None, only: Sequence[str] | None = None,
              resume: bool = False, command: Sequence[str] = ()) -> Reproduction:
    """Do what is missing of the sections asked for, and write the report of all that is there."""
    sections = chosen_sections(only)
    _check_folder(out, scale, resume)
    data = open_data(scale.base.data, data_folder, scale.base.model.image_size)
    with directory.explained(out):
        out.mkdir(parents=True, exist_ok=True)
    with alone_in(out), _explained_stop(command):
        directory.replace_file(out / KIT, (json.dumps({"format": 1, "scale": scale.name}) + "\n").encode())
        (out / UNITS).mkdir(exist_ok=True)
        units = chosen_units(sections, scale)
        left = [unit for unit in units if done(out, unit, scale) is None]
        started = time.monotonic()
        for number, unit in enumerate(left):
            say(f"unit {len(units) - len(left) + number + 1} of {len(units)}: {unit.name}" +
                _left(started, number, len(left)))
            do(unit, scale, out, data, data_folder)
        results = _results(scale, out, data)
        _write(out, results)
    return Reproduction(out, results)


def _results(scale: Scale, out: Path, data: DataSet[Images]) -> dict[str, Any]:
    """All sections whose units are there."""
    everything = {unit.name: done(out, unit, scale) for unit in chosen_units(SECTIONS, scale)}
    units = {name: numbers for name, numbers in everything.items() if numbers is not None}
    judged: dict[str, Section] = {}
    for name in SECTIONS:
        needed = needed_by(name, scale)
        if all(unit in units for unit in needed):
            judged[name] = _judged(name, {unit: units[unit] for unit in needed})
    command = f"frost reproduce --scale {scale.name} --out REPORT" + ("" if scale.name == "smoke" else " --data DIR")
    timing = {name: numbers["timing"] for name, numbers in units.items()}
    return {
        "scale": scale.name, "command": command,
        "data": {"name": data.name, "train": len(data.train), "validation": len(data.validation),
                 "test": len(data.test)},
        "sections": {name: {**section._asdict(), "sanity": dict(section.sanity), "beyond": dict(section.beyond),
                            "rule": f"{section.rule}. It {RULE}.", "command": f"{command} --only {name}"}
                     for name, section in judged.items()},
        "claims": abstract.judged(judged), "claims_rule": abstract.RULE,
        "timing": {"seconds": sum(row["seconds"] for row in timing.values()),
                   "throughput": timing.get("complexity", {}).get("rows", {}),
                   "speed": cost.speed(units["complexity"]) if "complexity" in units else {}, "units": timing}}


def _judged(name: str, units: Units) -> Section:
    """A section's verdict. Without a seed that diverged, if others are left; else it says what is missing."""
    diverged = [unit for unit, numbers in units.items() if numbers.get("is_finite") is False]
    if diverged and name not in TAKES_DIVERGED:
        left = {unit: numbers for unit, numbers in units.items() if unit not in diverged}
        if name not in MANY_SEEDS or not all(any(other.startswith(unit.rsplit("-s", 1)[0] + "-s") for other in left)
                                             for unit in diverged):
            return untested(name, f"Not finite: {', '.join(diverged)}.", seeds_of(*units.values()))
        units = left
    return JUDGES[name](units)


def _write(out: Path, results: Mapping[str, Any]) -> None:
    """Figures first, then the numbers, then the page that shows both; each in one move."""
    (out / FIGURES).mkdir(exist_ok=True)
    pictures = {}
    for name, section in results["sections"].items():
        if not section["checks"]:
            continue
        for file, content in figure_files(name, section, results["timing"]).items():
            directory.replace_file(out / FIGURES / file, content)
            if file.endswith(".svg"):
                pictures[name] = content
    directory.replace_file(out / RESULTS, (json.dumps(results, indent=1, allow_nan=False) + "\n").encode())
    directory.replace_file(out / REPORT, page(results, pictures).encode())


def _check_folder(out: Path, scale: Scale, resume: bool) -> None:
    """Refuse a folder of another scale, of something else, or one that was begun when nobody asked to go on."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} exists and is not a folder; choose another --out.")
    if not out.exists() or all(file.name in (".lock", f".{KIT}.tmp") for file in out.iterdir()):
        return
    if not (out / KIT).is_file():
        raise ValueError(f"{out} holds something else than a reproduction; choose another --out.")
    there = directory.read_json(out / KIT).get("scale")
    if there != scale.name:
        raise ValueError(f"{out} is a reproduction at scale {there}, not {scale.name}; choose another --out.")
    if not resume:
        raise ValueError(f"{out} holds a reproduction that was begun; add --resume to go on with it.")


def _seconds_a_training(run: RunConfig, data: DataSet[Images]) -> float:
    """By a few steps of a training that is thrown away."""
    model = build(run.model, seed=0)
    records = fit(model, data.train, replace(run.train, seed=0), run.halting)
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


def plan_json(what: Plan) -> dict[str, Any]:
    """One object."""
    return {**what._asdict(), "out": str(what.out)}


def plan_text(what: Plan) -> str:
    """The same for a person."""
    counts = Counter(what.units.values())
    return "\n".join([
        f"{what.out} · scale {what.scale} · sections: {', '.join(what.sections)}", "",
        table(["unit", "state"], [[name, state] for name, state in what.units.items()]), "",
        f"{counts['done']} done, {counts['to train']} to train at about {what.seconds_a_training:.0f} s each, "
        f"{counts['to measure']} to measure: about {what.seconds / 60:.0f} minutes on this machine, by "
        f"{TRIED_STEPS} timed steps. Nothing was written."])


def text(result: Reproduction) -> str:
    """What holds, in a table."""
    sections = result.results["sections"]
    rows = [[name, section["verdict"], ", ".join(map(str, section["seeds"]))] for name, section in sections.items()]
    return "\n".join([
        f"{result.out} · scale {result.results['scale']} · {result.results['data']['name']} · "
        f"{result.results['timing']['seconds'] / 60:.1f} minutes of work", "",
        table(["section", "verdict", "seeds"], rows), "",
        *(f"{name}: {section['finding']}" for name, section in sections.items()), "",
        f"Written: {result.out / REPORT}, {RESULTS}, {FIGURES}/."])
