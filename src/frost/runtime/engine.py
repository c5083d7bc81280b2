"""One engine, three executors with one result: why inference is fast.

    masked     every row is computed until the last image of its batch has stopped
    compact    the batch shrinks as images stop
    refill     constant slots: whoever stops makes room for the next image; the only one whose bits do not depend on
               the company, and the fastest on a stream
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from frost.core.precision import Precision, device_of, resolve_precision
from frost.core.trajectory import IterativeModel, Prediction, check_shape
from frost.halting.drift import Watch
from frost.halting.policy import Policy
from frost.runtime.batches import run_batch
from frost.runtime.slots import Drain, Session
from frost.runtime.stepper import Result, Stepper

Executor = Literal["masked", "compact", "refill"]
Order = Literal["arrival", "finish"]


class Request(NamedTuple):
    """An image with wishes of its own."""

    image: Any                      # (c, h, w), a tensor or an array
    key: Any = None                 # comes back with the answer; None is its number in the stream
    depth: int | None = None        # most steps for this image; None is T
    seconds: float | None = None    # from its arrival until it takes the answer that it has


class Work(NamedTuple):
    """Rows that were computed."""

    begun: int          # stem and first step
    stepped: int        # later steps
    begun_for: int      # of these, with an image
    stepped_for: int    # of these, with an image that had not stopped


class Engine:
    """A model that stops each image where a rule says so, and does not compute what is not needed.

    Args:
        model: put into evaluation mode.
        policy: for instance `run.calibration.at_mean_depth(6)`, or `frost.AtDepth(4)`.
        executor: `refill`, `compact` or `masked`.
        slots: images that run together.
        sync_every: steps between two looks at who has stopped; on a GPU each look waits for it.
        drain: what `refill` does at the end of a stream: keep its shape, or shrink and give up bit-equality.
        room: most images that may wait in a `Session`; None is no limit.
        compile: torch.compile the step, whose shape never changes under `refill`.
        caches_first: take the first step from h_0 = 0, the same for every image, from a cache.
        watch: is shown every signal, for a drift check; `refill` only.
    """

    def __init__(self, model: IterativeModel, policy: Policy, executor: Executor = "refill", slots: int = 64, *,
                 precision: Precision = "float32", sync_every: int = 1, drain: Drain = "constant",
                 room: int | None = None, compile: bool = False, caches_first: bool = True, watch: Watch | None = None,
                 clock: Callable[[], float] = time.monotonic) -> None:
        for name, value, kind in (("executor", executor, Executor), ("precision", precision, Precision),
                                  ("drain", drain, Drain)):
            if value not in get_args(kind):
                raise ValueError(f"{name} is one of {', '.join(get_args(kind))}; got '{value}'.")
        for name, number in (("slots", slots), ("sync_every", sync_every)):
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}.")
        if compile and (executor != "refill" or drain == "compact"):
            raise ValueError("compile needs a shape that never changes: executor='refill' with drain='constant'.")
        if executor == "refill" and not model.stationary:
            raise ValueError(f"{type(model).__name__} has weights of its own for each step, so images at different "
                             "depths cannot share a batch; use executor='compact', or a stationary model.")
        resolve_precision(precision, device_of(model))    # refuses what this machine cannot do
        self.model, self.policy = model.eval(), policy
        self.executor, self.slots, self.drain = executor, slots, drain
        self._sync_every, self._room, self._watch, self._clock = sync_every, room, watch, clock
        self._stepper = Stepper(model, policy, precision, compile, caches_first)

    @property
    def caches_first(self) -> bool:
        """Whether the first step comes from a cache where it can."""
        return self._stepper.caches_first

    @property
    def work(self) -> Work:
        """What has been computed since the engine was made."""
        ours = self._stepper
        return Work(ours.begun, ours.stepped, ours.begun_for, ours.stepped_for)

    def open(self) -> Session:
        """A queue in, results out, for a caller that submits as requests come."""
        if self.executor != "refill":
            raise ValueError(f"only executor 'refill' has a queue; this engine is '{self.executor}'.")
        self._check_mode()
        return self._session(self._room)

    def predict(self, images: Tensor) -> Prediction:
        """The answers for a batch of any size; a row that cannot be answered is NaN at depth 0 and in `.errors`."""
        check_shape(images, self.model.image_channels, self.model.image_size)
        results = list(self.run(iter(images)))
        errors = {place: result.error for place, result in enumerate(results) if result.error is not None}
        if not results:
            return Prediction(torch.empty(0, 0), torch.empty(0, dtype=torch.long), torch.empty(0))
        classes = next((len(result.output) for result in results if result.output is not None), 0)
        nothing = torch.full((classes,), torch.nan)
        return Prediction(
            torch.stack([nothing if result.output is None else result.output for result in results]),
            torch.tensor([result.depth if result.error is None else 0 for result in results]),
            torch.tensor([torch.nan if result.score is None else result.score for result in results]), errors)

    def run(self, stream: Iterable[Any], order: Order = "arrival") -> Iterator[Result]:
        """The answers for a stream of images (c, h, w), pairs (key, image), or `Request`s, as it is read.

        No more than two batches are read ahead, so memory does not grow with the stream; leaving the loop cancels what
        is under way. An image that cannot be answered has an `error` and does not disturb the others. If the stream
        itself raises, what was read before is answered, then the error goes on to the caller.

        Args:
            order: `arrival` gives answers in the order of the stream, `finish` as soon as they are known.
        """
        if order not in get_args(Order):
            raise ValueError(f"order is one of {', '.join(get_args(Order))}; got '{order}'.")
        self._check_mode()
        source = _Source(stream)
        answers = self._refilled(source) if self.executor == "refill" else self._batched(source)
        try:
            yield from _in_order(answers) if order == "arrival" else (result for _, result in answers)
        finally:
            answers.close()
            source.close()
        if source.failure is not None:
            raise source.failure

    def _refilled(self, source: _Source) -> Generator[tuple[int, Result]]:
        session = self._session(room=None)
        while True:
            yield from self._read(source, session)
            results = session.drained() if source.is_over else session.advance()
            for result in results:
                place, key = result.key
                yield place, result._replace(key=key)
            if source.is_over and not len(session):
                return

    def _batched(self, source: _Source) -> Generator[tuple[int, Result]]:
        while not source.is_over:
            session = self._session(room=None)    # checks what comes, as `refill` does
            yield from self._read(source, session, self.slots)
            items = session.scheduler.next_waiting()
            if not items:
                continue
            limits = torch.tensor([item.limit for item in items], device=self._stepper.device)
            images = torch.stack([item.image for item in items]).to(self._stepper.device)
            live = self._stepper.first(images, limits, len(items))
            results = run_batch(self._stepper, live, items, shrinks=self.executor == "compact",
                                sync_every=self._sync_every, clock=self._clock)
            for result in results:
                place, key = result.key
                yield place, result._replace(key=key)

    def _read(self, source: _Source, session: Session, ahead: int | None = None) -> Iterator[tuple[int, Result]]:
        """Queue what the stream gives, up to two batches; what is no image is answered at once, with its error.

        No more than that is read in one go, so that a stream of bad images neither stops the good ones nor piles up.
        """
        ahead = 2 * self.slots if ahead is None else ahead
        for _ in range(ahead - session.scheduler.waiting):
            read = source.next()
            if read is None:
                return
            place, request = read
            try:
                session.submit(request.image, (place, request.key), request.depth, request.seconds)
            except (ValueError, TypeError, RuntimeError) as error:
                yield place, Result(request.key, None, 0, None, str(error))

    def _session(self, room: int | None) -> Session:
        return Session(self._stepper, self.slots, room=room, sync_every=self._sync_every, drain=self.drain,
                       watch=self._watch, clock=self._clock)

    def _check_mode(self) -> None:
        if self.model.training:
            raise ValueError("the model has been put into training mode since the engine was made; call model.eval().")
        if device_of(self.model) != self._stepper.device:
            raise ValueError("the model has been moved since the engine was made; make the engine again.")


class _Source:
    """Reads a stream item by item; remembers that it ended, and why."""

    def __init__(self, stream: Iterable[Any]) -> None:
        self._iterator = iter(stream)
        self._count = 0
        self.is_over = False
        self.failure: Exception | None = None

    def next(self) -> tuple[int, Request] | None:
        """The next item and its number; None at the end."""
        if self.is_over:
            return None
        try:
            item = next(self._iterator)
        except StopIteration:
            self.is_over = True
            return None
        except Exception as error:    # the stream's own failure is raised when what came before is answered
            self.is_over, self.failure = True, error
            return None
        place, self._count = self._count, self._count + 1
        if not isinstance(item, Request):
            item = Request(item[1], item[0]) if isinstance(item, tuple) and len(item) == 2 else Request(item)
        return place, item._replace(key=place) if item.key is None else item

    def close(self) -> None:
        """Tell a generator that nobody reads on."""
        if isinstance(self._iterator, Generator):
            self._iterator.close()


def _in_order(answers: Iterable[tuple[int, Result]]) -> Iterator[Result]:
    """Hold back answers until those before them are known."""
    held: dict[int, Result] = {}
    turn = 0
    for place, result in answers:
        held[place] = result
        while turn in held:
            yield held.pop(turn)
            turn += 1
