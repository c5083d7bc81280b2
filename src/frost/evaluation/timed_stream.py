"""A stream of images through an engine, each with its own depth, and the clock beside it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from frost.core.precision import device_of, synchronize
from frost.halting.cost import Cost
from frost.runtime.engine import Engine
from frost.runtime.stream import Request


class Timed(NamedTuple):
    """A stream that ran."""

    seconds: float
    until_empty: float     # seconds until nothing waited any more
    done_then: float       # images' worth of work done by then
    flops: float           # that ran, for the whole stream
    latencies: NDArray[np.float64]


def timed(engine: Engine, images: Tensor, depths: NDArray[np.int64], cost: Cost) -> Timed:
    """Run a stream of images, each with its own depth, and watch the clock."""
    count = len(depths)
    read, answered = np.zeros(count), np.zeros(count)
    cost = cost if engine.caches_first else Cost(cost.once, cost.step, cost.step)
    need = cost.at(float(depths.mean()))
    at_end: list[float] = []

    def stream() -> Iterator[Request]:
        for place, depth in enumerate(depths):
            read[place] = time.perf_counter()
            yield Request(images[place % len(images)], place, int(depth))
        work = engine.work
        at_end[:] = time.perf_counter(), ((work.begun_for - before.begun_for) * cost.at(1)
                                          + (work.stepped_for - before.stepped_for) * cost.step)

    before, started = engine.work, time.perf_counter()
    for result in engine.run(stream(), order="finish"):
        answered[result.key] = time.perf_counter()
    synchronize(device_of(engine.model))
    seconds = time.perf_counter() - started
    flops = (engine.work.begun - before.begun) * cost.at(1) + (engine.work.stepped - before.stepped) * cost.step
    if engine.executor != "refill" or at_end[0] - started < seconds / 4:    # read whole before it began
        return Timed(seconds, seconds, count, flops, answered - read)
    return Timed(seconds, at_end[0] - started, at_end[1] / need, flops, answered - read)
