"""What a user is ready to spend, and the stopping rule of a run that keeps to it."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

from frost.checkpoint import Run
from frost.halting.calibration import Calibration
from frost.halting.stopping import AtDepth, StoppingRule
from frost.workflows.calibrate import command_for
from frost.workflows.evaluate import is_calibrated, rule_at


class Budget(NamedTuple):
    """When images stop; at most one of these, none is full depth."""

    quantile: float | None = None         # of the calibration's scores
    mean_depth: float | None = None       # steps per image
    accuracy_loss: float | None = None    # points that may be lost, with 95 % confidence
    depth: int | None = None              # the same for every image


def policy_of(run: Run, budget: Budget) -> StoppingRule:
    """The stopping rule that a budget names."""
    named = [name for name, value in budget._asdict().items() if value is not None]
    if len(named) > 1:
        raise ValueError(f"choose one of {' and '.join(named)}.")
    if budget.quantile is not None:
        return rule_at(run, budget.quantile)
    if budget.mean_depth is not None:
        return _calibration(run, "a mean depth").at_mean_depth(budget.mean_depth)
    if budget.accuracy_loss is not None:
        rule = _calibration(run, "an accuracy loss").at_accuracy_loss(budget.accuracy_loss)
        if rule.thresholds == (math.inf,):
            warnings.warn(f"the held-out images are too few, or {budget.accuracy_loss:g} points too little, to certify "
                          "any early stop: every image takes all steps", stacklevel=2)
        return rule
    if budget.depth is not None and not 1 <= budget.depth <= run.model.depth:
        raise ValueError(f"depth must lie between 1 and {run.model.depth}, the steps that {run.path} was trained for, "
                         f"got {budget.depth}.")
    return AtDepth(run.model.depth if budget.depth is None else budget.depth)


def _calibration(run: Run, what: str) -> Calibration:
    if run.calibration is None or not is_calibrated(run):
        raise ValueError(f"{run.path} has no calibration, so {what} has no threshold; make one: "
                         f"{command_for(run.path)}")
    return run.calibration
