"""What a user is ready to spend, and the stopping rule of a calibration that keeps to it; never sees a run."""

from __future__ import annotations

import math
from typing import NamedTuple

from frost.halting.calibration import Calibration, NotCalibrated
from frost.halting.stopping import AtDepth, Rule, StoppingRule


class Budget(NamedTuple):
    """When images stop; at most one of these, none is full depth."""

    quantile: float | None = None         # of the calibration's scores
    mean_depth: float | None = None       # steps per image
    accuracy_loss: float | None = None    # points that may be lost, with 95 % confidence
    depth: int | None = None              # the same for every image

    def named(self) -> dict[str, float]:
        """The one that is set, by its name; empty for full depth."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def rule_of(budget: Budget, calibration: Calibration | None, depth: int) -> StoppingRule:
    """The stopping rule that a budget names, for a model of this depth.

    An accuracy loss that no early stop is certified for is full depth.
    """
    named = budget.named()
    if len(named) > 1:
        raise ValueError(f"choose one of {' and '.join(named)}.")
    if not named or budget.quantile == 1.0:
        return AtDepth(depth)
    if budget.depth is not None:
        if isinstance(budget.depth, bool) or not isinstance(budget.depth, int) or not 1 <= budget.depth <= depth:
            raise ValueError(f"depth must be a whole number from 1 to {depth}, got {budget.depth!r}.")
        return AtDepth(budget.depth)
    (name, value), = named.items()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{name} must be a number, got {value!r}.")
    if calibration is None or not calibration.pooled.count:
        raise NotCalibrated(f"there is no calibration, so {name} {value:g} has no threshold; calibrate the run, or ask "
                            "for depth=….")
    return _fitted(calibration, name, value, depth)


def _fitted(calibration: Calibration, name: str, value: float, depth: int) -> StoppingRule:
    """The calibration's rule; one that never stops early is full depth."""
    if name == "quantile":
        return calibration.at_quantile(value)
    if name == "accuracy_loss":
        if not value > 0:
            raise ValueError(f"accuracy_loss must be above 0 points, got {value:g}.")
        rule = calibration.at_accuracy_loss(value)
    else:
        if not 1 <= value <= depth:
            raise ValueError(f"mean_depth must lie between 1 and {depth}, got {value:g}.")
        rule = calibration.at_mean_depth(value)
    return AtDepth(depth) if rule.thresholds == (math.inf,) else rule


def mean_depth_of(rule: StoppingRule, calibration: Calibration | None, depth: int) -> float:
    """The mean depth that a rule takes on held-out inputs; full depth where there is no telling."""
    if isinstance(rule, AtDepth):
        return float(min(rule.depth, depth))
    if calibration is None or not isinstance(rule, Rule) or rule.name not in calibration.signals:
        return float(depth)
    return calibration.mean_depth_of(rule)
