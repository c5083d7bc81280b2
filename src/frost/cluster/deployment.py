"""`frost.cluster.deployment`: the service of `frost serve` as a Ray Serve deployment, an engine in each replica.

A request is one call of a replica, never part of a batch that waits for its slowest: the engine mixes requests by
itself. A replica is healthy as long as its engine moves; one whose engine has died ends, and Ray starts another.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frost.checkpoint import load
from frost.cluster.dataset import task_of
from frost.cluster.identity import check_same, identity
from frost.cluster.joining import needed
from frost.cluster.worker import Task
from frost.core.interpreter import share_interpreter
from frost.core.malloc import keep_pages
from frost.halting.budget import Budget
from frost.runtime.budgets import UnderLoad

if TYPE_CHECKING:
    from ray.serve import Application
    from starlette.requests import Request

    from frost.serving.asks import Message

ONGOING = 8          # requests of a replica for each slot: more than its engine queues, so that the engine refuses
QUEUED = 4           # requests for each slot that may wait in front of all replicas, while these are full or start
LONGEST = 45.0       # seconds that a replica has to answer what it took when it is not needed any more
HEALTH = 5.0         # seconds between two looks, and seconds that one may take
QUIET = ("dead", "stalled")


def deployment(run: Path | str, *, name: str = "frost", slots: int = 64, threads: int = 1,
               replicas: int | tuple[int, int] = (1, 4), quantile: float | None = None, mean_depth: float | None = None,
               accuracy_loss: float | None = None, depth: int | None = None, under_load: UnderLoad = "shed",
               floor: float | None = None, keys: Iterable[str] = ()) -> Application:
    """A run as a Ray Serve application, `serve.run(frost.cluster.deployment(run))`: routes and errors of `frost serve`.

    Args:
        run: a folder that every machine sees, the name of a run that comes with the package, or an address on the hub.
        slots: inputs that run together in a replica.
        threads: of PyTorch, and processors that Ray keeps for a replica.
        replicas: how many, or the fewest and the most: then Ray adds one when there are more requests than slots.
        keys: requests have to bring one, if there are any; each of 16 characters or more.
    """
    serve = needed("ray.serve")
    needed("uvicorn")
    from frost.serving.limits import check_keys
    from frost.serving.served import EngineOptions

    if isinstance(keys, str):
        raise ValueError("keys is a list of keys, not one text; write keys=[…].")
    known = frozenset(key.encode() for key in keys)
    check_keys(known)
    budget = Budget(quantile, mean_depth, accuracy_loss, depth)
    task = task_of(load(run), run, budget, slots, threads)
    options = EngineOptions(slots=slots, budget=budget, under_load=under_load, floor=floor)
    scaling: dict[str, Any] = {"num_replicas": replicas}
    if not isinstance(replicas, int):
        fewest, most = replicas
        scaling = {"autoscaling_config": {"min_replicas": fewest, "max_replicas": most, "initial_replicas": fewest,
                                          "target_ongoing_requests": slots}}
    made = serve.deployment(
        Replica, name=name, max_ongoing_requests=ONGOING * slots, max_queued_requests=QUEUED * slots,
        backpressure_config={"status_code": 429, "retry_after_s": 1.0}, graceful_shutdown_timeout_s=LONGEST,
        health_check_period_s=HEALTH, health_check_timeout_s=HEALTH,
        ray_actor_options={"num_cpus": threads}, **scaling)
    return made.bind(task, name, options, known)


class Replica:
    """One process of a deployment."""

    async def __init__(self, task: Task, name: str, options: Any, keys: frozenset[bytes]) -> None:  # type: ignore[misc]
        import torch  # Ray awaits the constructor, so that a replica is there when it has answered once

        from frost.serving.app import App
        from frost.serving.served import serve_model
        from frost.serving.service import Service

        keep_pages()
        torch.set_num_threads(task.threads)
        run = load(task.run, device="auto")
        check_same(identity(run), task.identity, task.run)
        self.service = Service([serve_model(name, run, options)], keys=keys)
        self.service.ended = lambda: os._exit(1)
        self.app = App(self.service)
        await self.service.start()
        share_interpreter()

    async def __call__(self, request: Request) -> Any:
        """Answer one request, as `frost serve` does."""
        from starlette.responses import Response

        sent: list[Message] = []

        async def keep(message: Message) -> None:
            sent.append(message)
        await self.app(request.scope, request.receive, keep)
        if not sent:
            return Response(status_code=499)    # the client has gone, nobody reads it
        headers = {key.decode(): value.decode() for key, value in sent[0]["headers"]}
        headers.pop("x-request-id", None)       # Ray's proxy has made it, and sends it itself
        return Response(b"".join(message.get("body", b"") for message in sent[1:]), sent[0]["status"], headers)

    async def check_health(self) -> None:
        """Raise if an engine does not move; Ray then replaces the replica."""
        for served in self.service.runs.values():
            progress = served.engine.progress
            if progress.state in QUIET:
                raise RuntimeError(f"the engine is {progress.state}: {progress.error}")

    async def __del__(self) -> None:
        """What was taken is answered by now: Ray has waited for it."""
        if hasattr(self, "service"):
            await self.service.stop()
