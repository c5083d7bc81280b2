"""What is served: runs by name, their start and end, reloading, and a look at them every second."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any

from frost.core.interpreter import share_interpreter
from frost.serving.asks import Refusal
from frost.serving.limits import LIMITS, Limits, check_keys
from frost.serving.log import Log
from frost.serving.metrics import Metrics
from frost.serving.served import ServedRun
from frost.serving.trajectory import Beside

LAST_STEP = 0.5    # seconds that a step under way has to end when the process does


class Service:
    """Runs by name; the first one answers where none is named.

    Args:
        reopen: makes a run anew from its folder, which is verified; None where runs cannot be reloaded.
        ended: is called when an engine has died: the process should end, so that it is started again.
    """

    def __init__(self, runs: list[ServedRun], *, keys: frozenset[bytes] = frozenset(), limits: Limits = LIMITS,
                 log: Log | None = None, reopen: Callable[[str], ServedRun] | None = None) -> None:
        check_keys(keys)
        self.runs = {served.name: served for served in runs}
        self.keys, self.limits, self.log = keys, limits, log or Log()
        self.metrics = Metrics(lambda: self.runs.values())
        self.started = time.time()
        self.is_draining = False
        self.ended: Callable[[], None] = lambda: None
        self.beside = Beside()
        self._reopen = reopen
        self._tasks: set[asyncio.Task[Any]] = set()
        self._drifted: set[str] = set()

    def run_named(self, name: str | None) -> ServedRun:
        """A run by name, the first one without."""
        if name is None:
            return next(iter(self.runs.values()))
        if name not in self.runs:
            raise Refusal(404, f"there is no run of that name; there are {', '.join(self.runs)}.")
        return self.runs[name]

    @property
    def is_ready(self) -> bool:
        """Whether every run takes requests."""
        return not self.is_draining and all(served.engine.progress.is_ready for served in self.runs.values())

    async def start(self) -> None:
        """Start the engines, let each answer once, and look after them."""
        for served in self.runs.values():
            await self._start(served)
        self.spawn(self._look_after())

    async def stop(self) -> None:
        """End the engines; what is not answered fails."""
        self.is_draining = True
        for task in list(self._tasks):
            task.cancel()
        self.beside.close()
        await asyncio.gather(*(served.engine.close(LAST_STEP) for served in self.runs.values()))

    async def reload(self) -> None:
        """Replace each run by what lies in its folder now; one that does not verify stays as it is."""
        if self._reopen is None:
            return
        for name in list(self.runs):
            try:
                fresh = await asyncio.to_thread(self._reopen, name)
                await self._start(fresh)
            except (ValueError, OSError) as error:
                self.log("reload failed", "error", run=name, error=str(error))
                continue
            old, self.runs[name] = self.runs[name], fresh
            self._drifted.discard(name)
            self.log("reloaded", run=name)
            self.spawn(self._retire(old))

    def spawn(self, work: Any) -> None:
        """A task that is kept until it ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self, served: ServedRun) -> None:
        """Start an engine, warm."""
        served.shape = await asyncio.to_thread(served.engine.warm_up, served.signature)
        if served.watch is not None:
            served.watch.begin_anew()    # what it was warmed with is no input
        served.engine.start()

    async def _retire(self, served: ServedRun) -> None:
        """Let a run that has been replaced answer what it has, and what is still being sent to it."""
        await asyncio.sleep(self.limits.body_seconds)
        await served.engine.drain(self.limits.deadline)
        await served.engine.close()
        gc.unfreeze()    # or it would never be collected
        share_interpreter()

    async def _look_after(self) -> None:
        """Every second: how many answers, does it live, has it drifted."""
        before: dict[str, tuple[Any, int]] = {}
        while True:
            await asyncio.sleep(1.0)
            for served in list(self.runs.values()):
                answered, (engine, last) = served.engine.counts.answered, before.get(served.name, (None, 0))
                served.rates.append(answered - last if engine is served.engine else 0)
                before[served.name] = (served.engine, answered)
                progress = served.engine.progress
                if progress.state == "dead":
                    self.log("engine died", "error", run=served.name, error=progress.error)
                    self.ended()
                    return
                self._look_at_drift(served)

    def _look_at_drift(self, served: ServedRun) -> None:
        """Say it once when inputs begin to differ from those of the calibration, and once when that ends."""
        drift = served.drift
        if drift is None or drift.has_drifted == (served.name in self._drifted):
            return
        if drift.has_drifted:
            self._drifted.add(served.name)
            self.log("drift", "warning", run=served.name, inputs=drift.inputs, distance=drift.distance,
                     limit=drift.limit, advice=f"inputs are unlike those of the calibration; on inputs like these: "
                                               f"{served.recalibrate}")
        else:
            self._drifted.discard(served.name)
            self.log("drift over", run=served.name, inputs=drift.inputs)
