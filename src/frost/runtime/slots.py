"""The refill executor: slots, a queue in, results out.

The step carries no step index, so inputs at any depth share one batch. When one stops, its slot goes to the next one
that is staged. A stage is a batch that has begun and taken its first step.

Contract of a ladder with one rung: `begin`, `step` and `read` run at one shape, `slots` rows, however many inputs there
are; free rows repeat one in use. Kernels give the same bits for a row at a constant shape, so output, score and depth
are batch-invariant; `frost.check_batch_invariance` checks whether that holds for a block. With more rungs the batch
shrinks and grows with what is running, and bits are those of a shape.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from frost.core.block import FAILURES
from frost.core.inputs import Inputs, Signature
from frost.halting.drift import Watch
from frost.halting.stopping import StoppingRule
from frost.runtime.entrance import Entrance
from frost.runtime.ladder import Ladder
from frost.runtime.live import Live, Result, Window
from frost.runtime.scheduler import Item, Scheduler
from frost.runtime.stepper import Stepper


class Session:
    """A stream of inputs through slots; `submit`, then `advance` until it is empty.

    Args:
        signature: what one input looks like; another one is refused by itself.
        max_queue: most inputs waiting; one more is refused with `QueueFull`. None is no limit.
        sync_every: steps between two looks at what has stopped.
        watch: is shown the first signal of every input at every look, for a drift check.
    """

    def __init__(self, stepper: Stepper, ladder: Ladder, signature: Signature, *, max_queue: int | None = None,
                 sync_every: int = 1, watch: Watch | None = None,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self.scheduler = Scheduler(ladder.rungs[-1], max_queue)
        self._stepper, self._ladder, self._watch = stepper, ladder, watch
        self._clock = clock
        self.accepted = Entrance(stepper.model, signature)
        self._stage: Live | None = None
        self._live: Live | None = None
        self._window = Window(sync_every)
        self._is_stale = False    # whether free rows have to be filled anew
        self._took = 0.0          # seconds of the last step with a deadline

    def __len__(self) -> int:
        return len(self.scheduler)

    @property
    def rows(self) -> int:
        """Of the batch that runs; 0 where nothing does."""
        return 0 if self._live is None else len(self._live.steps)

    @property
    def climbs(self) -> bool:
        """Whether the batch shrinks and grows with what is running."""
        return len(self._ladder.rungs) > 1

    def submit(self, inputs: Any, key: Any = None, depth: int | None = None, seconds: float | None = None,
               rule: StoppingRule | None = None) -> Item:
        """Queue an input; what is none of the model's is a ValueError.

        Args:
            depth: most steps for this one; None is T.
            seconds: from now until it takes the answer that it has.
            rule: of its own, by a signal that the engine computes; None is the engine's.
        """
        return self.queue(self.accepted(inputs), key, depth, seconds, rule)

    def queue(self, inputs: Inputs, key: Any = None, depth: int | None = None, seconds: float | None = None,
              rule: StoppingRule | None = None) -> Item:
        """`submit`, of an input that has been accepted."""
        if seconds is not None and not seconds >= 0:
            raise ValueError(f"seconds must not be negative, got {seconds}.")
        model, rules = self._stepper.model, self._stepper.rules
        limit = model.depth if depth is None else operator.index(depth)
        if not 1 <= limit <= model.depth:
            raise ValueError(f"depth must lie between 1 and {model.depth}, got {depth}.")
        row = rules.default if rule is None else rules.row(rule)
        deadline = None if seconds is None else self._clock() + seconds
        return self.scheduler.submit(key, inputs, min(limit, row.limit), deadline, row.thresholds)

    def cancel(self, item: Item) -> bool:
        """Forget an input; False if it has left already."""
        if item.place is None:
            return False
        self._remove(item)
        return True

    @torch.inference_mode(mode=False)
    def advance(self) -> list[Result]:
        """One refinement step of everything that runs; the answers that have become known."""
        self._stepper.check_mode()    # it may change in the middle of a stream
        if not self._stepper.backend.has_own_threads:
            return self._advanced()
        threads = torch.get_num_threads()
        torch.set_num_threads(1)    # rows are moved by one: idle threads wait busily, on the backend's cores
        try:
            return self._advanced()
        finally:
            torch.set_num_threads(threads)

    @torch.inference_mode(mode=False)
    def late(self) -> list[Result]:
        """The answers of inputs whose time will be up when the next step ends; one without gets its first step only."""
        if not self.scheduler.has_deadlines:
            return []
        late = list(self.scheduler.expired(self._clock() + self._took))
        results = self._harvest() if late and len(self._window) else []    # some may have stopped since the last look
        for item in late:
            if item.place is None:
                continue
            item.is_late = True
            if item.place == "waiting":
                item.limit = 1
                continue
            live = self._stage if item.place == "staged" else self._live
            assert live is not None
            results += self._answered(live, [item])
        return results

    def _advanced(self) -> list[Result]:
        if not self.scheduler.has_deadlines:
            return self._stepped()
        results, began = self.late(), self._clock()
        results += self._stepped()
        self._took = self._clock() - began
        return results

    def _stepped(self) -> list[Result]:
        results: list[Result] = []
        self._fill(results)
        if self.scheduler.occupied and self._live is not None:
            try:
                self._live = self._stepper.next(self._live, self.scheduler.occupied)
            except FAILURES:
                failures = self._failed(self._live)
                if not failures:
                    raise    # it was no input's fault
                return [*results, *failures]
            self._window.add(self._live)
            if self._window.is_due:
                results += self._harvest()
        return results

    def drained(self) -> Iterator[Result]:
        """Step until everything submitted has been answered."""
        while len(self):
            yield from self.advance()

    def _fill(self, results: list[Result]) -> None:
        """Give every free slot an input, staging more as long as some wait; a row that stays free repeats another."""
        ours = self.scheduler
        while ours.occupied < ours.slots and (ours.staged or ours.waiting):
            if not ours.staged:
                self._begin(results)
            self._place()
        if not ours.occupied:
            self._live = None
            self._window.forget()
        elif self._live is not None:
            self._shrink(self._live)
            self._repeat(self._live)

    def _begin(self, results: list[Result]) -> None:
        """Stage the next inputs: stem and first step, at the shape of the ladder that holds them."""
        items = self.scheduler.next_waiting()
        rows = self._ladder.fit(len(items))
        try:
            self._stage = self._stepper.first_of(items, rows)
        except FAILURES:
            failed = self._stepper.failures_of(items, rows)
            if not failed:
                raise    # it was no input's fault
            for item, error in failed:
                self._remove(item)
                results.append(Result(item.key, None, 0, None, error))
            return
        self.scheduler.stage()                   # only now: what failed before leaves all in the queue
        self._show(self._stage, [item.index for item in items])
        flags = (self._stage.stops | self._stage.is_bad).tolist()
        results += self._answered(self._stage, [item for item in items if flags[item.index] or item.limit == 1])

    def _place(self) -> None:
        """Move staged inputs to free slots; where nothing runs, the stage itself is the batch."""
        ours = self.scheduler
        if not ours.staged:
            self._stage = None
            return
        assert self._stage is not None
        if not ours.occupied:
            self._live = _owned(self._stage)
            self._window.forget()
            ours.adopt()
            self._stage, self._is_stale = None, False
            return
        assert self._live is not None
        live = self._live = self._grown(self._live, min(ours.occupied + ours.staged, ours.slots))
        moves = ours.place()
        rows, slots = map(list, zip(*moves, strict=True))
        places = torch.tensor(slots, device=self._stepper.device)
        is_run = rows == list(range(rows[0], rows[0] + len(rows)))    # nearly always: then nothing is gathered first
        taken = slice(rows[0], rows[-1] + 1) if is_run else torch.tensor(rows, device=self._stepper.device)
        for target, source in zip(live.tensors(), self._stage.tensors(), strict=True):
            target.index_copy_(0, places, source[taken].to(target.dtype))
        for _, slot in moves:
            self._window.join(slot)
        if not ours.staged:
            self._stage = None    # its memory, still in the processor's cache, serves the next step

    def _grown(self, live: Live, count: int) -> Live:
        """The batch with room for so many; the new rows repeat its last one."""
        rows, have = self._ladder.fit(count), len(live.steps)
        if rows <= have:
            return live
        return live.taken(torch.arange(rows, device=self._stepper.device).clamp_max(have - 1))

    def _shrink(self, live: Live) -> None:
        """A smaller shape, once it holds what runs."""
        rows = self._ladder.fit(self.scheduler.occupied)
        if rows >= len(live.steps) or len(self._window):
            return
        places = self.scheduler.pack()
        places += places[-1:] * (rows - len(places))
        self._live = live.taken(torch.tensor(places, device=self._stepper.device))
        self._is_stale = False

    def _repeat(self, live: Live) -> None:
        """Let free rows repeat one in use: one that went on by itself would drift beyond what the model was made for.
        """
        free = [slot for slot in self.scheduler.free if slot < len(live.steps)] if self._is_stale else []
        self._is_stale = False
        if free:
            index = torch.tensor(free, device=self._stepper.device)
            used = next(slot for slot, item in enumerate(self.scheduler.running) if item is not None)
            for part in live.tensors():
                part.index_copy_(0, index, part[used:used + 1].expand(len(free), *part.shape[1:]).clone())

    def _harvest(self) -> list[Result]:
        """The answers of slots that are done."""
        assert self._live is not None
        running = self.scheduler.running
        results = []
        for live, rows in self._window.look([None if item is None else item.limit for item in running]):
            self._show(live, rows)
            results += self._answered(live, [item for row in rows if (item := running[row]) is not None])
        self._show(self._live, [item.index for item in running if item is not None])
        return results

    def _failed(self, live: Live) -> list[Result]:
        """What the model could not step leaves with its error; the others take the step next time."""
        running = {item.index: item for item in self.scheduler.running if item is not None}
        failed = self._stepper.failing_rows(live, list(running))
        for row, _ in failed:
            self._remove(running[row])
        return [Result(running[row].key, None, int(live.steps[row]), None, error) for row, error in failed]

    def _answered(self, live: Live, items: list[Item]) -> list[Result]:
        """The answers of items whose rows are in this batch; they leave."""
        results = live.results([item.index for item in items], [item.key for item in items],
                               [item.is_late for item in items])
        for item in items:
            self._remove(item)
        return results

    def _remove(self, item: Item) -> None:
        self.scheduler.remove(item)
        self._is_stale = True

    def _show(self, live: Live, rows: list[int]) -> None:
        """The signals of inputs at the step that they have just taken."""
        if self._watch is not None and rows and live.values.shape[1]:
            index = torch.tensor(rows, device=live.values.device)
            steps, values = (part.index_select(0, index).cpu() for part in (live.steps, live.values[:, 0]))
            self._watch.see(steps.numpy().astype(np.int64), values.double().numpy())


def _owned(stage: Live) -> Live:
    """The stage as a batch of mixed depths whose rows may be written.

    What a model gives may be a view that all rows share, or a tensor of the model's own.
    """
    def own(part: torch.Tensor) -> torch.Tensor:
        is_own = part.is_contiguous() and not part._is_view()
        return part if is_own else part.clone(memory_format=torch.contiguous_format)

    live = stage.mapped(own)
    context = {name: part.clone() for name, part in live.state.context.items()}
    live.state = live.state._replace(step=None, context=context)
    return live
