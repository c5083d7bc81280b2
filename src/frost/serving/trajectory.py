"""`POST /runs/NAME/trajectory`: what a run answers after each step, for one input; and what its page shows.

All steps are computed, by the model as it is, in one thread beside the engine, whose session goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from frost.core.block import FAILURES
from frost.core.inputs import Inputs, stacked, to_device
from frost.core.precision import device_of, dtype_of
from frost.core.trajectory import Trajectory
from frost.halting.signals import SIGNALS, along
from frost.page.build import facts_of
from frost.runtime.live import DIVERGED
from frost.serving.asks import JSON, Ask, ClientGone, Refusal, Reply, reply_json

if TYPE_CHECKING:
    from frost.serving.served import ServedRun

MOST_NUMBERS = 2**18    # in all outputs of a trajectory
MOST_WAITING = 8        # of all runs together
PAUSE = 1               # seconds until what was refused may come again
Found = TypeVar("Found")


class Beside:
    """One thread for what is too slow for the event loop, and a short queue in front of it."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "frost-trajectory")
        self._computing: set[Future[Any]] = set()    # and what waits, also for clients that have gone

    @property
    def waiting(self) -> int:
        """Those that have no answer yet."""
        return len(self._computing)

    async def compute(self, ask: Ask, work: Callable[[], Found]) -> Found:
        """What the work gives, within the request's deadline and while its client is there."""
        if self.waiting >= MOST_WAITING:
            raise Refusal(429, f"{MOST_WAITING} trajectories are being computed; come again.",
                          ("retry-after", str(PAUSE)))
        computing = self._thread.submit(work)
        self._computing.add(computing)
        computing.add_done_callback(self._computing.discard)    # maybe long after its request has been given up
        future = asyncio.wrap_future(computing)
        left = max(0.0, ask.limits.deadline - (time.monotonic() - ask.arrived))
        with ask.leaving() as gone:
            await asyncio.wait((future, gone), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if future.done():
                return future.result()
            future.cancel()
            if gone.done():
                raise ClientGone
        raise Refusal(504, f"there is no answer after {ask.limits.deadline:g} s.")

    def close(self) -> None:
        """Begin nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)


async def trajectory(served: ServedRun, ask: Ask, beside: Beside) -> Reply:
    """The output, the score and the signals after each step, from the first to the last."""
    if ask.query():
        raise Refusal(422, "all steps are computed, so there is no budget to name; leave the query out.")
    decoded = await served.reader.read(ask, await ask.body())
    if decoded.fields:
        raise Refusal(422, "all steps are computed, so there is no budget to name; send only the input.")
    if len(decoded.inputs) != 1:
        raise Refusal(422, f"a trajectory is of one input, got {len(decoded.inputs)}; send several requests.")
    depth = served.run.model.depth
    if depth * math.prod(served.shape) > MOST_NUMBERS:
        raise Refusal(413, f"{depth} answers of {math.prod(served.shape):,} numbers each are more than the "
                           f"{MOST_NUMBERS:,} that a trajectory may hold; /predict gives the last one.")
    try:
        inputs = served.signature.fitted(decoded.inputs[0], dtype_of(served.run.model))
        return Reply(200, await beside.compute(ask, lambda: _computed(served, inputs)), JSON)
    except FAILURES as error:    # the input's fault, as in /predict
        raise Refusal(422, str(error)) from None


async def page_facts(served: ServedRun, ask: Ask, beside: Beside) -> Reply:
    """What the page shows of a run: its budgets, its examples and words; or why it has nothing to show."""
    if served.facts is None:
        served.facts = await beside.compute(ask, lambda: _facts(served))
    return reply_json(served.facts)


def _computed(served: ServedRun, inputs: Inputs) -> bytes:
    """A trajectory as JSON; in the thread."""
    model = served.run.model
    with torch.no_grad():
        batch = to_device(stacked([inputs]), device_of(model), dtype_of(model))
        found = model(batch, None, keep_states=any(SIGNALS[name].looks_at_states for name in _signals(served)))
        signals = {name: along(SIGNALS[name], found.outputs, found.score_logits, found.states, found.mask)[0].tolist()
                   for name in _signals(served)}
    if not (_is_finite(found.outputs) and _is_finite(found.score_logits)):
        raise ValueError(f"{DIVERGED}.")
    return json.dumps({"run": served.name, "steps": _steps(found, signals, model.has_score)}, allow_nan=False,
                      separators=(",", ":")).encode()


def _steps(found: Trajectory, signals: dict[str, list[float]], has_score: bool) -> list[dict[str, Any]]:
    outputs, scores = found.outputs[0].float().tolist(), found.scores[0].float().tolist()
    return [{"step": place + 1, "output": output, "score": scores[place] if has_score else None,
             "signals": {name: values[place] if math.isfinite(values[place]) else None
                         for name, values in signals.items()}}
            for place, output in enumerate(outputs)]


def _signals(served: ServedRun) -> list[str]:
    """The signals that a run's calibration compared, its page's budgets among them."""
    calibration = served.run.calibration
    return [] if calibration is None else list(calibration.signals)


def _is_finite(values: Tensor) -> bool:
    return bool(torch.isfinite(values).all())


def _facts(served: ServedRun) -> dict[str, Any]:
    """Facts for the page, or the sentence that says why there are none; in the thread."""
    try:
        return facts_of(served.run, served.name, place="server")[0]
    except ValueError as error:
        return {"name": served.name, "missing": str(error)}
