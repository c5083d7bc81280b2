"""The budgets of the page's slider: at each, the rule that the run's calibration chose, and what it reached."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from frost.checkpoint import Run
from frost.evaluation.budget import command_for, is_calibrated
from frost.halting.calibration import Calibration, OutOfReach
from frost.halting.fixed_depth import fixed_depth_line
from frost.halting.rule_choice import FEWEST, FIXED, crossed_depths
from frost.halting.stopping import Rule

STOPS = 11    # of the slider, from one step to all


def budgets_of(run: Run) -> list[dict[str, Any]]:
    """Budgets from one step to full depth, each with its rule; mean depths that no threshold reaches are left out."""
    if run.calibration is None or not is_calibrated(run):
        raise ValueError(f"{run.path} has no calibration, so a page's budgets have no thresholds; make one: "
                         f"{command_for(run.path)}")
    found: dict[float, dict[str, Any]] = {}
    depth = run.model.depth
    for target in np.linspace(1, depth, STOPS):
        try:
            form, rule = run.calibration.choice_at(min(float(round(target, 2)), depth))
        except OutOfReach:
            continue
        budget = _budget(run.calibration, form, rule, min(float(round(target, 2)), depth))
        found.setdefault(round(budget["mean_depth"], 2), budget)
    if depth not in found:
        found[depth] = _budget(run.calibration, FIXED, Rule(run.calibration.rule, (math.inf,)), depth)
    return [found[mean_depth] for mean_depth in sorted(found)]


def rule_of(budget: dict[str, Any]) -> Rule:
    """The rule that a budget stands for."""
    return Rule(budget["signal"], tuple(float(threshold) for threshold in budget["thresholds"]))


def _budget(calibration: Calibration, form: str, rule: Rule, asked: float) -> dict[str, Any]:
    """A rule, its mean depth on the held-out inputs, and what it is worth there.

    Args:
        asked: the mean depth that the calibration has this rule for.
    """
    mean_depth = calibration.mean_depth_of(rule)
    return {"mean_depth": round(mean_depth, 3), "asked": asked, "form": form, "signal": rule.name,
            "quality": _quality(calibration, form, mean_depth),
            "thresholds": [threshold if math.isfinite(threshold) else "Infinity" if threshold > 0 else "-Infinity"
                           for threshold in rule.thresholds],
            "fixed": max(1, round(mean_depth)), "inputs": calibration.inputs}


def _quality(calibration: Calibration, form: str, mean_depth: float) -> list[float] | None:
    """Of the form at this mean depth and of fixed depth; each half of the inputs by thresholds of the other half."""
    if calibration.quality is None or calibration.inputs < 2 * FEWEST:
        return None
    depths = crossed_depths(form, calibration.signals, calibration.quality, mean_depth)
    adaptive = calibration.quality[np.arange(len(depths)), depths - 1].mean()
    line = fixed_depth_line(calibration.quality.mean(axis=0)[None], float(depths.mean()))[0]
    return [round(float(adaptive), 4), round(float(line), 4)]
