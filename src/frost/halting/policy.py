"""When an image stops (§4.4): stopping rules on scores, never on a model.

A rule is asked for each image and step whether to stop; the first yes decides, and step T decides for everybody.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from frost.halting.score import threshold_of


class Policy(Protocol):
    """A stopping rule: which (image, step) pairs would stop, (b, t) → bool (b, t)."""

    def stops(self, score_logits: Tensor) -> Tensor:
        """Whether each image would stop at each step."""


@dataclass(frozen=True, slots=True)
class ByScore:
    """Stop when the halting score exceeds the threshold, strictly; at quantile 1 never before step T.

    Paper choice: by (20) a larger quantile is a higher threshold and a later stop, against the text of §6.3.
    """

    threshold_logit: float
    quantile: float | None = None  # the question that this threshold answers, if it was one

    @property
    def threshold(self) -> float | None:
        """s_halt as a score in [0, 1]; None where no score is high enough."""
        return None if self.threshold_logit == math.inf else threshold_of(self.threshold_logit)

    def stops(self, score_logits: Tensor) -> Tensor:
        """s_{i,t} > s_halt of (20), compared as logits: (b, t) → bool (b, t)."""
        return score_logits > self.threshold_logit


@dataclass(frozen=True, slots=True)
class AtDepth:
    """Stop every image at the same step: the line that an adaptive rule has to beat."""

    depth: int

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"depth must be at least 1, got {self.depth}; an image is read after its first step.")

    def stops(self, score_logits: Tensor) -> Tensor:
        """True from step `depth` on, (b, t) → bool (b, t)."""
        steps = torch.arange(1, score_logits.shape[1] + 1, device=score_logits.device)
        return (steps >= self.depth).expand_as(score_logits)


def first_passage(stops: Tensor) -> Tensor:
    """The step at which each image stops under (20), bool (b, t) → (b,): the first yes, else T; steps count from 1."""
    depth = stops.shape[1]
    return torch.where(stops.any(dim=1), stops.int().argmax(dim=1) + 1, depth)
