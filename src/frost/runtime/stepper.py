"""One step of a batch in which every sample may stop: refine, read, ask the rule, remember the answer.

All of it stays on the device. A sample that has stopped keeps its answer; its row may go on being computed until
it is taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from frost.core.block import FAILURES
from frost.core.inputs import Inputs, batch_of, stacked, to_device
from frost.core.precision import Precision, at_least_float32, autocast, device_of
from frost.core.trajectory import IterativeModel, State
from frost.halting.score import fitting_mask, threshold_of
from frost.halting.signals import Memory, Reading
from frost.halting.stopping import StoppingRule
from frost.rowwise import flat_rows
from frost.runtime.scheduler import Item

DIVERGED = "the model answers this input with NaN or infinity; it diverged"


class Result(NamedTuple):
    """The answer for one input, or why there is none."""

    key: Any
    output: Tensor | None     # y at the step where it stopped, without the batch, on the CPU
    depth: int                # steps taken; 0 if it never began
    score: float | None       # s_halt's counterpart at that step, in [0, 1]; None of a model without a score
    error: str | None = None
    is_late: bool = False     # its deadline passed, and this is the answer that it had


@dataclass(slots=True)
class Live:
    """A batch between two steps."""

    state: State
    memory: Memory         # of the rule's signal
    limits: Tensor         # most steps each may take, (b,)
    steps: Tensor          # taken, (b,)
    values: Tensor         # the rule's signal at the last step, (b,)
    is_done: Tensor        # bool (b,)
    is_bad: Tensor         # not finite when it stopped, bool (b,)
    depth: Tensor          # of the answer, (b,)
    output: Tensor         # of the answer, (b, …)
    score_logit: Tensor    # of the answer, (b,)
    has_score: bool = field(default=True, kw_only=True)

    def tensors(self) -> list[Tensor]:
        """Everything with one row a sample."""
        return [*self.state.tensors(), *self.memory, self.limits, self.steps, self.values, self.is_done, self.is_bad,
                self.depth, self.output, self.score_logit]

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Live:
        """The same batch with every tensor changed."""
        rest = (self.limits, self.steps, self.values, self.is_done, self.is_bad, self.depth, self.output,
                self.score_logit)
        return Live(self.state.mapped(change), tuple(change(part) for part in self.memory),
                    *(change(part) for part in rest), has_score=self.has_score)

    def taken(self, rows: Tensor) -> Live:
        """Some of its images, as a smaller batch."""
        return self.mapped(lambda part: part.index_select(0, rows))

    def shrunk_to(self, rows: list[int]) -> tuple[Live, list[int]]:
        """Some of its images, as a smaller batch in the same memory, and which row each of its places holds now.

        Rows in front stay; those behind move into the gaps, so that no more rows are copied than have left.
        """
        count, staying = len(rows), set(rows)
        order, behind = list(range(count)), iter([row for row in rows if row >= count])
        gaps = [place for place in order if place not in staying]
        for place in gaps:
            order[place] = next(behind)
        to, origin = (torch.tensor(part, dtype=torch.long, device=self.steps.device)
                      for part in (gaps, [order[place] for place in gaps]))

        def moved(part: Tensor) -> Tensor:
            if gaps:
                part = part.contiguous()    # what a model has expanded over the batch has no rows of its own
                part.index_copy_(0, to, part.index_select(0, origin))
            return part[:count]
        return self.mapped(moved), order

    def results(self, rows: list[int], keys: list[Any], late: list[bool]) -> list[Result]:
        """The answers in some rows, and whether each is what it had at its deadline; one copy to the CPU for all."""
        if not rows:
            return []
        index = torch.tensor(rows, device=self.output.device)
        outputs = at_least_float32(self.output.index_select(0, index)).cpu()
        # one by one: a vectorised sigmoid rounds differently for another number of rows
        scores = [threshold_of(logit) if self.has_score else None
                  for logit in self.score_logit.index_select(0, index).double().tolist()]
        depths = self.depth.index_select(0, index).tolist()
        bad = self.is_bad.index_select(0, index).tolist()
        return [Result(key, None, depth, None, DIVERGED) if is_bad else Result(key, output, depth, score, None, is_late)
                for key, output, depth, score, is_bad, is_late in zip(keys, outputs, depths, scores, bad, late,
                                                                      strict=True)]


class Stepper:
    """A model and a stopping rule, asked after every step.

    Args:
        caches_first: take the transition's value at h_0 = 0, the same for every input, from a cache; False computes it.
    """

    def __init__(self, model: IterativeModel, rule: StoppingRule, precision: Precision = "float32",
                 compiled: bool = False, caches_first: bool = True) -> None:
        self.model, self.rule, self.precision, self.caches_first = model, rule, precision, caches_first
        self.begun = self.stepped = 0                  # rows, of samples or not: what was computed
        self.begun_for = self.stepped_for = 0          # rows that held a sample which had not stopped
        self.device = device_of(model)
        self._refine = torch.compile(self._refined, dynamic=False) if compiled else self._refined

    # Whether a caller reads on inside torch.inference_mode or not must not matter: tensors made in the one cannot be
    # written to in the other.

    @torch.inference_mode(mode=False)
    def first(self, inputs: Inputs, limits: Tensor, used: int) -> Live:
        """Begin, and the first step, which every sample takes; from h_0 = 0 it needs no transition.

        Args:
            used: rows that hold a sample.
        """
        with torch.no_grad(), autocast(self.precision, self.device):
            state = self.model.begin(inputs)
            before = state.hidden
            state = self.model.step(state if self.caches_first or not self.model.stationary else
                                    state._replace(step=None))._replace(step=1)
            output, score_logit = self.model.read(state)
        self.begun += batch_of(inputs)
        self.begun_for += used
        steps = torch.ones_like(limits)
        reading = self._reading(steps, output, score_logit, state, before)
        values, memory = self.rule.signal(reading, self.rule.signal.start(reading))
        is_bad = _not_finite(output, score_logit, reading.mask)
        is_done = self.rule.stops(values, steps) | (steps >= limits) | is_bad
        return Live(state, memory, limits, steps, values, is_done, is_bad, steps.clone(), output, score_logit,
                    has_score=self.model.has_score)

    @torch.inference_mode(mode=False)
    def next(self, live: Live, used: int) -> Live:
        """One more step of every row; rows that are done keep their answer.

        Args:
            used: rows that hold a sample which is not known to have stopped.
        """
        before = live.state.hidden
        with torch.no_grad(), autocast(self.precision, self.device):
            state, output, score_logit = self._refine(live.state)
        self.stepped += len(live.steps)
        self.stepped_for += used
        steps = live.steps + 1
        reading = self._reading(steps, output, score_logit, state, before)
        values, memory = self.rule.signal(reading, live.memory)
        done = live.is_done
        is_bad = torch.where(done, live.is_bad, _not_finite(output, score_logit, reading.mask))
        stops = self.rule.stops(values, steps) | (steps >= live.limits) | is_bad
        kept = torch.where(done.view(-1, *[1] * (output.ndim - 1)), live.output, output)
        return Live(state, memory, live.limits, steps, values, done | stops, is_bad,
                    torch.where(done, live.depth, steps), kept, torch.where(done, live.score_logit, score_logit),
                    has_score=live.has_score)

    def first_of(self, items: Sequence[Item], rows: int) -> Live:
        """`first`, for a batch of so many rows; the last input is repeated in those that are left over."""
        limits = torch.tensor([item.limit for item in items] + [1] * (rows - len(items)), device=self.device)
        inputs = to_device(stacked([item.inputs for item in items], rows), self.device)
        return self.first(inputs, limits, len(items))

    def failures_of(self, items: Sequence[Item], rows: int) -> list[tuple[Item, str]]:
        """Those that the model cannot begin with, and why; tried one by one after a batch of them has failed."""
        failed = []
        for item in items:
            try:
                self.first_of([item], rows)
            except FAILURES as error:
                failed.append((item, str(error)))
        return failed

    def failing_rows(self, live: Live, rows: Sequence[int]) -> list[tuple[int, str]]:
        """Rows that the model cannot step, and why; tried one by one, each in all rows, after a batch has failed."""
        failed = []
        for row in rows:
            try:
                self.next(live.taken(torch.full_like(live.steps, row)), 0)
            except FAILURES as error:
                failed.append((row, str(error)))
        return failed

    def check_mode(self) -> None:
        """Refuse a model that has been put into training mode or moved since the stepper was made."""
        if self.model.training:
            raise ValueError("the model has been put into training mode since the engine was made; call model.eval().")
        if device_of(self.model) != self.device:
            raise ValueError("the model has been moved since the engine was made; make the engine again.")

    def _refined(self, state: State) -> tuple[State, Tensor, Tensor]:
        state = self.model.step(state)
        return state, *self.model.read(state)

    def _reading(self, steps: Tensor, output: Tensor, score_logit: Tensor, state: State, before: Tensor) -> Reading:
        mask = fitting_mask(output, state.context.get("mask"))
        if not self.rule.signal.looks_at_states:
            return Reading(steps, output, score_logit, None, None, mask)
        return Reading(steps, output, score_logit, state.hidden, before, mask)


def _not_finite(output: Tensor, score_logit: Tensor, mask: Tensor | None) -> Tensor:
    finite = torch.isfinite(output)
    finite = finite if mask is None else finite | ~mask[..., None]    # padding may hold anything
    return ~(flat_rows(finite).all(dim=1) & torch.isfinite(score_logit))
