"""Progress on stderr: a bar with rate and time left on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

QUIET_SECONDS = 10.0   # between lines where there is no terminal


class Report(Protocol):
    """Called after each unit of work."""

    def __call__(self, done: int, text: str) -> None:
        """Say how much is done."""


@contextmanager
def progress(what: str, total: int) -> Iterator[Report]:
    """Show `done` of `total` while the block runs; the text may change with each call."""
    if sys.stderr is not None and sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        started = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
                   TextColumn("{task.fields[text]}"), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(what, total=total, text="")
            yield lambda done, text: bar.update(
                task, completed=done, text=f"{done / (time.monotonic() - started + 1e-9):.0f}/s  {text}")
        return
    last = time.monotonic()

    def line(done: int, text: str) -> None:
        nonlocal last
        if done == total or time.monotonic() - last >= QUIET_SECONDS:
            last = time.monotonic()
            with suppress(OSError, ValueError, AttributeError):    # nobody listens any more: the work goes on
                print(f"{what}: {done}/{total}  {text}", file=sys.stderr, flush=True)

    yield line
