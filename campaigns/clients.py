"""Servers as processes of their own, and clients that load them: for the campaigns and benchmarks of `frost serve`.

`load` sends requests over plain sockets, in a closed loop or in an open one: there a request is due at its own time
whatever the server does, and its seconds count from then.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

HERE = "127.0.0.1"
START, END = 120.0, 30.0        # seconds that a server has to start, and to end
BROKEN = 0                      # status of a request whose connection broke
REFUSED = b"refused"            # its body where there was no connection at all


class Got(NamedTuple):
    """One request: which body, what came, and how long that took from when it was due."""

    place: int
    status: int
    seconds: float
    body: bytes
    at: float = 0.0     # seconds from the beginning of the load until the answer

    @property
    def answer(self) -> dict[str, Any]:
        """The body as JSON."""
        found: dict[str, Any] = json.loads(self.body)
        return found


class Connection(asyncio.Protocol):
    """One request at a time over a connection that stays."""

    def __init__(self) -> None:
        self.buffer = b""
        self.waiter: asyncio.Future[tuple[int, bytes]] | None = None
        self.transport: Any = None
        self.is_closed = False

    def connection_made(self, transport: Any) -> None:
        """The connection is there."""
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone; whoever waits hears of it."""
        self.is_closed = True
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result((BROKEN, b""))

    def data_received(self, data: bytes) -> None:
        """A part of an answer, or all of it."""
        self.buffer += data
        head, split, rest = self.buffer.partition(b"\r\n\r\n")
        if split and self.waiter is not None and not self.waiter.done():
            size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
            if len(rest) >= size:
                self.buffer = b""
                self.waiter.set_result((int(head[9:12]), rest[:size]))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body."""
        if self.is_closed:
            return BROKEN, b""
        self.waiter = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.waiter


def request_of(body: bytes, kind: str, path: str = "/predict", more: bytes = b"") -> bytes:
    """A request's bytes."""
    return b"POST %s HTTP/1.1\r\nhost: a\r\ncontent-type: %s\r\n%scontent-length: %d\r\n\r\n%s" % (
        path.encode(), kind.encode(), more, len(body), body)


@contextmanager
def uncollected() -> Iterator[None]:
    """No collections meanwhile: with the answers of a minute kept, one holds clients up for a quarter of a second."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Load:
    """Some requests over and over, to one port.

    Args:
        keep: whether answers are kept; counts and times always are.
        spoil: the share of requests whose client goes away before the answer.
    """

    def __init__(self, port: int, requests: Sequence[bytes], *, connections: int = 64, keep: bool = True,
                 spoil: float = 0.0, seed: int = 0, watch: Callable[[Got], None] | None = None) -> None:
        self.port, self.requests, self.connections, self.keep, self.spoil = port, requests, connections, keep, spoil
        self.chance, self.found, self.watch = random.Random(seed), list[Got](), watch
        self.idle: list[Connection] = []
        self.room = asyncio.Semaphore(connections)
        self.began = 0.0

    async def closed(self, seconds: float) -> list[Got]:
        """Each connection asks again as soon as it has its answer."""
        self.began = time.perf_counter()

        async def again(first: int) -> None:
            place = first
            while time.perf_counter() < self.began + seconds:
                await self.one(place, time.perf_counter())
                place += self.connections
        await asyncio.gather(*(again(first) for first in range(self.connections)))
        return self._ended()

    async def open(self, seconds: float, rate: float) -> list[Got]:
        """Requests at random times, so many a second; those that find no connection wait in the client."""
        self.began = due = time.perf_counter()
        tasks: set[asyncio.Task[None]] = set()
        for place in range(10**9):
            due += self.chance.expovariate(rate)
            if due > self.began + seconds:
                break
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            task = asyncio.create_task(self.one(place, due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
        return self._ended()

    async def one(self, place: int, due: float) -> None:
        """One request."""
        place %= len(self.requests)
        async with self.room:
            connection = self.idle.pop() if self.idle else None
            if connection is None or connection.is_closed:
                try:
                    connection = (await asyncio.get_running_loop().create_connection(Connection, HERE, self.port))[1]
                except OSError:
                    self._note(Got(place, BROKEN, time.perf_counter() - due, REFUSED))
                    return
            if self.spoil and self.chance.random() < self.spoil:
                connection.transport.write(self.requests[place])
                await asyncio.sleep(self.chance.random() * 0.02)
                connection.transport.abort()
                return
            status, body = await connection.ask(self.requests[place])
            now = time.perf_counter()
            self._note(Got(place, status, now - due, body if self.keep else b"", now - self.began))
            if not connection.is_closed:
                self.idle.append(connection)

    def _note(self, got: Got) -> None:
        self.found.append(got) if self.watch is None else self.watch(got)

    def _ended(self) -> list[Got]:
        for connection in self.idle:
            connection.transport.close()
        self.idle = []
        return self.found


class Process:
    """A server as a process of its own, on a free port of 127.0.0.1; its log goes to a file."""

    def __init__(self, words: Sequence[str], environment: dict[str, str] | None = None) -> None:
        self.log = Path(tempfile.mkstemp(suffix=".log")[1])
        with self.log.open("wb") as stream:
            self.process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL, stderr=stream,
                                            env={**os.environ, **(environment or {})})
        self.pid, until = self.process.pid, time.monotonic() + START
        while (port := self._port()) is None:
            if self.process.poll() is not None or time.monotonic() > until:
                self.end()
                raise RuntimeError(f"the server did not start: {self.text()[-800:]}")
            time.sleep(0.05)
        self.port, self.url = port, f"http://{HERE}:{port}"

    def _port(self) -> int | None:
        for line in self.text().splitlines():
            if '"ready"' in line and line.endswith("}"):
                return int(json.loads(line)["url"].rsplit(":", 1)[1])
        return None

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()
        self.log.unlink(missing_ok=True)

    def text(self) -> str:
        """The log so far."""
        return self.log.read_text(errors="replace")

    @property
    def tracebacks(self) -> int:
        """How often the log has one, or says that something went wrong inside."""
        text = self.text()
        return text.count("Traceback (most recent") + text.count('"failure"')

    def status(self, name: str) -> int:
        """A number of /proc/PID/status: VmRSS in kB, Threads."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise RuntimeError(f"/proc/{self.pid}/status has no {name}.")

    @property
    def megabytes(self) -> float:
        """Resident memory."""
        return self.status("VmRSS") / 1024

    @property
    def descriptors(self) -> int:
        """Open files and sockets."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def get(self, path: str) -> Any:
        """JSON of a route."""
        with urllib.request.urlopen(self.url + path, timeout=30) as stream:
            return json.load(stream)

    def closed(self, requests: Sequence[bytes], seconds: float, **how: Any) -> list[Got]:
        """What a closed loop finds."""
        with uncollected():
            return asyncio.run(Load(self.port, requests, **how).closed(seconds))

    def open(self, requests: Sequence[bytes], seconds: float, rate: float, **how: Any) -> list[Got]:
        """What an open loop finds."""
        with uncollected():
            return asyncio.run(Load(self.port, requests, **{"connections": 400, **how}).open(seconds, rate))

    def end(self) -> int:
        """Its exit status after SIGTERM; one that does not end is killed."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(END)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class Served(Process):
    """`frost serve` of one run or more."""

    def __init__(self, *words: str) -> None:
        super().__init__(["-m", "frost", "serve", *words, "--port", "0", "--log", "json"])


class Plain(Process):
    """The naive server beside it, `plain_server.py`: the control."""

    def __init__(self, run: str, *words: str) -> None:
        super().__init__([str(Path(__file__).parent / "plain_server.py"), run, *words])


def capacity(server: Process, requests: Sequence[bytes], seconds: float) -> float:
    """Answers a second with 64 connections in a closed loop, warm."""
    server.closed(requests, min(2.0, seconds))
    found = server.closed(requests, seconds, keep=False)
    return sum(got.status == 200 for got in found) / max(got.at for got in found)


def quantile(found: Sequence[Got], share: float) -> float:
    """Of the seconds of the answers that are 200; infinity where there are none."""
    times = sorted(got.seconds for got in found if got.status == 200)
    return times[min(len(times) - 1, int(share * len(times)))] if times else float("inf")
