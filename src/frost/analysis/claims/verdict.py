"""A section of the report: the paper's numbers, ours, and what follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from frost.analysis.intervals import Measured, of_mean, of_share

Verdict = Literal["holds", "holds in part", "does not hold here", "cannot be tested at this scale"]
Units = Mapping[str, Mapping[str, Any]]    # by name, what was measured


class Section(NamedTuple):
    """One claim of the paper."""

    claim: str                # in a sentence
    paper: dict[str, Any]
    ours: dict[str, Any]      # numbers as {"value", "low", "high", "n"}
    verdict: Verdict
    rule: str                 # from which the verdict follows
    finding: str              # in a sentence, with the figures
    checks: dict[str, bool]   # the parts of the rule, and whether each is met
    seeds: list[int]
    sanity: Mapping[str, bool] = MappingProxyType({})    # what must be so by construction; no part of the verdict


RULE = "holds if every part is met, does not hold here if none is, else holds in part; cannot be tested where a " \
       "model that it needs diverged or is not well above chance"
CHANCES = 3.0    # times chance: a model below learned too little to say anything


def verdict_of(checks: Mapping[str, bool], *runs: Mapping[str, Any]) -> Verdict:
    """All parts met: holds; none: does not; else in part. Runs that learned next to nothing cannot tell."""
    if not checks or not all(learned(run) for run in runs):
        return "cannot be tested at this scale"
    if all(checks.values()):
        return "holds"
    return "holds in part" if any(checks.values()) else "does not hold here"


def learned(run: Mapping[str, Any]) -> bool:
    """Whether a run is well above chance at some step."""
    return bool(run.get("is_finite")) and max(run["per_step_accuracy"]) >= CHANCES / run["classes"]


def accuracy_of(unit: Mapping[str, Any], step: int = -1) -> Measured:
    """Of one run after a step, by default the last, over its test images."""
    share, count = unit["per_step_accuracy"][step], unit["images"]
    return of_share(round(share * count), count)


def along_steps(unit: Mapping[str, Any]) -> list[dict[str, float]]:
    """Accuracy of one run when everybody stops at step 1, 2, …"""
    return [of_share(round(share * unit["images"]), unit["images"])._asdict() for share in unit["per_step_accuracy"]]


def over_seeds(units: Sequence[Mapping[str, Any]], number: Any) -> Measured:
    """The mean of a number over runs that differ in their seed."""
    return of_mean([float(number(unit)) for unit in units])


def measured(values: Mapping[str, Any]) -> Measured:
    """Back from a file."""
    return Measured(values["value"], values["low"], values["high"], values["n"])


def seeds_of(*units: Mapping[str, Any]) -> list[int]:
    """Those that were used, each once."""
    return sorted({unit["seed"] for unit in units if "seed" in unit})


def percent(share: float) -> str:
    """0.9832 → 98.3 %."""
    return f"{100 * share:.1f} %"


def points(share: float) -> str:
    """0.0123 → +1.23 points."""
    return f"{100 * share:+.2f} points"
