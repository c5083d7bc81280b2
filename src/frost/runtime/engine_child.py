"""The other end of `engine_process`: a process that reads a run and computes its steps.

    python -m frost.runtime.engine_child      its standard input is a socket to the process that started it

Its life is that of the socket: it ends when the other end does, however that ended. Signals are for the other end,
which may have inputs to answer first.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from frost.checkpoint import load, weights_hash
from frost.core.inputs import to_device
from frost.core.interpreter import share_interpreter
from frost.core.malloc import keep_pages
from frost.core.precision import device_of
from frost.core.trajectory import IterativeModel
from frost.halting.drift import Watch
from frost.runtime.budgets import Budgets
from frost.runtime.engine import Engine
from frost.runtime.engine_thread import Answers, Counts, DeadlinePassed, EngineThread, Ticket
from frost.runtime.entrance import plain
from frost.runtime.wire import Incoming, grant_from_json, inputs_of, message
from frost.runtime.worker import Place, engine_at, warmed

PIECE = 2**18    # bytes read at once
SHORT = 0.005      # seconds of an input at full depth
TRIED = 8          # inputs together, to find that out
LAST_STEP = 5.0    # seconds that a step under way has to end


class Seen(Watch):
    """Keeps signals until they are sent: they are compared at the other end."""

    def __init__(self) -> None:
        self._kept: list[tuple[np.ndarray, np.ndarray]] = []

    def see(self, steps: np.ndarray, values: np.ndarray) -> None:
        """Keep them."""
        self._kept.append((steps, values))

    def taken(self) -> tuple[int, bytes]:
        """How many there are, and steps and values as bytes."""
        kept, self._kept = self._kept, []
        if not kept:
            return 0, b""
        steps, values = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        return len(steps), steps.astype(np.int64).tobytes() + values.astype(np.float64).tobytes()


class Child:
    """One engine at the end of a socket."""

    def __init__(self, line: socket.socket) -> None:
        self._line, self._incoming = line, Incoming()
        self._tickets: dict[int, Ticket] = {}    # those that may still be cancelled
        self._seen = Seen()

    def run(self) -> None:
        """Until the other end goes."""
        setup = self._next()
        if setup is None:
            return
        try:
            hello = self._made(setup)
        except (ValueError, OSError) as error:
            self._line.sendall(message({"error": str(error)}))
            return
        self._line.sendall(message(hello))
        share_interpreter()
        self._thread.start()
        while piece := self._read():
            for words, payload in self._incoming.add(piece):
                self._take(words, payload)
        self._thread.put(None)
        self._thread.join(LAST_STEP)

    def _next(self) -> dict[str, Any] | None:
        while piece := self._read():
            for words, _ in self._incoming.add(piece):
                return words
        return None

    def _read(self) -> bytes:
        try:
            return self._line.recv(PIECE)
        except ConnectionError:
            return b""

    def _made(self, setup: dict[str, Any]) -> dict[str, Any]:
        """The engine, warm, and what the other end has to know of it."""
        run = load(setup["run"], device=setup["device"])
        if weights_hash(run.model) != setup["weights"]:
            raise ValueError(f"{setup['run']} has been replaced while it was read; start again.")
        calibration = run.calibration if setup["is_calibrated"] else None
        torch.set_num_threads(threads_for(run.model, setup["threads"]))
        place = Place(setup["slots"], setup["backend"], setup["ladder"])
        self._engine: Engine = engine_at(place, run.model, calibration, watch=self._seen if calibration else None)
        session = self._engine.open()
        self._entrance = session.accepted
        shape = warmed(self._engine, self._entrance.signature)
        self._seen.taken()
        budgets = Budgets(calibration, run.model.depth, setup["under_load"], setup["floor"])
        self._counts = Counts(depths=[0] * run.model.depth)
        self._thread = EngineThread(session, budgets, self._counts, self._deliver, self._died, begins=self._begins)
        return {"backend": self._engine.backend, "shape": shape}

    def _take(self, words: dict[str, Any], payload: bytearray) -> None:
        """New inputs, and some that were given up."""
        grants = [grant_from_json(grant) for grant in words["grants"]]
        inputs = inputs_of(payload, len(words["new"]), self._entrance.signature, self._entrance.dtypes)
        for (number, grant, due), own in zip(words["new"], inputs, strict=True):
            ticket = self._tickets[number] = Ticket(own, grants[grant], due, number=number)
            self._thread.put(ticket)
        for number in words["gone"]:
            gone = self._tickets.pop(number, None)
            if gone is not None:
                gone.is_cancelled = True
                self._thread.put(gone)

    def _begins(self) -> None:
        """A step begins: what has left the queue."""
        self._send({})

    def _deliver(self, answers: Answers) -> None:
        """In the engine's thread: the answers of a step."""
        done, outputs = [], []
        for ticket, answer in answers:
            self._tickets.pop(ticket.number, None)
            if isinstance(answer, Exception):
                done.append([ticket.number, type(answer) is DeadlinePassed, str(answer)])
                continue
            reduced = answer.budget.named() if answer.is_reduced else None
            done.append([ticket.number, answer.depth, answer.score, answer.error, answer.is_late, reduced])
            if answer.output is not None:
                outputs.append(answer.output)
        words: dict[str, Any] = {"done": done} if done else {}
        if outputs:
            words["outputs"] = [len(outputs), str(outputs[0].dtype).removeprefix("torch.")]
        self._send(words, *map(plain, outputs))

    def _send(self, words: dict[str, Any], *outputs: bytes) -> None:
        seen, signals = self._seen.taken()
        counts = {"counts": asdict(self._counts), "occupied": self._thread.session.scheduler.occupied,
                  "work": self._engine.work, "seen": seen}
        self._line.sendall(message({**words, **counts}, signals, *outputs))

    def _died(self, error: str) -> None:
        """In the engine's thread, as the last thing it does."""
        with contextlib.suppress(OSError):    # the other end has gone before
            self._line.sendall(message({"died": error}))
        os._exit(1)


def threads_for(model: IterativeModel, most: int) -> int:
    """All that there may be, or one less where an input takes so little that reading its request needs a core as well.

    Three threads on two cores wait for one another at each operation of the model.
    """
    if most == 1 or model.signature is None:
        return most
    torch.set_num_threads(most - 1)
    inputs, times = to_device(model.signature.zeros(TRIED), device_of(model)), []
    with torch.no_grad():
        for _ in range(3):
            began = time.perf_counter()
            model(inputs)
            times.append(time.perf_counter() - began)
    return most - 1 if min(times) < SHORT * TRIED else most


def main() -> None:
    """Serve the socket that is the standard input."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    keep_pages()
    Child(socket.socket(fileno=os.dup(0))).run()


if __name__ == "__main__":
    main()
