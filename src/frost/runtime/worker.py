"""Where the steps of an asynchronous engine are computed: in a thread of this process, or in a process of its own.

`AsyncEngine` stands on either and does not know which. A worker takes tickets and hands answers over in the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from frost.core.inputs import Signature
from frost.core.precision import Device
from frost.core.trajectory import IterativeModel
from frost.halting.calibration import Calibration
from frost.halting.drift import Watch
from frost.halting.stopping import AtDepth
from frost.runtime.backend import BackendName
from frost.runtime.budgets import Budgets
from frost.runtime.engine import Engine, Work
from frost.runtime.engine_thread import Answers, Counts, EngineThread, Ticket


class Worker(ABC):
    """What an asynchronous engine asks of the place where its steps are computed.

    `counts`, `work` and `occupied` (slots in use) are what has happened so far; `accepted` gives a copy of an input as
    this worker's tickets hold it, or a ValueError.
    """

    backend: BackendName
    counts: Counts
    accepted: Callable[[Any], Any]

    @property
    @abstractmethod
    def work(self) -> Work:
        """What has been computed so far."""

    @property
    @abstractmethod
    def occupied(self) -> int:
        """Slots in use."""

    @property
    @abstractmethod
    def since(self) -> float | None:
        """When the step under way began."""

    @abstractmethod
    def warm_up(self, signature: Signature) -> tuple[int, ...]:
        """Compute once at every shape; the shape of an output."""

    @abstractmethod
    def start(self, deliver: Callable[[Answers], None], died: Callable[[str], None]) -> None:
        """Begin, in the running event loop, where both are called."""

    @abstractmethod
    def put(self, ticket: Ticket) -> None:
        """A new ticket, or one that has been cancelled."""

    @abstractmethod
    def leave(self) -> None:
        """End with the step under way; in the loop."""

    @abstractmethod
    def join(self, seconds: float) -> None:
        """Wait until it has ended, so long; in any thread."""


class ThreadWorker(Worker):
    """A thread of this process: for models that only this process knows."""

    def __init__(self, engine: Engine, budgets: Budgets,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self.engine, self.backend = engine, engine.backend
        self.counts = Counts(depths=[0] * budgets.depth)
        self._budgets, self._clock = budgets, clock
        self._thread: EngineThread | None = None

    @property
    def work(self) -> Work:
        """What has been computed so far."""
        return self.engine.work

    @property
    def occupied(self) -> int:
        """Slots in use."""
        return 0 if self._thread is None else self._thread.session.scheduler.occupied

    @property
    def since(self) -> float | None:
        """When the step under way began."""
        return self.counts.since

    def warm_up(self, signature: Signature) -> tuple[int, ...]:
        """Compute once at every shape; the shape of an output."""
        return warmed(self.engine, signature)

    def start(self, deliver: Callable[[Answers], None], died: Callable[[str], None]) -> None:
        """Begin."""
        loop = asyncio.get_running_loop()

        def hand_over(answers: Answers) -> None:
            if answers:
                loop.call_soon_threadsafe(deliver, answers)

        def ended(error: str) -> None:
            with contextlib.suppress(RuntimeError):    # the loop has gone before
                loop.call_soon_threadsafe(died, error)

        session = self.engine.open()
        self.accepted = session.accepted
        self._thread = EngineThread(session, self._budgets, self.counts, hand_over, ended, self._clock)
        self._thread.start()

    def put(self, ticket: Ticket) -> None:
        """To the thread."""
        assert self._thread is not None
        self._thread.put(ticket)

    def leave(self) -> None:
        """End the thread with the step under way."""
        if self._thread is not None:
            self._thread.put(None)

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended."""
        if self._thread is not None:
            self._thread.join(seconds)


class Place(NamedTuple):
    """How the engine of a worker is made."""

    slots: int
    backend: BackendName | Literal["auto"]
    ladder: bool
    device: Device | None = None


def engine_at(place: Place, model: IterativeModel, calibration: Calibration | None, example: Any = None,
              watch: Watch | None = None, clock: Callable[[], float] = time.monotonic) -> Engine:
    """An engine for inputs that each bring a rule of their own, by any signal of the calibration's."""
    signals = () if calibration is None else tuple(calibration.signals)
    return Engine(model, AtDepth(model.depth), slots=place.slots, example=example, device=place.device,
                  backend=place.backend, ladder=place.ladder, signals=signals, watch=watch, clock=clock)


def warmed(engine: Engine, signature: Signature) -> tuple[int, ...]:
    """Compute once at every shape, so that no input waits for what is compiled at its first use."""
    return {tuple(engine.predict(signature.zeros(rows)).outputs.shape[1:]) for rows in engine.shapes}.pop()
