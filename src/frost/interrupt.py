"""Ctrl-C and SIGTERM as a request that is granted between two steps; a second one ends the process at once.

The same signal within a second is the same request: what stops a whole process group reaches a training twice, by the
group and by the `frost launch` that passes it on. The second may come when the first has been granted and the block is
left.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SAME_REQUEST = 1.0    # seconds


class Stopped(KeyboardInterrupt):
    """A run that was asked to stop, and did; `status` is the exit status that the signal stands for."""

    def __init__(self, sentence: str, number: int) -> None:
        super().__init__(sentence)
        self.status = 128 + number


class StopRequest:
    """Whether a signal has asked to stop, and which."""

    def __init__(self) -> None:
        self.number, self.since = 0, 0.0

    def __bool__(self) -> bool:
        return self.number != 0


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """While the block runs, the first signal only sets the request; the handlers are put back in the end.

    After a request its own handler is put back by the next signal that is not the same request.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request    # signals reach the main thread only
        return

    def handle(number: int, _: FrameType | None) -> None:
        if request and number == request.number and time.monotonic() < request.since + SAME_REQUEST:
            return
        if request:
            sys.stderr.write("\x1b[?25h" if sys.stderr.isatty() else "")    # a progress bar hides the cursor
            sys.stderr.flush()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        request.number, request.since = number, time.monotonic()

    def handle_late(number: int, _: FrameType | None) -> None:
        if time.monotonic() >= request.since + SAME_REQUEST:
            signal.signal(number, before[signal.Signals(number)])
            os.kill(os.getpid(), number)

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handle_late if number == request.number else handler)
