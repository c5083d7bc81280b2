"""A section of the reproduction: one claim of the paper, the units it needs, how it is judged, how it is drawn.

A section is one file of `sections/` that defines `SECTION`. It is found by importing the files: to add a section, add
its file. `ORDER` says which stand first in the report; the others follow by name.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from frost.config import suggest
from frost.paper import sections as room
from frost.paper.checks import CHANCES, Checks, Units, learned, seeds_of
from frost.paper.sizes import Size
from frost.paper.units import Unit, merged, missing

Verdict = Literal["holds", "holds in part", "does not hold here", "cannot be tested at this scale"]
Values = Mapping[str, Any]    # a part of `results.json`
UNTESTED: Verdict = "cannot be tested at this scale"
ORDER = ("consistency", "dimension", "lambda", "halting", "losses", "complexity", "collapse", "theory", "supervision",
         "rules", "extrapolation", "shift")
CRITERION = "holds if every part is met, does not hold here if none is, else in part. A part is not decided where " \
            "the 95 % interval lies on both sides of its limit; where none is decided, where a model that it cannot " \
            f"do without diverged, or where one stays below {CHANCES:.0f} times chance, it cannot be tested"


class Finding(NamedTuple):
    """What a section makes of its units."""

    ours: dict[str, Any]      # numbers as {"value", "low", "high", "n"}
    checks: Checks            # what the paper says, each part met, missed or not decided
    sentence: str             # what was found, with the figures
    runs: Sequence[Mapping[str, Any]]                      # that must have learned something
    seeds: list[int]
    compared: Sequence[Sequence[str]] = ()                 # a line each: what, the paper's number, ours
    beyond: Checks = MappingProxyType({})                  # what a reader asks next; no part of the verdict
    sanity: Mapping[str, bool] = MappingProxyType({})      # what must be so by construction; no part of the verdict


class Judged(NamedTuple):
    """A section as `results.json` keeps it."""

    claim: str
    paper: dict[str, Any]
    ours: dict[str, Any]
    verdict: Verdict
    criterion: str            # from which the verdict follows
    finding: str
    checks: dict[str, bool | None]
    seeds: list[int]
    compared: Sequence[Sequence[str]] = ()
    beyond: Mapping[str, bool | None] = MappingProxyType({})
    sanity: Mapping[str, bool] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Section:
    """One claim of the paper."""

    name: str
    title: str
    claim: str                                         # in a sentence of ours
    paper: Mapping[str, Any]                           # the paper's numbers
    units: Callable[[Size], list[Unit]]                # what is trained, and what this section wants measured of it
    judge: Callable[[Units], Finding]                  # a pure function of the units' numbers
    draw: Callable[[Values, Values, Values], Any]      # the paper's numbers, ours, the clock's → a figure
    takes_diverged: bool = False                       # a training that diverged is a result here
    spares_seeds: bool = False                         # one seed of several may have diverged
    timed: Callable[[Units], dict[str, Any]] | None = None     # what the clock said, kept apart: it never repeats
    remark: Callable[[Values], str] | None = None              # a sentence on that

    def judged(self, units: Units) -> Judged:
        """The verdict; without a seed that diverged, if others are left, else with a sentence on what is missing."""
        left = units if self.takes_diverged else {name: unit for name, unit in units.items() if _is_finite(unit)}
        lost = [name for name in units if name not in left]
        if lost and not (self.spares_seeds and all(_has_other_seed(name, left) for name in lost)):
            why = f"Not finite: {', '.join(lost)}."
            return Judged(self.claim, dict(self.paper), {"why": why}, UNTESTED,
                          "every training that it needs must stay finite", why, {}, seeds_of(*units.values()))
        found = self.judge(left)
        return Judged(self.claim, dict(self.paper), found.ours, verdict_of(found.checks, *found.runs),
                      "; ".join(found.checks), found.sentence, dict(found.checks), found.seeds, found.compared,
                      dict(found.beyond), dict(found.sanity))

    def lacks(self, size: Size, units: Units) -> list[str]:
        """What the section cannot do without and is not there, a phrase each; `units` are those that are there."""
        wanted = self.units(size)
        return [f"the unit {unit.name}" for unit in wanted if unit.name not in units] + \
            [f"{want.name} of {unit.name}" for unit in wanted if unit.name in units
             for want in missing(unit, units[unit.name])]


def verdict_of(checks: Checks, *runs: Mapping[str, Any]) -> Verdict:
    """All parts met: holds; none: does not; else in part. Runs that learned next to nothing cannot tell."""
    decided = [met for met in checks.values() if met is not None]
    if not decided or not all(learned(run) for run in runs):
        return UNTESTED
    if not any(decided):
        return "does not hold here"
    return "holds" if all(checks.values()) else "holds in part"


@cache
def sections() -> Mapping[str, Section]:
    """All sections by name, in the order of the report, found by importing every file of `sections/`."""
    files = (importlib.import_module(f"{room.__name__}.{file.name}") for file in pkgutil.iter_modules(room.__path__))
    found = {section.name: section for file in files if (section := getattr(file, "SECTION", None)) is not None}
    order = [name for name in ORDER if name in found] + sorted(name for name in found if name not in ORDER)
    return MappingProxyType({name: found[name] for name in order})


def chosen_sections(names: Sequence[str] | None) -> list[Section]:
    """Those asked for, in their order; None is all."""
    known = sections()
    for name in names or ():
        if name not in known:
            raise ValueError(f"there is no section '{name}'. {suggest(name, tuple(known))}")
    return [section for name, section in known.items() if not names or name in names]


def units_of(chosen: Iterable[Section], size: Size) -> list[Unit]:
    """The units of these sections with all that any section wants of them; those that most sections need come first."""
    every = [unit for section in sections().values() for unit in section.units(size)]
    needed = Counter(unit.name for unit in every)
    wanted = {unit.name for section in chosen for unit in section.units(size)}
    return sorted((unit for unit in merged(every).values() if unit.name in wanted), key=lambda unit: -needed[unit.name])


def _is_finite(unit: Mapping[str, Any]) -> bool:
    return unit.get("is_finite") is not False


def _has_other_seed(name: str, units: Units) -> bool:
    """Whether the same model was trained with another seed."""
    return any(other.startswith(name.rsplit("-s", 1)[0] + "-s") for other in units)
