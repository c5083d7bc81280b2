"""`POST /predict`: the answers for the inputs of one request."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from frost.halting.budget import Budget
from frost.runtime.async_engine import EngineStopped
from frost.runtime.engine_thread import DeadlinePassed, Outcome
from frost.runtime.scheduler import QueueFull
from frost.serving.answers import answer_of
from frost.serving.asks import JSON, Ask, ClientGone, Refusal, Reply, reply_json

if TYPE_CHECKING:
    from frost.serving.served import ServedRun

BUDGETS = Budget._fields
FIELDS = (*BUDGETS, "deadline_ms")


async def predict(served: ServedRun, ask: Ask) -> Reply:
    """Decode, queue, wait, and answer."""
    asked = ask.query()
    if asked.pop("run", served.name) != served.name:
        raise Refusal(422, "the path names one run and the query another; name it once.")
    body = await ask.body()
    names_none = not set(asked) & set(BUDGETS) and not ask.header(b"content-type").startswith(JSON)
    with Refusing():
        served.engine.check_room(served.engine.default.limit if names_none else 1)    # a full queue costs no decoding
    async with Moving(ask):
        decoded = await served.reader.read(ask, body)
        both = sorted(set(asked) & set(decoded.fields))
        if both:
            raise Refusal(422, f"{', '.join(both)} came in the query and in the body; say it once.")
        outcomes = await answered(served, ask, decoded.inputs, {**asked, **decoded.fields})
    answers = [answer_of(outcome, served.gives, served.names) if isinstance(outcome, Outcome) else
               {"error": str(outcome)} for outcome in outcomes]
    if decoded.is_batch:
        return reply_json({"run": served.name, "answers": answers})
    if "error" in answers[0]:
        raise Refusal(422, f"{answers[0]['error']}.")
    return reply_json({"run": served.name, **answers[0]})


async def answered(served: ServedRun, ask: Ask, inputs: Sequence[Any],
                   fields: dict[str, Any]) -> list[Outcome | DeadlinePassed]:
    """The outcomes for some inputs, all under one budget and deadline; refusals as the table of status codes has them.

    If the client goes away meanwhile, all of them are given up.
    """
    budget, seconds = budget_of(fields, ask.limits.deadline)
    engine = served.engine
    with Refusing():
        grant = engine.default if budget is None else await engine.grant(budget)
        if (steps := grant.limit * len(inputs)) > engine.max_queue:
            raise Refusal(413, f"{len(inputs)} inputs may take {steps:,} steps, more than the queue ever holds, "
                               f"{engine.max_queue:,}; send several requests.")
        left = max(0.0, seconds - (time.monotonic() - ask.arrived))
        futures = engine.enqueue(inputs, grant, left)
    outcomes = await _settled(futures, ask)
    ask.notes["depth"] = sum(outcome.depth for outcome in outcomes if isinstance(outcome, Outcome)) / len(outcomes)
    with Refusing():
        for outcome in outcomes:
            if isinstance(outcome, (ValueError, EngineStopped)):
                raise outcome
    if all(isinstance(outcome, DeadlinePassed) for outcome in outcomes):
        raise Refusal(504, str(outcomes[0]))
    return [outcome for outcome in outcomes if isinstance(outcome, (Outcome, DeadlinePassed))]


class Moving:
    """No request takes longer than twice the longest deadline, whatever hangs: its engine, or what decodes."""

    def __init__(self, ask: Ask) -> None:
        self._timeout = asyncio.timeout(2 * ask.limits.deadline)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        try:
            await self._timeout.__aexit__(*error)
        except TimeoutError:
            raise Refusal(504, "there is no answer; the engine does not move.") from None


class Refusing:
    """What the engine says against a request, as the status code that it is."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, QueueFull):
            raise Refusal(429, str(error), ("retry-after", str(max(1, math.ceil(error.seconds))))) from None
        if isinstance(error, EngineStopped):
            raise Refusal(503, str(error)) from None
        if isinstance(error, ValueError):
            raise Refusal(422, str(error)) from None


async def _settled(futures: Sequence[asyncio.Future[Outcome]], ask: Ask) -> list[Outcome | BaseException]:
    """Wait for all, or until the client goes away."""
    def give_up(gone: asyncio.Future[None]) -> None:
        if not gone.cancelled():
            for future in futures:
                future.cancel()

    with ask.leaving() as gone:
        gone.add_done_callback(give_up)
        try:
            return [await _outcome(future) for future in futures]
        except asyncio.CancelledError:
            if gone.done() and not gone.cancelled():
                raise ClientGone from None
            raise
        finally:
            gone.remove_done_callback(give_up)
            for future in futures:
                future.cancel()    # done ones take no notice; for the others nobody waits any more


async def _outcome(future: asyncio.Future[Outcome]) -> Outcome | BaseException:
    try:
        return await future
    except (ValueError, DeadlinePassed, EngineStopped) as error:
        return error


def budget_of(fields: dict[str, Any], longest: float) -> tuple[Budget | None, float]:
    """The budget, None where none is named, and the deadline in seconds; anything else is a refusal."""
    for name in fields:
        if name not in FIELDS:
            raise Refusal(422, f"there is no '{name[:40]}'. Known: {', '.join(FIELDS)}.")
    numbers = {name: _number(name, value) for name, value in fields.items()}
    milliseconds = numbers.pop("deadline_ms", longest * 1000)
    if not 0 <= milliseconds <= longest * 1000:
        raise Refusal(422, f"deadline_ms must lie between 0 and {longest * 1000:g}, got {milliseconds:g}.")
    if not numbers:
        return None, milliseconds / 1000
    if len(numbers) > 1:
        raise Refusal(422, f"choose one of {', '.join(numbers)}.")
    (name, value), = numbers.items()
    named: dict[str, Any] = {name: value}
    if name == "depth" and value != int(value):
        raise Refusal(422, f"depth must be a whole number, got {value:g}.")
    return Budget(depth=int(value)) if name == "depth" else Budget(**named), milliseconds / 1000


def _number(name: str, value: Any) -> float:
    """A number from a query or from JSON."""
    try:
        number = float(value[:40] if isinstance(value, str) else value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise Refusal(422, f"{name} must be a number, got {str(value)[:40]!r}.")
    return number
