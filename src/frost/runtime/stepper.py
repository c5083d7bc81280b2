"""Batches of inputs through a backend: begun, stepped, and tried one by one where a batch fails.

The model is folded once (`runtime.folded`); the backend computes at the shapes that come. What has been computed is
counted, with and without the rows that hold nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from frost.core.block import FAILURES
from frost.core.inputs import Inputs, Signature, batch_of, stacked, to_device
from frost.core.precision import Precision, device_of, dtype_of
from frost.core.trajectory import IterativeModel
from frost.halting.stopping import StoppingRule
from frost.runtime.backend import BackendName, make_backend
from frost.runtime.folded import folded
from frost.runtime.live import Live
from frost.runtime.rules import Rules
from frost.runtime.scheduler import Item
from frost.runtime.step import Step, Taken


class Stepper:
    """A model and its stopping rules, asked after every step.

    Args:
        signals: that an input's own rule may look at, beside the rule's.
        caches_first: take the transition's value at h_0 = 0, the same for every input, from a cache; False computes it.
    """

    def __init__(self, model: IterativeModel, rule: StoppingRule, precision: Precision = "float32",
                 backend: BackendName = "eager", signals: Sequence[str] = (), caches_first: bool = True,
                 signature: Signature | None = None) -> None:
        self.model, self.caches_first = model, caches_first
        self.begun = self.stepped = 0                  # rows, of inputs or not: what was computed
        self.begun_for = self.stepped_for = 0          # rows that held an input which had not stopped
        self.device = device_of(model)
        self._part = next(chain(model.parameters(), model.buffers()), None)    # tells where the model is
        self.versions = versions_of(model)
        double = torch.float64 if dtype_of(model) == torch.float64 else torch.float32
        self.rules = Rules(model, rule, signals, double)
        self.folded = folded(model)
        self.folded.signature = self.folded.signature or signature
        self.backend = make_backend(backend, Step(self.folded, self.rules, caches_first), precision)

    # Whether a caller reads on inside torch.inference_mode or not must not matter: tensors made in the one cannot be
    # written to in the other.

    @torch.inference_mode(mode=False)
    def first(self, inputs: Inputs, table: Tensor, used: int) -> Live:
        """Begin, and the first step, which every input takes; from h_0 = 0 it needs no transition.

        Args:
            table: thresholds of each row, (b, s, t).
            used: rows that hold an input.
        """
        taken = self.backend.begin(inputs, table)
        self.begun += batch_of(inputs)
        self.begun_for += used
        return self._live(taken, torch.ones(len(table), dtype=torch.long, device=self.device), table)

    @torch.inference_mode(mode=False)
    def next(self, live: Live, used: int) -> Live:
        """One more step of every row.

        Args:
            used: rows that hold an input which is not known to have stopped.
        """
        steps = live.steps + 1
        taken = self.backend.step(live.state, live.memory, steps, live.table)
        self.stepped += len(steps)
        self.stepped_for += used
        return self._live(taken, steps, live.table)

    def first_of(self, items: Sequence[Item], rows: int) -> Live:
        """`first`, for a batch of so many rows; the last input is repeated in those that are left over."""
        thresholds = [item.thresholds for item in items]
        if len(set(map(id, thresholds))) == 1:    # nearly always: no request has a rule of its own
            table = thresholds[0].expand(rows, -1, -1).clone()
        else:
            table = torch.stack([*thresholds, *thresholds[-1:] * (rows - len(items))])
        inputs = to_device(stacked([item.inputs for item in items], rows), self.device)
        return self.first(inputs, table.to(self.device), len(items))

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

    def take_counts(self, before: Stepper) -> None:
        """Count on from where another one stopped."""
        self.begun, self.stepped = before.begun, before.stepped
        self.begun_for, self.stepped_for = before.begun_for, before.stepped_for

    def check_mode(self) -> None:
        """Refuse a model that has been put into training mode or moved since the stepper was made."""
        if self.model.training:
            raise ValueError("the model has been put into training mode since the engine was made; call model.eval().")
        if self._part is not None and self._part.device != self.device:
            raise ValueError("the model has been moved since the engine was made; make the engine again.")

    def _live(self, taken: Taken, steps: Tensor, table: Tensor) -> Live:
        return Live(taken.state, taken.memory, steps, table, taken.output, taken.score_logit, taken.values, taken.stops,
                    taken.is_bad, has_score=self.model.has_score)


def versions_of(model: IterativeModel) -> list[int]:
    """What changes when weights are written to or replaced: a folded copy would not see it."""
    return [number for part in (*model.parameters(), *model.buffers())
            for number in (id(part), 0 if part.is_inference() else part._version)]
