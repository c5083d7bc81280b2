"""`frost.AsyncEngine`: an engine that callers await, under HTTP and under a cluster alike.

One thread owns the session (`runtime.engine_thread`), here or in a process of its own (`runtime.engine_process`); the
answers of a step come back together. A caller that is cancelled frees its slot within a step. What is beyond the queue
is refused, or answered with fewer steps.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, Self

from frost.checkpoint import Run
from frost.core.block import FAILURES
from frost.core.inputs import Inputs, Signature
from frost.core.precision import Device
from frost.core.trajectory import IterativeModel
from frost.halting.budget import Budget
from frost.halting.calibration import Calibration
from frost.halting.drift import Watch
from frost.runtime.backend import BackendName
from frost.runtime.budgets import Budgets, Grant, UnderLoad, rounded
from frost.runtime.engine import Work
from frost.runtime.engine_process import Load, ProcessWorker
from frost.runtime.engine_thread import Answers, Counts, Outcome, Ticket
from frost.runtime.scheduler import QueueFull
from frost.runtime.worker import Place, ThreadWorker, Worker, engine_at

BATCHES = 4         # full batches that may wait, unless it is said
STALLED = 30.0      # seconds in one step after which an engine counts as hanging
MOST_FITS, FIT_SECONDS = 64, 0.3    # budgets that wait to be fitted, one after the other, and how long one takes
FULL_DEPTH = Budget()


class EngineStopped(RuntimeError):
    """The engine takes no more inputs: it is draining, closed, or its thread has died."""


class Progress(NamedTuple):
    """What a health check reads."""

    is_ready: bool               # takes inputs, and moves
    state: str                   # new, running, draining, closed, stalled or dead
    error: str | None            # why it died
    slots: int
    occupied: int                # slots in use
    waiting: int                 # inputs that have not begun
    queued_steps: int            # of the inputs in the queue, at full depth
    max_queue: int               # steps
    steps: int                   # of the engine, so far
    last_step: float             # seconds that the last one took
    step_age: float | None       # seconds since the step under way began


class AsyncEngine:
    """A model that answers inputs as they come, each with a budget and a deadline of its own.

    Args:
        calibration: where budgets get their stopping rules from; without one there are fixed depths only.
        slots: inputs that run together.
        budget: of inputs that name none; full depth unless it is said.
        max_queue: most steps at full depth that may wait; None is four times what the slots hold.
        under_load: `shed` refuses what finds the queue full; `shallower` answers with fewer steps as the queue grows.
        floor: the lowest mean depth that `shallower` goes to.
        ladder: let the batch shrink and grow; False keeps one shape, at which bits do not depend on who shares it.
        watch: gets the calibration's first signal of every input, for a drift check.
        process_of: the saved run that model and calibration are from. Its steps are then computed in a process of its
            own, which reads it again: they do not wait for the interpreter that callers keep busy.
    """

    def __init__(self, model: IterativeModel, calibration: Calibration | None = None, *, slots: int = 64,
                 budget: Budget = FULL_DEPTH, max_queue: int | None = None, under_load: UnderLoad = "shed",
                 floor: float | None = None, example: Any = None, device: Device | None = None,
                 backend: BackendName | Literal["auto"] = "eager", ladder: bool = True, watch: Watch | None = None,
                 process_of: Run | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.budgets = Budgets(calibration, model.depth, under_load, floor)
        self.default = self.budgets.make(budget)
        self.slots, self._clock = slots, clock
        self.max_queue = BATCHES * slots * model.depth if max_queue is None else max_queue
        if max_queue is not None and max_queue < model.depth:
            raise ValueError(f"max_queue is in steps and must hold one input at full depth, {model.depth}; got "
                             f"{max_queue}.")
        place = Place(slots, backend, ladder, device)
        if process_of is None:
            self.worker: Worker = ThreadWorker(engine_at(place, model, calibration, example, watch, clock),
                                               self.budgets, clock)
        else:
            load = Load(under_load, floor)
            self.worker = ProcessWorker(process_of, place, load, calibration is not None, watch)
        self._is_started = False
        self._fitting = ThreadPoolExecutor(1, "frost-rules")    # one at a time: nobody can fill the cores with it
        self._fits: dict[Budget, asyncio.Future[Grant]] = {}
        self._open: set[asyncio.Future[Outcome]] = set()
        self._admitted = 0                                      # steps at full depth, so far
        self._state = "new"
        self._error: str | None = None

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            await self.drain()
        await self.close()

    def warm_up(self, signature: Signature) -> tuple[int, ...]:
        """Compute once at every shape, before the start: no request waits for what is compiled at its first use.

        The shape of an output comes back.
        """
        return self.worker.warm_up(signature)

    def start(self) -> None:
        """Begin, in the running event loop."""
        if self._state != "new":
            raise EngineStopped(f"this engine is {self._state}; make a new one.")
        self._loop = asyncio.get_running_loop()
        self._is_empty = asyncio.Event()
        self.worker.start(_resolve, self._died)
        self._is_started, self._state = True, "running"

    async def submit(self, inputs: Any, *, quantile: float | None = None, mean_depth: float | None = None,
                     accuracy_loss: float | None = None, depth: int | None = None,
                     deadline: float | None = None) -> Outcome:
        """The answer for one input.

        What is no input or budget of the model's is a ValueError, a full queue `QueueFull`, a deadline before the first
        step `DeadlinePassed`, an engine that has ended `EngineStopped`.

        Args:
            deadline: seconds until it takes the answer that it has.
        """
        budget = Budget(quantile, mean_depth, accuracy_loss, depth)
        grant = self.default if budget == FULL_DEPTH else await self.grant(budget)
        return await self.enqueue([inputs], grant, deadline)[0]

    async def grant(self, budget: Budget) -> Grant:
        """What a budget allows; one that is new is fitted beside the loop."""
        known = self.budgets.known(budget)
        if known is not None:
            return known
        budget = rounded(budget)
        if budget not in self._fits:
            if len(self._fits) >= MOST_FITS:
                full = QueueFull(f"{MOST_FITS} budgets that nobody has asked for before are being fitted; try again.")
                full.seconds = MOST_FITS * FIT_SECONDS
                raise full
            fit = self._fits[budget] = self._loop.run_in_executor(self._fitting, self.budgets.make, budget)
            fit.add_done_callback(lambda done: self._fitted(budget, done))
        return await asyncio.shield(self._fits[budget])    # others may wait for it as well

    def _fitted(self, budget: Budget, done: asyncio.Future[Grant]) -> None:
        self._fits.pop(budget, None)
        if not done.cancelled():
            done.exception()    # seen, whether or not somebody still waits

    def enqueue(self, inputs: Sequence[Any], grant: Grant, seconds: float | None = None
                ) -> list[asyncio.Future[Outcome]]:
        """Queue inputs at once, all of them or none; cancel a future to give its input up.

        What they are is looked at here: the engine's thread would have to wait for the interpreter at each look.
        """
        self.check_room(grant.limit * len(inputs))
        if seconds is not None and not seconds >= 0:
            raise ValueError(f"a deadline must not be negative, got {seconds}.")
        due = None if seconds is None else self._clock() + seconds
        try:
            accepted = [self.worker.accepted(value) for value in inputs]
        except FAILURES as error:    # whatever a model of the user's says of it
            raise ValueError(str(error)) from error
        return [self._enqueued(value, grant, due) for value in accepted]

    def _enqueued(self, accepted: Inputs, grant: Grant, due: float | None) -> asyncio.Future[Outcome]:
        future: asyncio.Future[Outcome] = self._loop.create_future()
        ticket = Ticket(accepted, grant, due, future)
        self._admitted += grant.limit
        self._open.add(future)
        future.add_done_callback(lambda done: self._left(ticket))
        self.worker.put(ticket)
        return future

    def check_room(self, steps: int) -> None:
        """Refuse what the queue has no room for; several inputs that come together are asked for together."""
        if self._state != "running":
            raise EngineStopped(self._why())
        if self.queued_steps + steps > self.max_queue:
            raise self._full()

    @property
    def queued_steps(self) -> int:
        """Steps at full depth of what waits."""
        return self._admitted - self.counts.released

    @property
    def counts(self) -> Counts:
        """What has happened so far."""
        return self.worker.counts

    @property
    def work(self) -> Work:
        """What has been computed so far."""
        return self.worker.work

    @property
    def progress(self) -> Progress:
        """How it is."""
        counts, occupied = self.counts, self.worker.occupied
        age = None if (since := self.worker.since) is None else self._clock() - since
        state = "stalled" if self._state == "running" and age is not None and age > STALLED else self._state
        waiting = max(0, len(self._open) - occupied)    # also what comes while a step is under way
        return Progress(state == "running", state, self._error, self.slots, occupied, waiting,
                        self.queued_steps, self.max_queue, counts.steps, counts.last_step, age)

    @property
    def seconds_to_wait(self) -> float:
        """Until what waits now has begun, by the rate of late; a second where nothing is known."""
        rate = self.counts.rate
        return self.queued_steps / rate if rate else 1.0

    async def drain(self, seconds: float | None = None) -> bool:
        """Take no more, and wait until all that was taken is answered; False if that takes longer."""
        if self._state == "running":
            self._state = "draining"
        if self._open:
            self._is_empty.clear()
            try:
                await asyncio.wait_for(self._is_empty.wait(), seconds)
            except TimeoutError:
                return False
        return True

    async def close(self, seconds: float = STALLED) -> None:
        """End the thread, which takes as long as the step under way, at most so long; what is not answered fails."""
        if self._state in ("running", "draining"):
            self._state = "closed"
        self._fail_open()
        if self._is_started:
            self.worker.leave()
        await asyncio.to_thread(self.worker.join, seconds)
        self._fitting.shutdown(wait=False, cancel_futures=True)

    def _left(self, ticket: Ticket) -> None:
        """A ticket has its answer, or nobody waits for it any more."""
        self._open.discard(ticket.caller)
        if not self._open:
            self._is_empty.set()
        if ticket.caller.cancelled():
            ticket.is_cancelled = True
            self.worker.put(ticket)

    def _died(self, error: str) -> None:
        """The worker has ended by itself."""
        self._error, self._state = error, "dead"
        self._fail_open()

    def _fail_open(self) -> None:
        for future in list(self._open):
            if not future.done():
                future.set_exception(EngineStopped(self._why()))

    def _why(self) -> str:
        if self._state == "dead":
            return f"the engine has died ({self._error}); make a new one."
        return f"the engine is {self._state} and takes no inputs."

    def _full(self) -> QueueFull:
        wait = self.seconds_to_wait
        full = QueueFull(f"{self.queued_steps:,} steps are waiting, and the queue holds {self.max_queue:,}; try again "
                         f"in {wait:.1f} s.")
        full.seconds = wait
        return full


def _resolve(answers: Answers) -> None:
    for ticket, answer in answers:
        if ticket.caller.done():
            continue
        if isinstance(answer, Exception):
            ticket.caller.set_exception(answer)
        else:
            ticket.caller.set_result(answer)
