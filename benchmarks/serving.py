"""`python benchmarks/serving.py RUN`: throughput behind HTTP beside the engine's own, and what a queue that grows does.

An open loop sends 1.5 times what the server answers at full depth, with a deadline of five times the median at half
load: full depth and `shed`, then `shallower`. Answers are compared with the labels of the run's own test inputs.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import random
import statistics
import subprocess
import sys
import time
from typing import Any, NamedTuple

import numpy as np

import frost
from frost.data.catalogue import BUNDLED
from frost.data.splits import as_float


class Got(NamedTuple):
    """One request: when it should have been sent, what came, and how long that took from then."""

    place: int
    status: int
    seconds: float
    answer: dict[str, Any]


class Connection(asyncio.Protocol):
    """One request at a time over a connection that stays."""

    def __init__(self) -> None:
        self.buffer = b""
        self.waiter: asyncio.Future[tuple[int, bytes]] | None = None
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        """The connection is there."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """A part of an answer, or all of it."""
        self.buffer += data
        head, split, rest = self.buffer.partition(b"\r\n\r\n")
        if split:
            size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            if len(rest) >= size and self.waiter is not None:
                self.buffer = b""
                self.waiter.set_result((int(head[9:12]), rest[:size]))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body."""
        self.waiter = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.waiter


async def load(port: int, bodies: list[bytes], path: str, seconds: float, rate: float | None,
               connections: int = 64) -> list[Got]:
    """Requests in a closed loop, or in an open one at a rate; those that wait for a connection wait in the client."""
    loop = asyncio.get_running_loop()
    found: list[Got] = []
    idle: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(connections if rate is None else 400):
        idle.put_nowait((await loop.create_connection(Connection, "127.0.0.1", port))[1])

    async def one(place: int, due: float) -> None:
        connection = await idle.get()
        body = bodies[place % len(bodies)]
        status, answer = await connection.ask(
            b"POST %s HTTP/1.1\r\nhost: a\r\ncontent-type: application/x-npy\r\ncontent-length: %d\r\n\r\n%s"
            % (path.encode(), len(body), body))
        found.append(Got(place % len(bodies), status, time.perf_counter() - due, json.loads(answer)))
        idle.put_nowait(connection)

    async def again(first: int) -> None:
        for place in range(first, 10**9, connections):
            if time.perf_counter() > began + seconds:
                return
            await one(place, time.perf_counter())

    began, chance = time.perf_counter(), random.Random(0)
    due, tasks = began, []
    if rate is None:
        tasks = [loop.create_task(again(first)) for first in range(connections)]
    while rate is not None and due < began + seconds:
        due += chance.expovariate(rate)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(loop.create_task(one(len(tasks), due)))
    await asyncio.gather(*tasks)
    while not idle.empty():
        idle.get_nowait().transport.close()
    return found


class Served:
    """`frost serve` as a process of its own."""

    def __init__(self, run: str, *words: str) -> None:
        self.process = subprocess.Popen([sys.executable, "-m", "frost", "serve", run, "--port", "0", "--log", "json",
                                         *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.port = next(int(line["url"].rsplit(":", 1)[1]) for line in map(json.loads, self.process.stderr)
                         if line["event"] == "ready")
        self.drain = subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=subprocess.DEVNULL)

    def run(self, *given: Any) -> list[Got]:
        """What `load` finds."""
        return asyncio.run(load(self.port, *given))

    def end(self) -> None:
        """Drain it."""
        self.process.terminate()
        self.process.wait(20)
        self.drain.wait(20)


def shares(found: list[Got], labels: np.ndarray, deadline: float) -> str:
    """In time, refused, right, and the mean depth."""
    good = [got for got in found if got.status == 200]
    timely = sum(got.seconds <= deadline for got in good) / len(found)
    right = np.mean([np.array_equal(got.answer.get("labels", got.answer.get("label")), labels[got.place])
                     for got in good])
    depth = statistics.fmean(got.answer["depth"] for got in good)
    refused = sum(got.status == 429 for got in found) / len(found)
    return (f"{100 * timely:6.1f} % in time  {100 * refused:5.1f} % refused  {100 * right:6.2f} % of answers right  "
            f"mean depth {depth:5.2f}")


def main() -> None:
    """Measure one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", choices=sorted(BUNDLED))
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--floor", type=float, required=True)
    options = parser.parse_args()
    data = BUNDLED[options.run]().test
    inputs, labels = as_float(data.images[:2000]), data.labels[:2000].numpy()
    bodies = []
    for one in inputs.numpy().astype(np.float32):
        stream = io.BytesIO()
        np.save(stream, one)
        bodies.append(stream.getvalue())

    run = frost.load(options.run)
    engine = frost.Engine(run.model, frost.AtDepth(run.model.depth), slots=64, ladder=True,
                          signals=tuple(run.calibration.signals))
    list(engine.run(inputs[:200]))
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < options.seconds / 2:
        count += len(list(engine.run(inputs)))
    own = count / (time.perf_counter() - began)

    server = Served(options.run, "--backend", "eager")
    server.run(bodies, "/predict", 2.0, None)
    closed = server.run(bodies, "/predict", options.seconds, None)
    capacity = len(closed) / options.seconds
    print(f"{options.run}: engine {own:.0f}/s, behind HTTP {capacity:.0f}/s with 64 connections: "
          f"{capacity / own:.2f}", flush=True)
    half = sorted(got.seconds for got in server.run(bodies, "/predict", options.seconds, capacity / 2))
    median, slow = half[len(half) // 2], half[int(0.99 * len(half))]
    deadline = 5 * median
    print(f"half load: p50 {1000 * median:.1f} ms, p99 {1000 * slow:.1f} ms; deadline {1000 * deadline:.1f} ms")
    path = f"/predict?deadline_ms={800 * deadline:.3f}"    # the server's is shorter: the answer has to come back, too
    print("shed      ", shares(server.run(bodies, "/predict", options.seconds, 1.5 * capacity), labels, deadline))
    print("  deadline", shares(server.run(bodies, path, options.seconds, 1.5 * capacity), labels, deadline))
    print("idle      ", shares(server.run(bodies, "/predict", options.seconds / 2, capacity / 10), labels, deadline))
    server.end()
    server = Served(options.run, "--backend", "eager", "--under-load", "shallower", "--floor", str(options.floor))
    server.run(bodies, "/predict", 2.0, None)
    print("shallower ", shares(server.run(bodies, "/predict", options.seconds, 1.5 * capacity), labels, deadline))
    print("  deadline", shares(server.run(bodies, path, options.seconds, 1.5 * capacity), labels, deadline))
    server.end()


if __name__ == "__main__":
    main()
