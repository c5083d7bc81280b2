"""From an outcome to what a client reads: a class, numbers, or a map of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frost.core.task import Gives
from frost.runtime.engine_thread import Outcome
from frost.runtime.probabilities import probabilities


def answer_of(outcome: Outcome, gives: Gives, names: Sequence[str]) -> dict[str, Any]:
    """The answer for one input, or its error."""
    if outcome.output is None:
        return {"error": outcome.error, "depth": outcome.depth}
    rest = {"depth": outcome.depth, "score": outcome.score, "is_late": outcome.is_late,
            "budget": outcome.budget.named() or "full depth", "is_reduced": outcome.is_reduced}
    output = outcome.output
    if gives != "classes":
        return {"numbers": output.tolist(), **rest}
    shares = probabilities(output)
    label = shares.argmax(axis=-1)
    if output.ndim > 1:
        return {"labels": label.tolist(), "confidence": float(shares.max(axis=-1).min()), **rest}
    place = int(label)
    return {"class": names[place] if place < len(names) else str(place), "label": place,
            "confidence": float(shares[place]), "probabilities": shares.tolist(), **rest}
