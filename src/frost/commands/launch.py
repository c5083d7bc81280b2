"""`frost launch -n 2 train …`: several processes on this machine, started again with --resume when one of them dies.

The outer loop that torchrun's own restarts do not make reliable with gloo: all processes end before any begins anew.
For several machines, use torchrun and the same command.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from frost.commands.common import Reply
from frost.interrupt import Stopped, stop_wish
from frost.report.progress import say

AGAIN = 75       # exit status of a process that has lost another one
MOST_PROCESSES = 1024    # beyond it a typing mistake is likelier than a machine
GRACE = 5.0      # seconds from asking a process to end to killing it
LOOKS = 0.1      # seconds between two looks at the processes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost launch`."""
    parser.add_argument("-n", "--processes", type=int, required=True, metavar="N", help="processes on this machine")
    parser.add_argument("--retries", type=int, default=3, metavar="N",
                        help="times to go on with --resume after a process has died (default: %(default)s)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="train …", help="what each of them runs")


def run(options: argparse.Namespace) -> Reply:
    """Start the processes, and again when one of them has died."""
    result = launch(options.processes, options.command, options.retries)
    if result.status:
        raise SystemExit(result.status)
    return Reply(result._asdict(), f"All processes have ended well; restarts: {result.restarts}.")


class Launched(NamedTuple):
    """How it ended."""

    status: int
    restarts: int


def launch(processes: int, words: Sequence[str], retries: int = 3) -> Launched:
    """Run `frost WORDS` in several processes until they end well, or have died more often than `retries`."""
    if not 1 <= processes <= MOST_PROCESSES:
        raise ValueError(f"-n must be at least 1 and at most {MOST_PROCESSES}, got {processes}.")
    if retries < 0:
        raise ValueError(f"--retries must not be negative, got {retries}.")
    if not words or words[0] != "train":
        raise ValueError(f"frost launch starts `train`, got '{' '.join(words)}'; for instance: frost launch -n 2 train "
                         "digits --out RUN.")
    again = [*words, *([] if "--resume" in words else ["--resume"])]
    for restarts in range(retries + 1):
        statuses = _once(processes, words if restarts == 0 else again)
        if not _is_accident(statuses):
            return Launched(max(status for status in statuses if status != AGAIN), restarts)
        if restarts < retries:
            say(f"frost: a process has died (exit statuses {', '.join(map(str, statuses))}); going on with --resume, "
                f"{restarts + 1} of {retries} times.")
    raise ValueError(f"a process has died {retries + 1} times in a row; see what it printed, then run the same command "
                     "with --resume.")


def _is_accident(statuses: Sequence[int]) -> bool:
    """Whether processes were killed, or lost one that was; a user's mistake and a wish to stop are none."""
    return any(statuses) and all(status <= 0 or status == AGAIN for status in statuses)


def _once(processes: int, words: Sequence[str]) -> list[int]:
    """Start all, wait until all have ended; when one ends badly, the others are asked to, and made to."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, (os.cpu_count() or 1) // processes))
    running: list[subprocess.Popen[bytes]] = []
    with stop_wish() as wish:
        try:
            for rank in range(processes):
                place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes),
                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": threads}
                running.append(subprocess.Popen([sys.executable, "-m", "frost", *words], env={**os.environ, **place}))
            told = False
            while any(process.poll() is None for process in running):
                if wish and not told:
                    told = True    # they agree among themselves at which step to stop
                    for process in running:
                        process.send_signal(wish.number)
                if any(process.poll() not in (None, 0) for process in running):
                    _wait(running, GRACE)    # those who notice by themselves say so
                    break
                time.sleep(LOOKS)
        finally:
            _end(running)
        statuses = [process.returncode for process in running]
        if wish:
            raise Stopped("stopped before a process could save; the same command with --resume goes on from its last "
                          "checkpoint." if _is_accident(statuses) else
                          "stopped; the first process has said how to go on.", wish.number)
    return statuses


def _wait(running: Sequence[subprocess.Popen[bytes]], seconds: float) -> None:
    until = time.monotonic() + seconds
    for process in running:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))


def _end(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """No orphan: ask, wait, kill; a frozen process hears only the last."""
    left = [process for process in running if process.poll() is None]
    for process in left:
        process.send_signal(signal.SIGTERM)
    _wait(left, GRACE)
    for process in left:
        if process.poll() is None:
            process.kill()
            process.wait()
