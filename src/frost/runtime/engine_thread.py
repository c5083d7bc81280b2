"""The thread that owns a session of the slot engine: takes what has come, steps, hands answers over.

    inbox ─▶ backlog ─feed─▶ session (waiting, staged, running) ─▶ answers of a step, handed over together

Another thread only puts tickets into the inbox and reads counts. Each count has one writer, so that none needs a lock.
"""

from __future__ import annotations

import heapq
import threading
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from torch import Tensor

from frost.core.block import FAILURES
from frost.halting.budget import Budget
from frost.runtime.budgets import Budgets, Grant
from frost.runtime.live import Result
from frost.runtime.scheduler import Item
from frost.runtime.slots import Session

STEP_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)    # buckets of a histogram
# Load in slots from which `shallower` lowers budgets, and at which they are at their floor. On a ladder each input
# makes the steps of all longer; at one shape the first slots cost nothing.
LADDER_KNEE, STRICT_KNEE = (1 / 16, 1 / 4), (1.0, 2.0)
SMOOTH = 0.25         # of a step in the load
MEASURED_FOR = 0.5    # seconds of work between two looks at the rate


class DeadlinePassed(TimeoutError):
    """The deadline came before the input's first step, so there is no answer yet."""


class Outcome(NamedTuple):
    """The answer for one input, or why there is none, and what it was allowed to spend."""

    output: Tensor | None     # y at the step where it stopped, without the batch, on the CPU
    depth: int                # steps taken
    score: float | None       # in [0, 1]; None of a model without a score
    error: str | None         # of an input that the model cannot answer
    is_late: bool             # the deadline passed, and this is the answer that it had
    budget: Budget            # that it got
    is_reduced: bool          # less than it asked for, because of load


@dataclass(slots=True, eq=False)
class Ticket:
    """One input on its way."""

    inputs: Any                     # accepted by the session
    grant: Grant
    due: float | None               # when it takes the answer that it has
    caller: Any = None              # what waits for the answer
    item: Item | None = None        # once it is in the session
    is_queued: bool = True          # its steps count as waiting
    is_cancelled: bool = False
    is_over: bool = False           # answered, or given up
    number: int = 0                 # between two processes


@dataclass(slots=True)
class Counts:
    """What a health check and a scrape read; only the thread writes."""

    steps: int = 0                   # calls of the session
    answered: int = 0
    failed: int = 0                  # inputs with an error
    late: int = 0                    # answers that a deadline cut short
    expired: int = 0                 # deadlines that came before the first step
    cancelled: int = 0
    reduced: int = 0                 # answers with less than was asked for
    released: int = 0                # steps at full depth that have left the queue
    seconds: float = 0.0             # of all steps
    last_step: float = 0.0           # seconds
    since: float | None = None       # when the step under way began
    rate: float | None = None        # steps at full depth that leave the queue in a second
    depths: list[int] = field(default_factory=list)           # answers by depth, from 1
    step_seconds: list[int] = field(default_factory=lambda: [0] * (len(STEP_SECONDS) + 1))


Answers = list[tuple[Ticket, Outcome | Exception]]


class EngineThread:
    """Owns a session; answers, if only none, are handed to `deliver` in each turn, in the thread.

    Args:
        begins: is called before each step, once what has come is queued.
    """

    def __init__(self, session: Session, budgets: Budgets, counts: Counts, deliver: Callable[[Answers], None],
                 died: Callable[[str], None], clock: Callable[[], float] = time.monotonic,
                 begins: Callable[[], None] = lambda: None) -> None:
        self.session, self.counts = session, counts
        self._budgets, self._deliver, self._died, self._clock = budgets, deliver, died, clock
        self._begins = begins
        self._inbox: SimpleQueue[Ticket | None] = SimpleQueue()
        self._backlog: OrderedDict[Ticket, None] = OrderedDict()
        self._deadlines: list[tuple[float, int, Ticket]] = []    # a heap
        self._out: Answers = []
        self._timed = 0              # inputs with a deadline, so far
        self._knee = LADDER_KNEE if session.climbs else STRICT_KNEE
        self._load = 0.0             # inputs here, smoothed over some steps: a burst alone is no load
        self._measured = (0, 0.0)    # released and seconds, since the last look at the rate
        self._thread = threading.Thread(target=self._run, name="frost-engine", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def put(self, ticket: Ticket | None) -> None:
        """A new ticket, one that has been cancelled, or None: stop."""
        self._inbox.put(ticket)

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended."""
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while self._take():
                self._feed()
                if late := self.session.late():    # they go before the step that would make them later
                    self._finish(late)
                    self._hand_over()
                if len(self.session):
                    self._step()
                self._expire()
                self._hand_over()
        except BaseException as error:    # whatever it was, the waiters must hear of it
            self._died(f"{type(error).__name__}: {error}")

    def _hand_over(self) -> None:
        answers, self._out = self._out, []
        for ticket, _ in answers:
            ticket.is_over = True
        self._deliver(answers)

    def _take(self) -> bool:
        """Read the inbox, waiting if there is nothing else to do; False to stop."""
        is_idle = not self._backlog and not len(self.session)
        while True:
            try:
                ticket = self._inbox.get(block=is_idle)
            except Empty:
                return True
            if ticket is None:
                return False
            is_idle = False
            if ticket.is_cancelled:
                self._withdraw(ticket)
                continue
            self._backlog[ticket] = None
            if ticket.due is not None:
                self._timed += 1
                heapq.heappush(self._deadlines, (ticket.due, self._timed, ticket))

    def _withdraw(self, ticket: Ticket) -> None:
        """Forget a ticket, wherever it is; it comes twice if it was cancelled before it was taken."""
        if ticket.item is not None:
            self.counts.cancelled += self.session.cancel(ticket.item)
        elif ticket.is_queued:
            self.counts.cancelled += 1
            self._leave_queue(ticket)
        ticket.inputs, ticket.is_over = None, True

    def _leave_queue(self, ticket: Ticket) -> None:
        self._backlog.pop(ticket, None)
        ticket.is_queued = False
        self.counts.released += ticket.grant.limit

    def _feed(self) -> None:
        """Hand the session as many inputs as it can stage; what they may spend depends on the load of late."""
        if not self._backlog:
            return
        scheduler = self.session.scheduler
        pressure = (self._load / scheduler.slots - self._knee[0]) / (self._knee[1] - self._knee[0])
        while self._backlog and scheduler.waiting < scheduler.slots:
            ticket = next(iter(self._backlog))
            self._leave_queue(ticket)
            ticket.grant = self._budgets.lowered(ticket.grant, pressure)
            try:
                ticket.item = self._submit(ticket)
            except FAILURES as error:
                self._out.append((ticket, ValueError(str(error))))
            ticket.inputs = None

    def _submit(self, ticket: Ticket) -> Item:
        """The one place where the session is given an input."""
        seconds = None if ticket.due is None else max(0.0, ticket.due - self._clock())
        return self.session.queue(ticket.inputs, ticket, seconds=seconds, rule=ticket.grant.rule)

    def _step(self) -> None:
        """One step of the session, and its answers."""
        counts, began = self.counts, self._clock()
        counts.since = began
        self._begins()
        self._load += SMOOTH * (len(self._backlog) + len(self.session) - self._load)
        results = self.session.advance()
        took = self._clock() - began
        counts.since = None
        counts.steps, counts.last_step, counts.seconds = counts.steps + 1, took, counts.seconds + took
        counts.step_seconds[bisect_left(STEP_SECONDS, took)] += 1
        self._measure()
        self._finish(results)

    def _finish(self, results: list[Result]) -> None:
        """Count answers, and keep them for their callers."""
        counts = self.counts
        for result in results:
            ticket: Ticket = result.key
            grant = ticket.grant
            if result.error is None:
                counts.answered += 1
                counts.depths[result.depth - 1] += 1
                counts.late += result.is_late
                counts.reduced += grant.is_reduced
            else:
                counts.failed += 1
            self._out.append((ticket, Outcome(result.output, result.depth, result.score, result.error, result.is_late,
                                              grant.budget, grant.is_reduced)))

    def _measure(self) -> None:
        """The rate at which the queue empties, over half a second of work, smoothed."""
        counts, (released, seconds) = self.counts, self._measured
        if counts.seconds - seconds >= MEASURED_FOR:
            rate = (counts.released - released) / (counts.seconds - seconds)
            counts.rate = rate if counts.rate is None else 0.5 * (counts.rate + rate)
            self._measured = (counts.released, counts.seconds)

    def _expire(self) -> None:
        """Give up inputs whose deadline came before their first step; the session answers the others."""
        while self._deadlines and self._deadlines[0][0] <= self._clock():
            _, _, ticket = heapq.heappop(self._deadlines)
            if ticket in self._backlog:
                self._leave_queue(ticket)
            elif ticket.item is None or ticket.item.place != "waiting":
                continue
            else:
                self.session.cancel(ticket.item)
            self.counts.expired += 1
            self._out.append((ticket, DeadlinePassed("the deadline came before the first step; the queue is long, or "
                                                     "the deadline too short.")))
        if len(self._deadlines) > 2 * (len(self._backlog) + len(self.session)) + 64:    # most of them have left
            self._deadlines = [entry for entry in self._deadlines if not entry[2].is_over]
            heapq.heapify(self._deadlines)
