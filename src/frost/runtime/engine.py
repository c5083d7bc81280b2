"""One engine, three executors with one result: why inference is fast.

    masked     every row is computed until the last input of its batch has stopped
    compact    the batch shrinks as inputs stop
    refill     constant slots: what stops gives its slot to the next input; the only batch-invariant one, bit for bit,
               and the fastest on a stream
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args

import torch

from frost.core.block import FAILURES
from frost.core.inputs import Inputs, Signature, as_inputs, batch_of, leaves, row
from frost.core.precision import Device, Precision, device_of, resolve_device, resolve_precision
from frost.core.trajectory import IterativeModel, Prediction
from frost.halting.drift import Watch
from frost.halting.signals import Signal
from frost.halting.stopping import StoppingRule
from frost.runtime.backend import BACKENDS, BackendName
from frost.runtime.batch_invariance import Invariance
from frost.runtime.batches import run_batch
from frost.runtime.fastest import fastest_backend
from frost.runtime.ladder import Ladder
from frost.runtime.live import Result
from frost.runtime.scheduler import Item
from frost.runtime.slots import Session
from frost.runtime.stepper import Stepper, versions_of
from frost.runtime.stream import Order, Request, Source, in_order

Executor = Literal["masked", "compact", "refill"]
MOST_SLOTS = 2**20    # beyond it a typing mistake is likelier than a machine


class Work(NamedTuple):
    """Rows that were computed."""

    begun: int          # stem and first step
    stepped: int        # later steps
    begun_for: int      # of these, with an input
    stepped_for: int    # of these, with an input that had not stopped


class Engine:
    """A model that stops each input where a rule says so, and does not compute what is not needed.

    Args:
        model: put into evaluation mode, and moved if a `device` is named; its weights are folded (`runtime.folded`).
        rule: for instance `calibration.at_mean_depth(6)`, `frost.stop_when(confidence=0.9)`, or `frost.AtDepth(4)`.
        executor: `refill`, `compact` or `masked`.
        slots: most inputs that run together.
        example: one input, whose shape all inputs have; needed unless the model states it, or `frost.fit` or
            `frost.calibrate` has seen one.
        device: `auto`, `cpu`, `cuda` or `mps`; None leaves the model where it is.
        sync_every: steps between two looks at what has stopped; on a GPU each look waits for it.
        max_queue: most inputs that may wait in a `Session`; None is no limit.
        backend: what computes the steps: `eager`, `compile`, `onnxruntime`, or `auto`, which is what `frost bench RUN
            --save` found fastest on this machine, else eager.
        ladder: let the batch shrink and grow with what is running, so that a lone input does not take as long as all
            slots; False keeps one shape, at which an answer's bits do not depend on who shares the batch.
        signals: names of signals that a request's own rule may look at, beside the rule's.
        caches_first: take the first step from h_0 = 0, the same for every input, from a cache.
        watch: gets every signal, for a drift check; `refill` only.
    """

    def __init__(self, model: IterativeModel, rule: StoppingRule, executor: Executor = "refill", slots: int = 64, *,
                 example: Any = None, device: Device | None = None, precision: Precision = "float32",
                 sync_every: int = 1, max_queue: int | None = None, backend: BackendName | Literal["auto"] = "eager",
                 ladder: bool = False, signals: Sequence[str] = (), caches_first: bool = True,
                 watch: Watch | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        _check_parts(model, rule)
        for name, value, known in (("executor", executor, get_args(Executor)), ("precision", precision,
                                   get_args(Precision)), ("backend", backend, (*BACKENDS, "auto"))):
            if value not in known:
                raise ValueError(f"{name} is one of {', '.join(known)}; got '{value}'.")
        for name, number in (("slots", slots), ("sync_every", sync_every),
                             ("max_queue", 1 if max_queue is None else max_queue)):
            if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST_SLOTS:
                raise ValueError(f"{name} must be a whole number from 1 to {MOST_SLOTS}, got {number!r}.")
        if executor == "refill" and not model.stationary:
            raise ValueError(f"{type(model).__name__} has weights of its own for each step, so inputs at different "
                             "depths cannot share a batch; use executor='compact', or a stationary model.")
        if device is not None:
            model.to(resolve_device(device))
        resolve_precision(precision, device_of(model))    # refuses what this machine cannot do
        self.model, self.rule = model.eval(), rule
        self.executor, self.slots = executor, slots
        self.backend: BackendName = fastest_backend(model, slots) if backend == "auto" else backend
        if self.backend != "eager" and executor != "refill":
            raise ValueError(f"backend '{self.backend}' needs a known shape: executor='refill'.")
        self._sync_every, self._max_queue, self._watch, self._clock = sync_every, max_queue, watch, clock
        self._signature = model.signature if example is None else Signature.of(as_inputs(example))
        self._make_stepper = lambda: Stepper(model, rule, precision, self.backend, signals, caches_first,
                                             self._signature)
        self._stepper = self._make_stepper()
        self._ladder = Ladder(slots, is_strict=not ladder, is_coarse=self._stepper.backend.compiles_shapes)

    def __repr__(self) -> str:
        return (f"Engine({type(self.model).__name__}, {self.rule}, {self.executor}, {self.slots} slots, "
                f"{self.backend}; outputs {self.promise})")

    @property
    def shapes(self) -> tuple[int, ...]:
        """Rows that a batch of slots may have."""
        return self._ladder.rungs

    @property
    def promise(self) -> str:
        """What holds of an answer, whatever else is in the batch."""
        if self.executor != "refill" or (len(self.shapes) > 1 and not self._stepper.backend.ignores_shape):
            return "agree to 1e-5 in any batch, since the shape of the batch changes"
        known = self.model.batch_invariance if self.backend == "eager" else (
            self.model.invariance_by_backend.get(self.backend))
        if known is None or (isinstance(known, Invariance) and (known.rows, known.threads) != (
                self.slots, torch.get_num_threads())):
            backend = "" if self.backend == "eager" else f", backend='{self.backend}'"
            return ("agree to 1e-5 in any batch; whether bit for bit, frost.check_batch_invariance(model, example, "
                    f"slots={self.slots}{backend}) tells")
        if known:
            return "are the same bit for bit in any batch"
        if known.largest <= 1e-5:
            return "agree to 1e-5 in any batch, not bit for bit"
        return f"differ by up to {known.largest:.2g} of their size with the batch: the block looks across it"

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
        self._look_at_weights()
        return self._session(self._max_queue, self._known_signature())

    def predict(self, inputs: Inputs) -> Prediction:
        """The answers for a batch of any size; a row that cannot be answered is NaN at depth 0 and in `.errors`."""
        self._look_at_weights()
        inputs = as_inputs(inputs)
        if self._signature is not None and _is_single(inputs, self._signature):
            raise ValueError(f"predict takes a batch, and this is one input, {self._signature.described()}; add the "
                             "batch in front: x[None].")
        self.model.check(inputs)
        count = batch_of(inputs)
        signature = Signature.of(row(inputs, 0)) if count else None    # the caller's, whatever a stream's is
        results = list(self._run((Request(row(inputs, index)) for index in range(count)), "arrival", signature))
        errors = {place: result.error for place, result in enumerate(results) if result.error is not None}
        if not results:
            return Prediction(torch.empty(0, 0), torch.empty(0, dtype=torch.long), torch.empty(0))
        answer = next((result.output for result in results if result.output is not None), torch.empty(0))
        nothing = torch.full_like(answer, torch.nan)
        return Prediction(
            torch.stack([nothing if result.output is None else result.output for result in results]),
            torch.tensor([result.depth if result.error is None else 0 for result in results]),
            torch.tensor([torch.nan if result.score is None else result.score for result in results]), errors)

    def run(self, stream: Iterable[Any], order: Order = "arrival",
            stops: Callable[[], bool] = lambda: False) -> Iterator[Result]:
        """The answers for a stream of inputs, pairs (key, input), or `Request`s, as it is read.

        No more than two batches are read ahead, so memory does not grow with the stream; leaving the loop cancels what
        is under way. An input that cannot be answered has an `error` and does not disturb the others. If the stream
        itself raises, what was read before is answered, then the error goes on to the caller.

        Args:
            order: `arrival` gives answers in the order of the stream, `finish` as soon as they are known.
            stops: asked between steps; once it says yes, what is under way is given up and the answers end.
        """
        if order not in get_args(Order):
            raise ValueError(f"order is one of {', '.join(get_args(Order))}; got '{order}'.")
        self._look_at_weights()
        return self._run(stream, order, self._known_signature(), stops)

    def _run(self, stream: Iterable[Any], order: Order, signature: Signature | None,
             stops: Callable[[], bool] = lambda: False) -> Iterator[Result]:
        source = Source(stream)
        answers = (self._refilled if self.executor == "refill" else self._batched)(source, signature, stops)
        try:
            yield from in_order(answers) if order == "arrival" else (result for _, result in answers)
        finally:
            answers.close()
            source.close()
        if source.failure is not None:
            raise source.failure

    def _look_at_weights(self) -> None:
        """Fold the model anew if its weights are others than when it was folded; refuse one that trains."""
        self._stepper.check_mode()
        if versions_of(self.model) != self._stepper.versions:
            before, self._stepper = self._stepper, self._make_stepper()
            self._stepper.take_counts(before)

    def _known_signature(self) -> Signature:
        if self._signature is None:
            raise ValueError("the engine must know what one input looks like before the first one comes, so that an "
                             "odd one cannot decide for the others: pass Engine(…, example=input), or fit or calibrate "
                             "the model first.")
        return self._signature

    def _refilled(self, source: Source, signature: Signature | None,
                  stops: Callable[[], bool]) -> Generator[tuple[int, Result]]:
        if signature is None:
            return
        session = self._session(None, signature)
        while not stops():
            yield from self._read(source, session)
            for result in session.advance():
                place, key = result.key
                yield place, result._replace(key=key)
            if source.is_over and not len(session):
                return

    def _batched(self, source: Source, signature: Signature | None,
                 stops: Callable[[], bool]) -> Generator[tuple[int, Result]]:
        while not source.is_over and signature is not None and not stops():
            session = self._session(None, signature)    # checks what comes, as `refill` does
            yield from self._read(source, session, self.slots)
            items = session.scheduler.next_waiting()
            for result in self._answered(items) if items else ():
                place, key = result.key
                yield place, result._replace(key=key)

    @torch.inference_mode(mode=False)
    def _answered(self, items: list[Item]) -> list[Result]:
        """The answers of one batch, from its first step to its last; what the model cannot begin with fails alone."""
        self._stepper.check_mode()
        try:
            live = self._stepper.first_of(items, len(items))
        except FAILURES:
            failed = {item.ticket: error for item, error in self._stepper.failures_of(items, len(items))}
            if not failed:
                raise
            rest = [item for item in items if item.ticket not in failed]
            failures = [Result(item.key, None, 0, None, failed[item.ticket]) for item in items if item not in rest]
            return [*failures, *(self._answered(rest) if rest else [])]
        return run_batch(self._stepper, live, items, shrinks=self.executor == "compact", sync_every=self._sync_every,
                         clock=self._clock)

    def _read(self, source: Source, session: Session, ahead: int | None = None) -> Iterator[tuple[int, Result]]:
        """Queue what the stream gives, up to two batches; what is no input is answered at once, with its error.

        No more than that is read in one go, so that a stream of bad inputs neither stops the good ones nor piles up.
        """
        ahead = 2 * self.slots if ahead is None else ahead
        for _ in range(ahead - session.scheduler.waiting):
            read = source.next()
            if read is None:
                return
            place, request = read
            try:
                session.submit(request.inputs, (place, request.key), request.depth, request.seconds)
            except FAILURES as error:
                yield place, Result(request.key, None, 0, None, str(error))

    def _session(self, max_queue: int | None, signature: Signature) -> Session:
        return Session(self._stepper, self._ladder, signature, max_queue=max_queue, sync_every=self._sync_every,
                       watch=self._watch, clock=self._clock)


def _is_single(inputs: Inputs, signature: Signature) -> bool:
    """Whether this is one input without a batch."""
    return [tuple(part.shape) for part in leaves(inputs)] == [part.shape for part in signature.parts]


def _check_parts(model: Any, rule: Any) -> None:
    """Refuse what is no model of ours, or no stopping rule that it can follow."""
    if not isinstance(model, IterativeModel):
        raise ValueError(f"an engine takes a model with begin, step and read, such as frost.Frost, got "
                         f"{type(model).__name__}; frost.iterate makes one of any recurrence.")
    signal = getattr(rule, "signal", None)
    if not isinstance(signal, Signal):
        raise ValueError(f"an engine takes a stopping rule, such as calibration.at_mean_depth(4), "
                         f"frost.stop_when(confidence=0.9) or frost.AtDepth(4), got {type(rule).__name__}.")
    if device_of(model).type == "meta":
        raise ValueError("the model is on the device 'meta' and has no weights; build or load it on a real one.")
