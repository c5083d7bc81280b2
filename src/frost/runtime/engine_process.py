"""An engine in a process of its own, for behind HTTP: reading requests takes the interpreter that steps would wait for.

The two ends of a socket exchange the messages of `wire`: inputs and what was given up in the one direction, answers and
counts in the other, each once a turn. `engine_child` is the other end.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import frost.directory
from frost.checkpoint import Run, weights_hash
from frost.core.inputs import Signature
from frost.core.precision import device_of
from frost.halting.budget import Budget
from frost.halting.drift import Watch
from frost.runtime.budgets import UnderLoad
from frost.runtime.engine import Work
from frost.runtime.engine_thread import Answers, Counts, DeadlinePassed, Outcome, Ticket
from frost.runtime.entrance import Packing
from frost.runtime.fastest import fastest_backend
from frost.runtime.wire import Incoming, grant_to_json, message, outputs_of
from frost.runtime.worker import Place, Worker

PIECE = 2**18              # bytes read at once
TOGETHER = 4               # inputs that are sent at once: the engine begins with them while others are still read
LONGEST_START = 600.0      # seconds until a process has its engine: some backends compile
SOURCES = Path(frost.directory.__file__).parents[1]


class Load(NamedTuple):
    """How budgets fall when many inputs come."""

    under_load: UnderLoad
    floor: float | None


class ProcessWorker(Worker):
    """A process that has read a saved run, and what is between it and this one.

    It is there, with its engine made and warm, when this has been made; what it cannot make is a ValueError.
    """

    def __init__(self, run: Run, place: Place, load: Load, is_calibrated: bool, watch: Watch | None = None) -> None:
        signature = run.model.signature
        if signature is None:
            raise ValueError(f"{run.path} does not say what one input looks like; calibrate it again.")
        self.counts, self.accepted = Counts(depths=[0] * run.model.depth), Packing(run.model, signature)
        self._watch, self._work, self._occupied = watch, Work(0, 0, 0, 0), 0
        self._tickets: dict[int, Ticket] = {}
        self._count = 0
        self._new: list[Ticket] = []
        self._gone: list[int] = []
        self._unsent: deque[memoryview] = deque()
        self._incoming = Incoming()
        self._error: str | None = None
        self._awaited: float | None = None    # since when nothing has come while it has inputs
        backend = fastest_backend(run.model, place.slots) if place.backend == "auto" else place.backend
        self._process, self._line = _started()
        hello = self._asked({
            "run": str(run.path), "weights": weights_hash(run.model), "is_calibrated": is_calibrated,
            "slots": place.slots, "backend": backend, "ladder": place.ladder,
            "device": device_of(run.model).type, "threads": torch.get_num_threads(), **load._asdict()})
        self.backend, self._shape = hello["backend"], tuple(hello["shape"])

    @property
    def work(self) -> Work:
        """What has been computed so far."""
        return self._work

    @property
    def occupied(self) -> int:
        """Slots in use."""
        return self._occupied

    @property
    def since(self) -> float | None:
        """When the step under way began, or the last thing was heard of a process that has inputs."""
        return self._awaited

    def warm_up(self, signature: Signature) -> tuple[int, ...]:
        """The shape of an output: it is warm."""
        return self._shape

    def start(self, deliver: Callable[[Answers], None], died: Callable[[str], None]) -> None:
        """Listen to it, in the running event loop."""
        self._loop, self._deliver, self._died = asyncio.get_running_loop(), deliver, died
        self._line.setblocking(False)
        self._loop.add_reader(self._line, self._read)

    def put(self, ticket: Ticket) -> None:
        """To the process, together with some of what else comes in this turn of the loop."""
        if not self._new and not self._gone:
            self._loop.call_soon(self._send)
        if not ticket.is_cancelled:
            self._new.append(ticket)
        elif self._tickets.pop(ticket.number, None) is not None:    # else it is among the new ones
            self._gone.append(ticket.number)
        if len(self._new) >= TOGETHER:
            self._send()

    def leave(self) -> None:
        """Let the process end with the step under way."""
        self._loop.remove_reader(self._line)
        self._loop.remove_writer(self._line)
        self._line.close()

    def join(self, seconds: float) -> None:
        """Wait until it has ended, and end it after so long."""
        self._line.close()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _asked(self, setup: dict[str, Any]) -> dict[str, Any]:
        """What the process answers to its setup."""
        self._line.settimeout(LONGEST_START)
        try:
            self._line.sendall(message(setup))
            while piece := self._line.recv(PIECE):
                for words, _ in self._incoming.add(piece):
                    if "error" in words:
                        raise ValueError(words["error"])
                    return words
        except OSError as error:
            reason: object = error
        except BaseException:
            self.join(0.0)
            raise
        else:
            reason = "it has ended"
        self.join(0.0)
        raise ValueError(f"the engine's process did not start: {reason}; what it said stands above.")

    def _send(self) -> None:
        """What has come in this turn."""
        new, gone, self._new, self._gone = self._new, self._gone, [], []
        if not new and not gone:
            return
        rows, places, grants = [], dict[int, int](), list[list[Any]]()
        for ticket in new:
            ticket.number = self._count = self._count + 1
            if ticket.is_cancelled:    # it is sent all the same: what it has taken of the queue has to be counted back
                gone.append(ticket.number)
            else:
                self._tickets[ticket.number] = ticket
            if id(ticket.grant) not in places:
                places[id(ticket.grant)] = len(grants)
                grants.append(grant_to_json(ticket.grant))
            rows.append([ticket.number, places[id(ticket.grant)], ticket.due])
        if self._awaited is None:
            self._awaited = time.monotonic()
        parts = [part for column in zip(*(ticket.inputs for ticket in new), strict=True) for part in column]
        for ticket in new:
            ticket.inputs = None
        was_empty = not self._unsent
        self._unsent.append(memoryview(message({"new": rows, "grants": grants, "gone": gone}, *parts)))
        if was_empty:
            self._write()

    def _write(self) -> None:
        """As much as the socket takes; the rest when it takes more."""
        while self._unsent:
            try:
                sent = self._line.send(self._unsent[0])
            except (BlockingIOError, InterruptedError):
                self._loop.add_writer(self._line, self._write)
                return
            except OSError:
                return    # the reader hears of it
            if sent < len(self._unsent[0]):
                self._unsent[0] = self._unsent[0][sent:]
            else:
                self._unsent.popleft()
        self._loop.remove_writer(self._line)

    def _read(self) -> None:
        """Answers and counts, or the process's end."""
        try:
            piece = self._line.recv(PIECE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            piece = b""
        if piece:
            for words, payload in self._incoming.add(piece):
                self._take(words, payload)
            return
        self._loop.remove_reader(self._line)
        self._loop.remove_writer(self._line)
        self._died(self._error or "its process has ended")

    def _take(self, words: dict[str, Any], payload: bytearray) -> None:
        if "died" in words:
            self._error = words["died"]
            return
        self.counts, self._occupied, self._work = Counts(**words["counts"]), words["occupied"], Work(*words["work"])
        seen, self._awaited = words["seen"], time.monotonic()
        if seen and self._watch is not None:
            self._watch.see(np.frombuffer(payload, np.int64, seen), np.frombuffer(payload, np.float64, seen, 8 * seen))
        if "done" in words:
            self._deliver(self._answers(words, payload[16 * seen:]))
        if not self._tickets:
            self._awaited = None

    def _answers(self, words: dict[str, Any], payload: bytearray) -> Answers:
        """The tickets and what came for them."""
        count, dtype = words.get("outputs", (0, "float32"))
        outputs = iter(outputs_of(payload, count, self._shape, getattr(torch, dtype)))
        answers: Answers = []
        for number, *rest in words["done"]:
            ticket = self._tickets.pop(number, None)    # None: given up meanwhile
            if len(rest) == 2:
                answer: Outcome | Exception = (DeadlinePassed if rest[0] else ValueError)(rest[1])
            else:
                depth, score, error, is_late, reduced = rest
                budget = ticket.grant.budget if reduced is None and ticket is not None else Budget(**(reduced or {}))
                output = next(outputs) if error is None else None
                answer = Outcome(output, depth, score, error, is_late, budget, reduced is not None)
            if ticket is not None:
                answers.append((ticket, answer))
        return answers


def _started() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """The process, and our end of the socket that is its standard input."""
    ours, theirs = socket.socketpair()
    known = [str(SOURCES), *(path for path in (os.environ.get("PYTHONPATH"),) if path)]
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "frost.runtime.engine_child"], stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(known)}, start_new_session=True)
    return process, ours
