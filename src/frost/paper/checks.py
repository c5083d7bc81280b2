"""What a section may ask of its numbers: each check is met, missed or, where the interval allows both, not decided.

Pure functions of the numbers in units' files; none runs a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from frost.paper.intervals import NORMAL, Measured, of_share

Units = Mapping[str, Mapping[str, Any]]    # by name, what was measured
Check = bool | None                        # met, missed, or not decided by what was measured
Checks = Mapping[str, Check]
CHANCES = 5.0    # times chance: a model below learned too little to say anything
CLOSE = 1 / 30   # of an accuracy: two points of 60 %


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
    """Accuracy of one run at fixed depth 1, 2, …"""
    return [of_share(round(share * unit["images"]), unit["images"])._asdict() for share in unit["per_step_accuracy"]]


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
