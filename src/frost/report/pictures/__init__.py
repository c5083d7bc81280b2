"""One picture for each section of the paper kit, drawn from what `results.json` holds of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frost.report.drawing import Values, as_files
from frost.report.pictures import cost, geometry, scaling, stopping, training

FIGURES: dict[str, Callable[[Values, Values, Values], Any]] = {
    "consistency": geometry.consistency, "dimension": geometry.dimension, "lambda": scaling.scale,
    "halting": stopping.halting, "losses": training.losses, "complexity": cost.complexity,
    "collapse": training.collapse, "theory": scaling.theory, "supervision": training.supervision,
    "rules": stopping.rules, "extrapolation": stopping.extrapolation, "shift": stopping.shift}


def figure_files(name: str, section: Values, timing: Values) -> dict[str, bytes]:
    """SVG and PNG of one section."""
    return as_files(FIGURES[name](section["paper"], section["ours"], timing), name)
