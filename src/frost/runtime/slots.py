"""The refill executor: constant slots, a queue in, results out.

The step carries no step index, so inputs at any depth share one batch. When one stops, its slot goes to the next one
that is staged. A stage is a batch that has begun and taken its first step; it has as many rows as there are slots.

Contract: `begin`, `step` and `read` run at one shape, `slots` rows, however many inputs there are; free rows repeat one
in use. CPU kernels give the same bits for a row at a constant shape, so output, score and depth are batch-invariant;
`frost.check_batch_invariance` checks whether that holds for a block. `drain="compact"` gives that up for the last
inputs of a stream and finishes them sooner.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import torch

from frost.core.block import FAILURES
from frost.core.inputs import Signature, as_inputs, mapped
from frost.core.precision import dtype_of
from frost.halting.drift import Watch
from frost.runtime.batches import run_batch
from frost.runtime.scheduler import Item, Scheduler
from frost.runtime.stepper import Live, Result, Stepper

Drain = Literal["constant", "compact"]
LONG = 2**14    # numbers in a row that is copied by itself


class Session:
    """A stream of inputs through constant slots; `submit`, then `advance` until it is empty.

    Args:
        signature: what one input looks like; another one is refused by itself.
        max_queue: most inputs waiting; one more is refused with `QueueFull`. None is no limit.
        sync_every: steps between two looks at what has stopped.
        watch: is shown the signal of every input at every look, for a drift check.
    """

    def __init__(self, stepper: Stepper, slots: int, signature: Signature, *, max_queue: int | None = None,
                 sync_every: int = 1, drain: Drain = "constant", watch: Watch | None = None,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self.scheduler = Scheduler(slots, max_queue)
        self._stepper, self._sync_every, self._drain, self._watch = stepper, sync_every, drain, watch
        self._clock = clock
        self._signature = signature
        self._stage: Live | None = None
        self._live: Live | None = None
        self._since = 0
        self._dtype = dtype_of(stepper.model)

    def __len__(self) -> int:
        return len(self.scheduler)

    @torch.inference_mode(mode=False)
    def submit(self, inputs: Any, key: Any = None, depth: int | None = None, seconds: float | None = None) -> Item:
        """Queue an input; what is none of the model's is a ValueError.

        Args:
            depth: most steps for this one; None is T.
            seconds: from now until it takes the answer that it has.
        """
        inputs, model = as_inputs(inputs), self._stepper.model
        model.check(mapped(lambda part: part[None], inputs))
        inputs = self._signature.fitted(inputs, self._dtype)
        if seconds is not None and not seconds >= 0:
            raise ValueError(f"seconds must not be negative, got {seconds}.")
        limit = model.depth if depth is None else operator.index(depth)
        if not 1 <= limit <= model.depth:
            raise ValueError(f"depth must lie between 1 and {model.depth}, got {depth}.")
        return self.scheduler.submit(key, inputs, limit, None if seconds is None else self._clock() + seconds)

    def cancel(self, item: Item) -> bool:
        """Forget an input; False if it has left already."""
        if item.place is None:
            return False
        self.scheduler.remove(item)
        return True

    @torch.inference_mode(mode=False)
    def advance(self) -> list[Result]:
        """One refinement step of everything that runs; the answers that have become known."""
        self._stepper.check_mode()    # it may change in the middle of a stream
        results = self._late()
        self._fill(results)
        if self.scheduler.occupied and self._live is not None:
            try:
                self._live = self._stepper.next(self._live, self.scheduler.occupied)
            except FAILURES:
                failures = self._failed(self._live)
                if not failures:
                    raise    # it was no input's fault
                return [*results, *failures]
            self._since += 1
            if self._since >= self._sync_every:
                results += self._harvest()
        return results

    def drained(self) -> Iterator[Result]:
        """Step until everything submitted has been answered."""
        while len(self):
            yield from self.advance_to_end()

    def advance_to_end(self) -> list[Result]:
        """`advance`, when nothing more will be submitted: with drain="compact" the last inputs run to their end."""
        if self._drain == "compact" and not (self.scheduler.waiting or self.scheduler.staged) and self._live:
            return self._finish_compactly(self._live)
        return self.advance()

    def _fill(self, results: list[Result]) -> None:
        """Give every free slot an input, staging more as long as some wait; a slot that stays free repeats another."""
        while self.scheduler.occupied < self.scheduler.slots and (self.scheduler.staged or self.scheduler.waiting):
            if not self.scheduler.staged:
                self._begin(results)
            self._place()
        if self.scheduler.free and self.scheduler.occupied and self._live is not None:
            free = torch.tensor(self.scheduler.free, device=self._stepper.device)
            used = next(slot for slot, item in enumerate(self.scheduler.running) if item is not None)
            for part in self._live.tensors():    # every time: a free row is stepped like the others and would drift
                part[free] = part[used].clone()

    def _begin(self, results: list[Result]) -> None:
        """Stage the next inputs: stem and first step at the full shape, whatever their number."""
        items = self.scheduler.next_waiting()
        try:
            self._stage = self._stepper.first_of(items, self.scheduler.slots)
        except FAILURES:
            failed = self._stepper.failures_of(items, self.scheduler.slots)
            if not failed:
                raise    # it was no input's fault
            for item, error in failed:
                self.scheduler.remove(item)
                results.append(Result(item.key, None, 0, None, error))
            return
        self.scheduler.stage()                   # only now: what failed before leaves all in the queue
        self._show(self._stage, [item.index for item in items])
        done = self._stage.is_done.tolist()
        results += self._answered(self._stage, [item for item in items if done[item.index]])

    def _place(self) -> None:
        """Move staged inputs to free slots."""
        moves = self.scheduler.place()
        if not moves:
            return
        assert self._stage is not None
        if self._live is None:
            self._live = _owned(self._stage)    # every row of a stage is one that the model can step
        device = self._stepper.device
        rows, slots = (torch.tensor(part, device=device) for part in zip(*moves, strict=True))
        for target, source in zip(self._live.tensors(), self._stage.tensors(), strict=True):
            if device.type == "cpu" and target[0].numel() >= LONG:
                for row, slot in moves:    # each row is copied once, not twice
                    target[slot].copy_(source[row])
            else:
                target.index_copy_(0, slots, source.index_select(0, rows).to(target.dtype))
        if not self.scheduler.staged:
            self._stage = None    # its memory, still in the processor's cache, serves the next step

    def _harvest(self) -> list[Result]:
        """The answers of slots that are done."""
        assert self._live is not None
        self._since = 0
        done = self._live.is_done.tolist()
        running = [item for item in self.scheduler.running if item is not None]
        self._show(self._live, [item.index for item in running])
        return self._answered(self._live, [item for item in running if done[item.index]])

    def _failed(self, live: Live) -> list[Result]:
        """What the model could not step leaves with its error; the others take the step next time."""
        running = {item.index: item for item in self.scheduler.running if item is not None}
        failed = self._stepper.failing_rows(live, list(running))
        for row, _ in failed:
            self.scheduler.remove(running[row])
        return [Result(running[row].key, None, int(live.steps[row]), None, error) for row, error in failed]

    def _late(self) -> list[Result]:
        """The answers that inputs have whose time is up; one that has none yet gets its first step, and no more."""
        results = []
        for item in self.scheduler.expired(self._clock()):
            if item.place == "waiting":
                item.limit = 1
                continue
            live = self._stage if item.place == "staged" else self._live
            assert live is not None
            item.is_late = not bool(live.is_done[item.index])    # it may have stopped since the last look
            results += self._answered(live, [item])
        return results

    @torch.inference_mode(mode=False)
    def _finish_compactly(self, live: Live) -> list[Result]:
        """The last inputs, in a batch that shrinks."""
        items = [item for item in self.scheduler.running if item is not None]
        rest = live.taken(torch.tensor([item.index for item in items], device=self._stepper.device))
        results = run_batch(self._stepper, rest, items, shrinks=True, sync_every=self._sync_every, clock=self._clock,
                            show=self._show)
        for item in items:
            self.scheduler.remove(item)
        return results

    def _answered(self, live: Live, items: list[Item]) -> list[Result]:
        """The answers of items whose rows are in this batch; they leave."""
        results = live.results([item.index for item in items], [item.key for item in items],
                               [item.is_late for item in items])
        for item in items:
            self.scheduler.remove(item)
        return results

    def _show(self, live: Live, rows: list[int]) -> None:
        """The signals of inputs at the step that they have just taken; one that stopped before a look is past that."""
        if self._watch is not None and rows:
            index = torch.tensor(rows, device=live.values.device)
            steps, depth, values = (part.index_select(0, index).cpu() for part in (live.steps, live.depth, live.values))
            fresh = steps == depth
            self._watch.see(steps[fresh].numpy().astype(np.int64), values[fresh].double().numpy())


def _owned(stage: Live) -> Live:
    """A copy of the stage in buffers of its own, for a batch of mixed depths."""
    own = stage.mapped(lambda part: part.clone(memory_format=torch.contiguous_format))
    own.state = own.state._replace(step=None)
    return own
