"""A training step for a person: its line of progress, and the sentence when its numbers are none any more."""

from __future__ import annotations

import math

from frost.training.loop import StepRecord


def line_of(record: StepRecord) -> str:
    """What the progress shows of a step."""
    scale = "" if record.scale is None else f"  λ {record.scale:.3f}"
    quality = "" if record.accuracy is None else f"  accuracy {record.accuracy:.2f}"
    return f"epoch {record.epoch}  loss {record.loss:.3f}{quality}{scale}"


def check_finite(record: StepRecord, learning_rate: float) -> None:
    """Refuse to go on with a training whose numbers are infinite or none; the loss may still look sound then."""
    for name, value in record._asdict().items():
        if isinstance(value, float) and not math.isfinite(value):
            raise FloatingPointError(f"{name} is {value} after step {record.step}; lower train.learning_rate, which is "
                                     f"{learning_rate:g}, in a new --out.")
