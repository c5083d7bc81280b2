"""What a stopping rule looks at (§4.3 and beyond): one number for each sample and step, larger for "stop".

A signal sees plain tensors, after each step: the output, the score's logit, the states before and after. What it has to
remember of a sample's past is a tuple of tensors whose first axis is the sample, so that an engine can keep it beside
the sample's state and move both together. The same code runs along a stored trajectory (`along`) and live.

Where there is an answer at each position, a signal of probabilities is that of the least sure position that counts, or,
under a name that ends in `-mean`, the mean over them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from frost.halting.score import fitting_mask, output_features, over_positions, threshold_of
from frost.rowwise import elementwise_by_row, flat_rows, row_sum

Memory = tuple[Tensor, ...]


class Reading(NamedTuple):
    """What is known of a batch of images after a step; they may be at different steps."""

    step: Tensor             # t, (b,)
    output: Tensor           # y_t, (b, …); class logits have the classes last
    score_logit: Tensor      # (b,)
    hidden: Tensor | None    # h_t; None where no signal looks at states
    before: Tensor | None    # h_{t−1}; of no meaning at t = 1
    mask: Tensor | None = None    # positions of the output that count, bool (b, …); None is all


class Signal(ABC):
    """One number for each image after each step; a rule stops an image when it exceeds a threshold."""

    name: str
    looks_at_states: ClassVar[bool] = False
    looks_at_classes: ClassVar[bool] = False    # at probabilities, which only class logits have
    looks_at_score: ClassVar[bool] = False
    least: ClassVar[float] = -math.inf          # the range of the signal: a threshold outside is a mistake
    most: ClassVar[float] = math.inf

    def start(self, reading: Reading) -> Memory:
        """What is remembered before the first step, for as many images as the reading has."""
        return ()

    @abstractmethod
    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """The signal (b,), and what to remember for the next step."""

    def threshold_shown(self, threshold: float) -> float:
        """A threshold in the unit that people know it by."""
        return threshold

    def within(self, threshold: float) -> float:
        """The threshold, or ±∞ where it lies beyond what the signal can be: always or never exceeded."""
        return -math.inf if threshold < self.least else math.inf if threshold > self.most else threshold


class Rank(Signal):
    """The halting score (19), as its logit."""

    name = "rank"
    looks_at_score = True

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """The score's logit."""
        return reading.score_logit.float(), memory

    def threshold_shown(self, threshold: float) -> float:
        """s_halt in [0, 1]."""
        return threshold_of(threshold)


class OfClasses(Signal):
    """A signal of class probabilities; where a sample has many answers, that of the least sure, or their mean."""

    looks_at_classes = True
    kind: ClassVar[str]

    def __init__(self, how: Literal["least", "mean"] = "least") -> None:
        self.how = how
        self.name = self.kind if how == "least" else f"{self.kind}-mean"

    def reduced(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """(b, …) → (b,)."""
        return values if values.ndim == 1 else over_positions(values[..., None], mask, self.how)[:, 0]


class Confidence(OfClasses):
    """The highest probability, as its logarithm: near 1, where samples stop, a float tells logarithms apart."""

    kind, most = "confidence", 0.0

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """log max_k p_k = −log(1 + Σ_{j≠k} exp(y_j − y_k)), which stays below 0 where the probability rounds to 1."""
        chances = reading.output.float().softmax(dim=-1)
        top, place = chances.max(dim=-1, keepdim=True)
        others = row_sum((chances / top).scatter(-1, place, 0.0))
        if self.how == "least" or others.ndim == 1:    # the logarithm is monotone: the least sure has most beside it
            return -elementwise_by_row(torch.log1p, -self.reduced(-others, reading.mask)), memory
        return elementwise_by_row(torch.log1p, -self.reduced(others / (1 + others), reading.mask)), memory

    def threshold_shown(self, threshold: float) -> float:
        """A probability."""
        return math.exp(threshold)


class Entropy(OfClasses):
    """The entropy of the probabilities, in nats, with its sign turned."""

    kind, most = "entropy", 0.0

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """Σ_k p_k log p_k."""
        return self.reduced(output_features(reading.output)[..., 2], reading.mask), memory

    def threshold_shown(self, threshold: float) -> float:
        """An entropy in nats, below which a sample stops."""
        return -threshold


class Margin(OfClasses):
    """The highest probability less the second."""

    kind, least, most = "margin", 0.0, 1.0

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """p_(1) − p_(2)."""
        return self.reduced(output_features(reading.output)[..., 0], reading.mask), memory


class Patience(Signal):
    """For how many steps in a row the predicted class has been the same, at every position that counts."""

    name = "patience"
    looks_at_classes = True
    least = 0.0

    def start(self, reading: Reading) -> Memory:
        """No class yet."""
        return torch.full_like(reading.output[..., 0], -1, dtype=torch.long), torch.zeros_like(reading.step)

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """0 after a change, then 1, 2, …"""
        last, count = memory
        now = reading.output.argmax(dim=-1)
        same = now == last if reading.mask is None else (now == last) | ~reading.mask
        count = torch.where(same if same.ndim == 1 else same.flatten(1).all(dim=1), count + 1, 0)
        return count.float(), (now, count)


class Residual(Signal):
    """How far the state moved, with its sign turned; nothing has moved before the second step."""

    name = "residual"
    looks_at_states = True
    most = 0.0

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """−‖h_t − h_{t−1}‖; −∞ at t = 1."""
        hidden, before = _states(reading)
        return _negative_length(hidden - before).masked_fill(reading.step < 2, -torch.inf), memory

    def threshold_shown(self, threshold: float) -> float:
        """A length, below which an image stops."""
        return -threshold


class Change(Signal):
    """How far the state moved, relative to its own length, with its sign turned; nothing has moved before step 2."""

    name = "change"
    looks_at_states = True
    most = 0.0

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """−‖h_t − h_{t−1}‖ / ‖h_t‖; −∞ at t = 1."""
        hidden, before = _states(reading)
        size = -_negative_length(hidden)
        share = _negative_length(hidden - before) / size.clamp_min(torch.finfo(size.dtype).tiny)
        return share.masked_fill(reading.step < 2, -torch.inf), memory

    def threshold_shown(self, threshold: float) -> float:
        """A share of the state's length, below which a sample stops."""
        return -threshold


class SecondOrder(Signal):
    """How much the movement itself changed, with its sign turned; there are two movements from the third step on."""

    name = "second-order"
    looks_at_states = True
    most = 0.0

    def start(self, reading: Reading) -> Memory:
        """No movement yet."""
        hidden, _ = _states(reading)
        return (torch.zeros_like(hidden),)

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """−‖(h_t − h_{t−1}) − (h_{t−1} − h_{t−2})‖; −∞ at t < 3."""
        hidden, before = _states(reading)
        movement = hidden - before
        return _negative_length(movement - memory[0]).masked_fill(reading.step < 3, -torch.inf), (movement,)

    def threshold_shown(self, threshold: float) -> float:
        """A length, below which an image stops."""
        return -threshold


class Fixed(Signal):
    """The number of steps taken: every image stops at the same one."""

    name = "fixed"
    least = 0.0

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """t."""
        return reading.step.float(), memory


class Act(Signal):
    """Adaptive computation time: the sum of halting probabilities so far (Graves 2016); needs a run trained by it."""

    name = "act"
    looks_at_score = True
    least = 0.0

    def start(self, reading: Reading) -> Memory:
        """Nothing halted yet."""
        return (torch.zeros_like(reading.score_logit, dtype=torch.float32),)

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """Σ_{s ≤ t} σ(z_s)."""
        total = memory[0] + elementwise_by_row(torch.sigmoid, reading.score_logit.float())
        return total, (total,)


class Ponder(Signal):
    """PonderNet: the probability of having halted by now (Banino et al. 2021); needs a run trained by it."""

    name = "ponder"
    looks_at_score = True
    least = 0.0

    def start(self, reading: Reading) -> Memory:
        """log 1: none has halted."""
        return (torch.zeros_like(reading.score_logit, dtype=torch.float32),)

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """−log Π_{s ≤ t} (1 − σ(z_s)), which grows with the probability of having halted."""
        goes_on = elementwise_by_row(torch.nn.functional.softplus, reading.score_logit.float())    # −log(1 − σ(z))
        total = memory[0] + goes_on
        return total, (total,)

    def threshold_shown(self, threshold: float) -> float:
        """A probability."""
        return -torch.expm1(torch.tensor(-threshold, dtype=torch.float64)).item()


SIGNALS: dict[str, Signal] = {signal.name: signal for signal in (
    Rank(), Confidence(), Entropy(), Margin(), Patience(), Residual(), SecondOrder(), Change(), Fixed(), Act(),
    Ponder(), Confidence("mean"), Entropy("mean"), Margin("mean"))}


def along(signal: Signal, outputs: Tensor, score_logits: Tensor, states: Tensor | None = None,
          mask: Tensor | None = None) -> Tensor:
    """The signal along stored trajectories: (b, t, …), (b, t) and, for some, states (b, t, …) → (b, t)."""
    if signal.looks_at_states and states is None:
        raise ValueError(f"the rule '{signal.name}' looks at states, and this trajectory kept none; "
                         "make it with keep_states=True.")
    values: list[Tensor] = []
    memory: Memory | None = None
    for step in range(outputs.shape[1]):
        hidden = before = None
        if signal.looks_at_states and states is not None:
            hidden, before = states[:, step], states[:, max(step - 1, 0)]
        steps = torch.full((outputs.shape[0],), step + 1, device=outputs.device)
        reading = Reading(steps, outputs[:, step], score_logits[:, step], hidden, before,
                          fitting_mask(outputs[:, step], mask))
        memory = signal.start(reading) if memory is None else memory
        value, memory = signal(reading, memory)
        values.append(value)
    return torch.stack(values, dim=1)


def _states(reading: Reading) -> tuple[Tensor, Tensor]:
    assert reading.hidden is not None
    assert reading.before is not None
    return reading.hidden, reading.before


def _negative_length(difference: Tensor) -> Tensor:
    return -torch.linalg.vector_norm(flat_rows(difference).float(), dim=1)
