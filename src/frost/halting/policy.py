"""When an image stops (§4.4): a signal and its threshold, never a model.

A rule is asked for each image and step whether to stop; the first yes decides, and step T decides for everybody. The
oracles at the end look at all steps, or at labels: nobody can run them, they show what could be had.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

from frost.halting.signals import SIGNALS, Signal, along


class Policy(Protocol):
    """A stopping rule: what it looks at, and which (image, step) pairs would stop."""

    @property
    def signal(self) -> Signal:
        """What the rule looks at after each step."""

    def stops(self, values: Tensor, steps: Tensor | None = None) -> Tensor:
        """Whether each image would stop, given its signal and its step (from 1), which broadcast.

        Without steps, the values are whole traces, (b, t).
        """


@dataclass(frozen=True, slots=True)
class Rule:
    """Stop when a signal exceeds its threshold, strictly; a threshold of +∞ never stops anybody before step T.

    Paper choice: by (20) a larger quantile is a higher threshold and a later stop, against the text of §6.3.
    """

    name: str                        # of the signal
    thresholds: tuple[float, ...]    # one for all steps, or one for each; the last goes on beyond
    quantile: float | None = None    # the question that this threshold answers, if it was one

    def __post_init__(self) -> None:
        if self.name not in SIGNALS:
            raise ValueError(f"there is no stopping rule '{self.name}'. Known: {', '.join(SIGNALS)}.")
        if not self.thresholds or any(math.isnan(threshold) for threshold in self.thresholds):
            raise ValueError(f"a rule has one threshold, or one for each step, got {self.thresholds}.")

    @property
    def signal(self) -> Signal:
        """What the rule looks at."""
        return SIGNALS[self.name]

    @property
    def threshold(self) -> float | None:
        """The one threshold in its own unit, s_halt in [0, 1] for the score; None if it never stops, or has several."""
        if len(self.thresholds) > 1 or self.thresholds[0] == math.inf:
            return None
        shown = self.signal.threshold_shown(self.thresholds[0])
        return shown if math.isfinite(shown) else None

    def stops(self, values: Tensor, steps: Tensor | None = None) -> Tensor:
        """s_{i,t} > s_halt of (20), for any signal; in double precision, as thresholds are found."""
        if len(self.thresholds) == 1:
            return values.double() > self.thresholds[0]
        steps = _all_steps(values) if steps is None else steps
        each = _on(values.device, self.thresholds)
        return values.double() > each[(steps - 1).clamp_max(len(self.thresholds) - 1)]


@dataclass(frozen=True, slots=True)
class AtDepth:
    """Stop every image at the same step: the line that an adaptive rule has to beat."""

    depth: int

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"depth must be at least 1, got {self.depth}; an image is read after its first step.")

    @property
    def signal(self) -> Signal:
        """The step."""
        return SIGNALS["fixed"]

    def stops(self, values: Tensor, steps: Tensor | None = None) -> Tensor:
        """From step `depth` on."""
        steps = _all_steps(values) if steps is None else steps
        return (steps >= self.depth).expand_as(values)


@lru_cache(maxsize=64)
def _on(device: torch.device, thresholds: tuple[float, ...]) -> Tensor:
    """Thresholds where they are needed, copied there once."""
    return torch.tensor(thresholds, dtype=torch.float64, device=device)


def _all_steps(values: Tensor) -> Tensor:
    return torch.arange(1, values.shape[-1] + 1, device=values.device)


def first_passage(stops: Tensor) -> Tensor:
    """The step at which each image stops under (20), bool (b, t) → (b,): the first yes, else T; steps count from 1."""
    depth = stops.shape[1]
    return torch.where(stops.any(dim=1), stops.int().argmax(dim=1) + 1, depth)


def depth_under(policy: Policy, outputs: Tensor, score_logits: Tensor, states: Tensor | None = None) -> Tensor:
    """The step at which each stored trajectory stops: (b, t, k), (b, t) and, for some rules, (b, t, …) → (b,)."""
    return first_passage(policy.stops(along(policy.signal, outputs, score_logits, states)))


def agreement_oracle(outputs: Tensor) -> Tensor:
    """The first step after which the predicted class no longer changes up to T, (b, t, k) → (b,)."""
    classes = outputs.argmax(dim=-1)
    differs = classes != classes[:, -1:]
    last = torch.arange(1, classes.shape[1] + 1, device=classes.device).masked_fill(~differs, 0).amax(dim=1)
    return last + 1


def label_oracle(outputs: Tensor, labels: Tensor) -> Tensor:
    """The first step at which the class is right; T if it never is, (b, t, k), (b,) → (b,)."""
    return first_passage(outputs.argmax(dim=-1) == labels[:, None])
