"""One step of a batch as a function of tensors: refine, read, compute the signals, compare them with each row's own.

This is what a backend runs, compiles or exports: no question is asked on the way, and nothing depends on which inputs
have stopped. `stops` and `is_bad` are all that has to be read back after a step.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from frost.core.inputs import Inputs
from frost.core.trajectory import IterativeModel, State
from frost.halting.score import fitting_mask
from frost.halting.signals import Memory, Reading
from frost.rowwise import flat_rows
from frost.runtime.rules import Rules


class Taken(NamedTuple):
    """A batch after a step."""

    state: State
    memory: Memory         # of the signals
    output: Tensor         # y_t, (b, …)
    score_logit: Tensor    # (b,)
    values: Tensor         # the signals, (b, s)
    stops: Tensor          # whether a signal exceeds its threshold, bool (b,)
    is_bad: Tensor         # whether output or score is not finite, bool (b,)


class Step:
    """The two functions of a model and its rules.

    Args:
        caches_first: take the transition's value at h_0 = 0, the same for every input, from a cache; False computes it.
    """

    def __init__(self, model: IterativeModel, rules: Rules, caches_first: bool = True) -> None:
        self.model, self.rules, self.caches_first = model, rules, caches_first

    def begin(self, inputs: Inputs, table: Tensor) -> Taken:
        """The stem and the first step, which every input takes; `table` (b, s, t) holds each row's thresholds."""
        state = self.model.begin(inputs)
        before = state.hidden
        state = self.model.step(state if self.caches_first or not self.model.stationary else
                                state._replace(step=None))._replace(step=1)
        output, score_logit = self.model.read(state)
        steps = torch.ones_like(score_logit, dtype=torch.long)
        reading = self._reading(steps, output, score_logit, state, before)
        return self._taken(state, reading, self.rules.start(reading), table[:, :, 0])

    def step(self, state: State, memory: Memory, steps: Tensor, table: Tensor) -> Taken:
        """One more step of every row; `steps` (b,) counts it already."""
        before = state.hidden
        state = self.model.step(state)
        output, score_logit = self.model.read(state)
        reading = self._reading(steps, output, score_logit, state, before)
        place = (steps - 1).clamp_max(self.rules.depth - 1)[:, None, None]    # stopped rows go on
        return self._taken(state, reading, memory, table.gather(2, place.expand(-1, table.shape[1], -1))[:, :, 0])

    def _reading(self, steps: Tensor, output: Tensor, score_logit: Tensor, state: State, before: Tensor) -> Reading:
        mask = fitting_mask(output, state.context.get("mask"))
        if not self.rules.look_at_states:
            return Reading(steps, output, score_logit, None, None, mask)
        return Reading(steps, output, score_logit, state.hidden, before, mask)

    def _taken(self, state: State, reading: Reading, memory: Memory, thresholds: Tensor) -> Taken:
        values, memory = self.rules.values(reading, memory)
        is_bad = _not_finite(reading)
        exceeded = (values > thresholds).unbind(dim=1)
        stops = reduce(torch.logical_or, exceeded) if exceeded else torch.zeros_like(is_bad)
        return Taken(state, memory, reading.output, reading.score_logit, values, stops, is_bad)


def _not_finite(reading: Reading) -> Tensor:
    """Whether a row's output or score holds NaN or infinity: 0 times a finite number is 0, else NaN."""
    output = reading.output if reading.mask is None else reading.output.masked_fill(~reading.mask[..., None], 0.0)
    return torch.isnan((flat_rows(output) * 0.0).sum(dim=1) + reading.score_logit * 0.0)
