"""When an image stops (§4.4): a signal and its threshold, never a model.

A rule is asked for each image and step whether to stop; the first yes decides, and step T stops every image. The
oracles at the end look at all steps, or at labels: they cannot be run on fresh inputs, they show what could be had.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from frost.halting.signals import SIGNALS, Signal, along


class StoppingRule(Protocol):
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
    """Stop when a signal exceeds its threshold, strictly; a threshold of +∞ never stops before step T.

    Paper choice: by (20) a larger quantile is a higher threshold and a later stop, against the text of §6.3.
    """

    name: str                        # of the signal
    thresholds: tuple[float, ...]    # one for all steps, or one for each; the last goes on beyond
    quantile: float | None = None    # the question that this threshold answers, if it was one

    def __post_init__(self) -> None:
        if self.name not in SIGNALS:
            raise ValueError(f"there is no stopping rule '{self.name}'. Known: {', '.join(SIGNALS)}.")
        try:
            numbers = tuple(float(threshold) for threshold in self.thresholds)
        except (TypeError, ValueError):
            numbers = ()
        if not numbers or any(math.isnan(threshold) for threshold in numbers):
            raise ValueError(f"a rule has one threshold, or one for each step, in a tuple, got {self.thresholds!r}.")
        object.__setattr__(self, "thresholds", numbers)
        for threshold in self.thresholds:
            if self.signal.within(threshold) != threshold:
                raise ValueError(
                    f"thresholds of '{self.name}' lie in [{self.signal.least:g}, {self.signal.most:g}], the signal's "
                    f"own unit, or are infinite; got {threshold:g}. frost.stop_when takes units that people know, such "
                    "as confidence=0.9.")

    @classmethod
    def fitted(cls, name: str, thresholds: Sequence[float], quantile: float | None = None) -> Rule:
        """A rule with thresholds that were found on values: one beyond the signal's range is ±∞, which says the same.
        """
        return cls(name, tuple(SIGNALS[name].within(threshold) for threshold in thresholds), quantile)

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
        if isinstance(self.depth, bool) or not isinstance(self.depth, int) or self.depth < 1:
            raise ValueError(f"depth must be at least 1, a whole number, got {self.depth!r}; an input is read after "
                             "its first step.")

    @property
    def signal(self) -> Signal:
        """The step."""
        return SIGNALS["fixed"]

    def stops(self, values: Tensor, steps: Tensor | None = None) -> Tensor:
        """From step `depth` on."""
        steps = _all_steps(values) if steps is None else steps
        return (steps >= self.depth).expand_as(values)


class Unit(NamedTuple):
    """A threshold as a user says it, and how it becomes one of a signal."""

    signal: str
    means: str                              # in a sentence
    least: float
    most: float                             # both ends excluded
    convert: Callable[[float], float]


UNITS = {
    "confidence": Unit("confidence", "a probability", 0.0, 1.0, math.log),
    "margin": Unit("margin", "a difference of two probabilities", 0.0, 1.0, float),
    "entropy": Unit("entropy", "an entropy in nats", 0.0, math.inf, lambda value: -value),
    "score": Unit("rank", "a halting score", 0.0, 1.0, lambda value: math.log(value) - math.log1p(-value)),
    "change": Unit("change", "a share of the state's length", 0.0, math.inf, lambda value: -value),
    "patience": Unit("patience", "a number of steps", 0.5, math.inf, lambda value: value - 0.5),
}


def stop_when(**condition: Any) -> Rule:
    """A stopping rule in units that people know, without a calibration: `stop_when(confidence=0.9)`.

        confidence=0.9   the highest probability is above 0.9; with many answers, that of the least sure
        margin=0.5       the highest probability less the second is above 0.5
        entropy=0.2      the entropy is below 0.2 nats
        score=0.8        the halting score (19) is above 0.8
        change=1e-3      the state moved by less than a thousandth of its length
        patience=2       the predicted class has not changed for two steps
    """
    if len(condition) != 1:
        raise ValueError(f"stop_when takes one condition, such as confidence=0.9; got {len(condition)}. Known: "
                         f"{', '.join(UNITS)}.")
    (name, value), = condition.items()
    if name not in UNITS:
        raise ValueError(f"stop_when knows no condition '{name}'. Known: {', '.join(UNITS)}.")
    unit = UNITS[name]
    if isinstance(value, bool) or not isinstance(value, Real) or not unit.least < float(value) < unit.most:
        limits = f"between {unit.least:g} and {unit.most:g}" if math.isfinite(unit.most) else f"above {unit.least:g}"
        raise ValueError(f"{name} is {unit.means}, {limits}; got {value!r}.")
    return Rule(unit.signal, (unit.convert(float(value)),))


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


def depth_under(rule: StoppingRule, outputs: Tensor, score_logits: Tensor, states: Tensor | None = None,
                mask: Tensor | None = None) -> Tensor:
    """The step at which each stored trajectory stops: (b, t, …), (b, t) and, for some rules, (b, t, …) → (b,)."""
    return first_passage(rule.stops(along(rule.signal, outputs, score_logits, states, mask)))


def check_signal(signal: Signal, gives: str, has_score: bool) -> None:
    """Refuse a signal that a model's outputs do not carry."""
    if signal.looks_at_classes and gives != "classes":
        raise ValueError(f"the rule '{signal.name}' looks at class probabilities, and this model answers with numbers; "
                         "use 'rank' (score=…), 'change' or 'residual'.")
    if signal.looks_at_score and not has_score:
        raise ValueError(f"the rule '{signal.name}' looks at a halting score, and this model has none; use confidence, "
                         "change or residual, or give frost.iterate channels=… for a score.")


def agreement_oracle(outputs: Tensor, mask: Tensor | None = None) -> Tensor:
    """The first step after which no predicted class changes any more up to T, (b, t, …, k) → (b,)."""
    classes = outputs.argmax(dim=-1)
    differs = classes != classes[:, -1:]
    if differs.ndim > 2:
        differs = (differs if mask is None else differs & mask[:, None]).flatten(2).any(dim=2)
    steps = torch.arange(1, differs.shape[1] + 1, device=differs.device)
    return steps.masked_fill(~differs, 0).amax(dim=1) + 1


def label_oracle(quality: Tensor) -> Tensor:
    """The first step at which the answer is as good as it ever gets; T if it is never any good, (b, t) → (b,)."""
    return first_passage((quality == quality.amax(dim=1, keepdim=True)) & (quality > 0))
