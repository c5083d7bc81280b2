"""From an outcome to what a client reads: a class, numbers, or a map of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from frost.core.task import Gives
from frost.runtime.engine_thread import Outcome


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
    share, label = shares.max(dim=-1)
    if output.ndim > 1:
        return {"labels": label.tolist(), "confidence": share.min().item(), **rest}
    place = int(label)
    return {"class": names[place] if place < len(names) else str(place), "label": place, "confidence": share.item(),
            "probabilities": shares.tolist(), **rest}


def probabilities(output: Tensor) -> Tensor:
    """Softmax over the classes, in double precision, so that a client gets what the answer's bits say."""
    return output.double().softmax(dim=-1)
