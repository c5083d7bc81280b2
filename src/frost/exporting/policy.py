"""`policy.json`: what a host must know beside the graphs; plain values, infinity as "Infinity" or "-Infinity".

A rule is a row of thresholds for each signal, one for each step, and the most steps. `budgets` are about ten rules
along the calibration; whole steps where there is none.
"""

from __future__ import annotations

import math
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from frost.checkpoint import Run
from frost.config import from_dict
from frost.core.trajectory import IterativeModel
from frost.halting.budget import mean_depth_of
from frost.halting.calibration import Calibration
from frost.halting.rule_choice import FIXED
from frost.halting.stopping import AtDepth, Rule, StoppingRule
from frost.runtime.onnx_graphs import ANSWERS, Layout
from frost.runtime.rules import Rules
from frost.zoo.registry import DIMENSIONS, ModelConfig

FORMAT = 1
SHARES = tuple(part / 10 for part in range(1, 11))    # of full depth, at which a budget is offered


class Facts(NamedTuple):
    """What a package says of its run."""

    name: str
    classes: list[str] | None = None
    preprocessing: dict[str, Any] | None = None    # None where inputs are no image files


def facts_of(run: Run, name: str) -> Facts:
    """The names of the classes, and how image files become inputs."""
    config = from_dict(ModelConfig, run.config["model"], "model") if isinstance(run.config.get("model"), dict) else None
    if config is None:
        return Facts(name)
    picture = None if config.backbone in DIMENSIONS else {
        "size": config.image_size, "channels": config.image_channels, "layout": "channels, height, width",
        "levels": "0 to 255, divided by 255",
        "geometry": "upright by EXIF, shorter side scaled to size by bicubic resampling, cut at the centre"}
    return Facts(name, run.class_names(config.classes), picture)


def budgets_of(calibration: Calibration | None, depth: int) -> list[tuple[str, StoppingRule]]:
    """Forms and rules for about ten mean depths, none twice."""
    if calibration is None or not calibration.pooled.count:
        return [(FIXED, AtDepth(step)) for step in range(1, depth + 1)]
    found: dict[float, tuple[str, StoppingRule]] = {}
    for _, form, rule in calibration.choices_at(SHARES):
        found.setdefault(round(calibration.mean_depth_of(rule), 2), (form, rule))
    found[float(depth)] = (FIXED, AtDepth(depth))
    return [found[mean_depth] for mean_depth in sorted(found)]


def signals_of(budgets: list[tuple[str, StoppingRule]]) -> list[str]:
    """The signals that budgets look at; those that only count steps need none."""
    return sorted({rule.signal.name for form, rule in budgets if form != FIXED})


def policy_of(model: IterativeModel, rules: Rules, rule: StoppingRule, budgets: list[tuple[str, StoppingRule]],
              layout: Layout, facts: Facts) -> dict[str, Any]:
    """Everything that `policy.json` holds."""
    calibration = model.calibration
    return {
        "format": FORMAT, "frost": version("frost-ssm"), "name": facts.name, "depth": model.depth,
        "gives": model.task.gives, "has_score": model.has_score, "classes": facts.classes,
        "preprocessing": facts.preprocessing,
        "inputs": [{"name": name, "key": part.name, "shape": list(part.shape),
                    "dtype": str(part.dtype).removeprefix("torch.")}
                   for name, part in zip(layout.inputs, layout.signature.parts, strict=True)],
        "state": list(layout.state), "memory": list(layout.memory), "moving": list(layout.moving),
        "answers": list(ANSWERS), "signals": [signal.name for signal in rules.signals],
        "rule": _described("", rule, rules, calibration, model.depth),
        "budgets": [_described(form, each, rules, calibration, model.depth) for form, each in budgets]}


def _described(form: str, rule: StoppingRule, rules: Rules, calibration: Calibration | None,
               depth: int) -> dict[str, Any]:
    """A rule as numbers, with its mean depth and quality on the held-out inputs."""
    row = rules.row(_without_signal(rule, form, depth))
    mean_depth, quality = mean_depth_of(rule, calibration, depth), None
    if calibration is not None and calibration.quality is not None:
        depths = calibration.depths_of(rule) if isinstance(rule, Rule) and rule.name in calibration.signals else \
            np.full(calibration.inputs, row.limit)
        quality = round(float(calibration.quality[np.arange(calibration.inputs), depths - 1].mean()), 4)
    return {"form": form or rule.signal.name, "mean_depth": round(mean_depth, 3), "quality": quality,
            "limit": row.limit, "thresholds": _plain(row.thresholds)}


def _without_signal(rule: StoppingRule, form: str, depth: int) -> StoppingRule:
    """A rule whose thresholds are all infinite counts steps, whatever its signal: a fixed depth."""
    if isinstance(rule, Rule) and form == FIXED and all(map(math.isinf, rule.thresholds)):
        return AtDepth(min(rule.thresholds.index(-math.inf) + 1, depth) if -math.inf in rule.thresholds else depth)
    return rule


def _plain(table: Tensor) -> list[list[float | str]]:
    """Numbers that JSON can hold."""
    return [[number if math.isfinite(number) else "Infinity" if number > 0 else "-Infinity" for number in row]
            for row in table.tolist()]
