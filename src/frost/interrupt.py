"""Ctrl-C and SIGTERM as a wish that is granted between two steps; a second one ends the process at once.

The same signal within a second is the same wish: who stops a whole process group reaches a training twice, by the group
and by the `frost launch` that passes it on. The second may come when the
first has been granted and the block is left.
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
SAME_WISH = 1.0    # seconds


class Stopped(KeyboardInterrupt):
    """A run that was asked to stop, and did; `status` is the exit status that the signal stands for."""

    def __init__(self, sentence: str, number: int) -> None:
        super().__init__(sentence)
        self.status = 128 + number


class Wish:
    """Whether somebody has asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.number, self.since = 0, 0.0

    def __bool__(self) -> bool:
        return self.number != 0


@contextmanager
def stop_wish() -> Iterator[Wish]:
    """While the block runs, the first signal only sets the wish; the handlers are put back in the end.

    After a wish its own handler is put back by the next signal that is not the same wish.
    """
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish    # signals reach the main thread only
        return

    def handle(number: int, _: FrameType | None) -> None:
        if wish and number == wish.number and time.monotonic() < wish.since + SAME_WISH:
            return
        if wish:
            sys.stderr.write("\x1b[?25h" if sys.stderr.isatty() else "")    # a progress bar hides the cursor
            sys.stderr.flush()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        wish.number, wish.since = number, time.monotonic()

    def handle_late(number: int, _: FrameType | None) -> None:
        if time.monotonic() >= wish.since + SAME_WISH:
            signal.signal(number, before[signal.Signals(number)])
            os.kill(os.getpid(), number)

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handle_late if number == wish.number else handler)
