"""A section of the report: the paper's numbers, ours, and what follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from frost.analysis.claims.stated import CLAIMS, NUMBERS
from frost.analysis.intervals import NORMAL, Measured, of_mean, of_share

Verdict = Literal["holds", "holds in part", "does not hold here", "cannot be tested at this scale"]
Units = Mapping[str, Mapping[str, Any]]    # by name, what was measured
Check = bool | None                        # met, missed, or not decided by what was measured
Checks = Mapping[str, Check]


class Section(NamedTuple):
    """One claim of the paper."""

    claim: str                # in a sentence
    paper: dict[str, Any]
    ours: dict[str, Any]      # numbers as {"value", "low", "high", "n"}
    verdict: Verdict
    rule: str                 # from which the verdict follows
    finding: str              # in a sentence, with the figures
    checks: Checks            # the parts of the rule: what the paper says
    seeds: list[int]
    compared: Sequence[Sequence[str]] = ()                 # a line each: what, the paper's number, ours
    beyond: Checks = MappingProxyType({})                  # what a reader asks next; no part of the verdict
    sanity: Mapping[str, bool] = MappingProxyType({})      # what must be so by construction; no part of the verdict


CHANCES = 5.0    # times chance: a model below learned too little to say anything
RULE = "holds if every part is met, does not hold here if none is, else in part. A part is not decided where the " \
       "95 % interval lies on both sides of its limit; where none is decided, where a model that it cannot do " \
       f"without diverged, or where one stays below {CHANCES:.0f} times chance, it cannot be tested"
CLOSE = 1 / 30   # of an accuracy: two points of 60 %


def section(name: str, ours: dict[str, Any], checks: Checks, finding: str, runs: Sequence[Mapping[str, Any]],
            seeds: list[int], **more: Any) -> Section:
    """A section with its verdict; `runs` are those that must have learned something."""
    return Section(CLAIMS[name], dict(NUMBERS[name]), ours, verdict_of(checks, *runs), "; ".join(checks), finding,
                   checks, seeds, **more)


def untested(name: str, why: str, seeds: list[int]) -> Section:
    """A section that lacks what it cannot do without."""
    return Section(CLAIMS[name], dict(NUMBERS[name]), {"why": why}, "cannot be tested at this scale",
                   "every training that it needs must stay finite", why, {}, seeds)


def verdict_of(checks: Checks, *runs: Mapping[str, Any]) -> Verdict:
    """All parts met: holds; none: does not; else in part. Runs that learned next to nothing cannot tell."""
    decided = [met for met in checks.values() if met is not None]
    if not decided or not all(learned(run) for run in runs):
        return "cannot be tested at this scale"
    if not any(decided):
        return "does not hold here"
    return "holds" if all(checks.values()) else "holds in part"


def above(gap: Measured, limit: float = 0.0) -> Check:
    """Whether a number lies above a limit; not decided where its interval lies on both sides."""
    if gap.low > limit:
        return True
    return False if gap.high <= limit else None


def below(gap: Measured, limit: float = 0.0) -> Check:
    """The same the other way round."""
    return above(Measured(-gap.value, -gap.high, -gap.low, gap.n), -limit)


def every(checks: Iterable[Check]) -> Check:
    """Met if all are; missed if one is; else not decided."""
    found = list(checks)
    if any(met is False for met in found):
        return False
    return None if any(met is None for met in found) else True


def close_to(gap: Measured, accuracy: float) -> Check:
    """Whether a difference of accuracies is at worst a small loss."""
    return above(gap, -CLOSE * accuracy)


def seeds_differ_by(values: Sequence[float]) -> float | None:
    """What two runs of one kind differ by at most in 95 % of the cases; None where there is one run only."""
    if len(values) < 2:
        return None
    centre = sum(values) / len(values)
    deviation = (sum((value - centre) ** 2 for value in values) / (len(values) - 1)) ** 0.5
    return float(NORMAL * 2**0.5 * deviation)


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


def shown(number: Measured, digits: int = 2, factor: float = 1.0) -> str:
    """1.23 [1.20, 1.26]."""
    value, low, high = (f"{factor * part:.{digits}f}" for part in number[:3])
    return value if number.n == 1 else f"{value} [{low}, {high}]"
