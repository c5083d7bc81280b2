"""Trainings of digits as real processes, one or several, for the campaigns that disturb them."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

TIMEOUT = 8.0         # seconds that a process waits for another


class Group:
    """The processes of one training, started as torchrun would."""

    def __init__(self, words: list[str], processes: int, code: str = "", first: tuple[str, ...] = (),
                 environment: dict[str, str] | None = None) -> None:
        port = random.randrange(20_000, 60_000)
        program = [sys.executable, "-c", code, *first] if code else [sys.executable, "-m", "frost"]
        self.members = []
        for rank in range(processes):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes),
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} if processes > 1 else {}
            self.members.append(subprocess.Popen(
                [*program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                env={**os.environ, "OMP_NUM_THREADS": "1", **place, **(environment or {})}))

    def wait(self, seconds: float = 300.0) -> list[int]:
        """Exit statuses; a process that takes longer is killed."""
        until = time.monotonic() + seconds
        self.complaints = []
        for member in self.members:
            try:
                _, complaint = member.communicate(timeout=max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.kill()
                _, complaint = member.communicate()
            self.complaints.append(complaint.decode(errors="replace"))
        return [member.returncode for member in self.members]

    def send(self, number: int) -> None:
        """A signal to all."""
        for member in self.members:
            if member.poll() is None:
                member.send_signal(number)


def words(out: Path, *settings: str, resume: bool = False) -> list[str]:
    """A short training of digits."""
    return ["train", "digits", "--out", str(out), *(["--resume"] if resume else []), "--set", "train.epochs=2",
            "train.batch=128", f"runtime.timeout={TIMEOUT}", *settings]


def lines(run: Path, name: str = "logbook.jsonl") -> list[dict[str, Any]]:
    """A logbook without the clock."""
    if not (run / name).exists():
        return []
    entries = [json.loads(line) for line in (run / name).read_text().splitlines()]
    return [{key: value for key, value in entry.items() if key != "seconds"} for entry in entries]


def wait_until(done: Callable[[], bool], group: Group, seconds: float = 120.0) -> bool:
    """Wait for something while the processes run."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and all(member.poll() is None for member in group.members):
        if done():
            return True
        time.sleep(0.005)
    return done()


def is_same(first: Path, second: Path) -> bool:
    """Weights, logbook and validations equal, bit for bit."""
    ours, theirs = load_file(first / "weights.safetensors"), load_file(second / "weights.safetensors")
    return (lines(first) == lines(second) and lines(first, "validation.jsonl") == lines(second, "validation.jsonl")
            and ours.keys() == theirs.keys() and all(ours[name].equal(theirs[name]) for name in ours))
