"""The stopping rule of a run that keeps to what a user is ready to spend, and the command where it has none."""

from __future__ import annotations

import math
import shlex
import warnings
from pathlib import Path

from frost.checkpoint import Run
from frost.halting.budget import Budget
from frost.halting.calibration import Calibration
from frost.halting.stopping import AtDepth, Rule, StoppingRule


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


def is_calibrated(run: Run) -> bool:
    """Whether thresholds can be taken from the run."""
    return run.calibration is not None and run.calibration.pooled.count > 0


def rule_at(run: Run, quantile: float) -> Rule:
    """The stopping rule of a run at a quantile; at quantile 1, which is full depth, it needs no calibration."""
    if not 0.0 <= quantile <= 1.0:
        raise ValueError(f"quantile must lie in [0, 1], got {quantile}; 1 is full depth.")
    if quantile == 1.0:
        return Rule("rank", (math.inf,), quantile)
    if run.calibration is None or not is_calibrated(run):
        raise ValueError(f"{run.path} has no calibration, so quantile {quantile:g} has no threshold; make one: "
                         f"{command_for(run.path)}")
    return run.calibration.at_quantile(quantile)


def command_for(path: Path) -> str:
    """The command that calibrates a run, to be typed as it stands."""
    return shlex.join(["frost", "calibrate", str(path)])


def shown(run_path: Path | str, run: Run) -> str:
    """How to call a run: the name that was asked for, or the folder that was opened for it."""
    return str(run.path) if Path(run_path).exists() else str(run_path)


def _calibration(run: Run, what: str) -> Calibration:
    if run.calibration is None or not is_calibrated(run):
        raise ValueError(f"{run.path} has no calibration, so {what} has no threshold; make one: "
                         f"{command_for(run.path)}")
    return run.calibration
