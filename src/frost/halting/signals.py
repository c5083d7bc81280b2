"""What a stopping rule looks at (§4.3 and beyond): one number for each image and step, larger for "stop".

A signal sees plain tensors, after each step: the output, the score's logit, the states before and after. What it has to
remember of an image's past is a tuple of tensors whose first axis is the image, so that an engine can keep it beside
the image's state and move both together. The same code runs along a stored trajectory (`along`) and live.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from frost.halting.score import decidedness, threshold_of

Memory = tuple[Tensor, ...]
LANES = 64    # elements; a multiple of what a vectorised loop takes at a time on any processor that we know


class Reading(NamedTuple):
    """What is known of a batch of images after a step; they may be at different steps."""

    step: Tensor             # t, (b,)
    output: Tensor           # y_t, (b, k)
    score_logit: Tensor      # (b,)
    hidden: Tensor | None    # h_t; None where no signal looks at states
    before: Tensor | None    # h_{t−1}; of no meaning at t = 1


class Signal(ABC):
    """One number for each image after each step; a rule stops an image when it exceeds a threshold."""

    name: ClassVar[str]
    looks_at_states: ClassVar[bool] = False

    def start(self, reading: Reading) -> Memory:
        """What is remembered before the first step, for as many images as the reading has."""
        return ()

    @abstractmethod
    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """The signal (b,), and what to remember for the next step."""

    def threshold_shown(self, threshold: float) -> float:
        """A threshold in the unit that people know it by."""
        return threshold


class Rank(Signal):
    """The halting score (19), as its logit."""

    name = "rank"

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """The score's logit."""
        return reading.score_logit.float(), memory

    def threshold_shown(self, threshold: float) -> float:
        """s_halt in [0, 1]."""
        return threshold_of(threshold)


class Confidence(Signal):
    """The highest probability, as its logarithm: near 1, where images stop, a float tells logarithms apart."""

    name = "confidence"

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """log max_k p_k = −log(1 + Σ_{j≠k} exp(y_j − y_k)), which stays below 0 where the probability rounds to 1."""
        chances = reading.output.float().softmax(dim=-1)
        top, place = chances.max(dim=-1, keepdim=True)
        others = (chances / top).scatter(-1, place, 0.0).sum(dim=-1)
        return -each_alone(torch.log1p, others), memory

    def threshold_shown(self, threshold: float) -> float:
        """A probability."""
        return torch.tensor(threshold, dtype=torch.float64).exp().item()


class Entropy(Signal):
    """The entropy of the probabilities, in nats, with its sign turned."""

    name = "entropy"

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """Σ_k p_k log p_k."""
        return decidedness(reading.output)[:, 2], memory

    def threshold_shown(self, threshold: float) -> float:
        """An entropy in nats, below which an image stops."""
        return -threshold


class Margin(Signal):
    """The highest probability less the second."""

    name = "margin"

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """p_(1) − p_(2)."""
        return decidedness(reading.output)[:, 0], memory


class Patience(Signal):
    """For how many steps in a row the predicted class has been the same."""

    name = "patience"

    def start(self, reading: Reading) -> Memory:
        """No class yet."""
        return torch.full_like(reading.step, -1), torch.zeros_like(reading.step)

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """0 after a change, then 1, 2, …"""
        last, count = memory
        now = reading.output.argmax(dim=-1).to(last.dtype)
        count = torch.where(now == last, count + 1, 0)
        return count.float(), (now, count)


class Residual(Signal):
    """How far the state moved, with its sign turned; nothing has moved before the second step."""

    name = "residual"
    looks_at_states = True

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """−‖h_t − h_{t−1}‖; −∞ at t = 1."""
        hidden, before = _states(reading)
        return _negative_length(hidden - before).masked_fill(reading.step < 2, -torch.inf), memory

    def threshold_shown(self, threshold: float) -> float:
        """A length, below which an image stops."""
        return -threshold


class SecondOrder(Signal):
    """How much the movement itself changed, with its sign turned; there are two movements from the third step on."""

    name = "second-order"
    looks_at_states = True

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
    """The number of steps taken: everybody stops at the same one."""

    name = "fixed"

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """t."""
        return reading.step.float(), memory


class Act(Signal):
    """Adaptive computation time: the sum of halting probabilities so far (Graves 2016); needs a run trained by it."""

    name = "act"

    def start(self, reading: Reading) -> Memory:
        """Nothing halted yet."""
        return (torch.zeros_like(reading.score_logit, dtype=torch.float32),)

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """Σ_{s ≤ t} σ(z_s)."""
        total = memory[0] + each_alone(torch.sigmoid, reading.score_logit.float())
        return total, (total,)


class Ponder(Signal):
    """PonderNet: the probability of having halted by now (Banino et al. 2021); needs a run trained by it."""

    name = "ponder"

    def start(self, reading: Reading) -> Memory:
        """log 1: nobody has halted."""
        return (torch.zeros_like(reading.score_logit, dtype=torch.float32),)

    def __call__(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """−log Π_{s ≤ t} (1 − σ(z_s)), which grows with the probability of having halted."""
        total = memory[0] + each_alone(torch.nn.functional.softplus, reading.score_logit.float())    # −log(1 − σ(z))
        return total, (total,)

    def threshold_shown(self, threshold: float) -> float:
        """A probability."""
        return -torch.expm1(torch.tensor(-threshold, dtype=torch.float64)).item()


SIGNALS: dict[str, Signal] = {signal.name: signal for signal in (
    Rank(), Confidence(), Entropy(), Margin(), Patience(), Residual(), SecondOrder(), Fixed(), Act(), Ponder())}


def along(signal: Signal, outputs: Tensor, score_logits: Tensor, states: Tensor | None = None) -> Tensor:
    """The signal along stored trajectories: (b, t, k), (b, t) and, for some, (b, t, …) → (b, t)."""
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
        reading = Reading(steps, outputs[:, step], score_logits[:, step], hidden, before)
        memory = signal.start(reading) if memory is None else memory
        value, memory = signal(reading, memory)
        values.append(value)
    return torch.stack(values, dim=1)


def each_alone(function: Callable[[Tensor], Tensor], numbers: Tensor) -> Tensor:
    """An elementwise function of (b,) whose rounding does not depend on an image's place in the batch.

    A vectorised loop computes the last few elements of a tensor by other instructions, which round differently. Here
    every image fills a row of its own, so that none is among the last few.
    """
    return function(numbers[:, None].repeat(1, LANES))[:, 0]


def _states(reading: Reading) -> tuple[Tensor, Tensor]:
    assert reading.hidden is not None
    assert reading.before is not None
    return reading.hidden, reading.before


def _negative_length(difference: Tensor) -> Tensor:
    return -torch.linalg.vector_norm(difference.flatten(1).float(), dim=1)
