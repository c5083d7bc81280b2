"""Progress on stderr: a bar with rate and time left on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

QUIET_SECONDS = 10.0   # between lines where there is no terminal


class Report(Protocol):
    """Called after each unit of work."""

    def __call__(self, done: int, text: str) -> None:
        """Say how much is done."""


@contextmanager
def progress(what: str, total: int | None, first: int = 0, per_unit: int = 1,
             is_shown: bool = True, unit: str = "images") -> Iterator[Report]:
    """Show `done` of `total` while the block runs; the text may change with each call.

    Args:
        total: None if it is known at the end only.
        first: what was done before, if the work goes on from there.
        per_unit: images, or what `unit` says, in a piece of work, for the rate that is shown.
        is_shown: False where another process shows it.
    """
    if not is_shown:
        yield lambda done, text: None
        return
    started = time.monotonic()

    def rate(done: int) -> float:
        return (done - first) * per_unit / (time.monotonic() - started + 1e-9)

    if sys.stderr is not None and sys.stderr.isatty():
        with _bar(what, total, first) as show:
            yield lambda done, text: show(done, f"{rate(done):.0f} {unit}/s", text)
        return
    last = started

    def line(done: int, text: str) -> None:
        nonlocal last
        if done == total or time.monotonic() - last >= QUIET_SECONDS:
            last = time.monotonic()
            if total is None:
                say(f"{what}: {done}  {rate(done):.0f} {unit}/s  {text}")
                return
            left = (total - done) * per_unit / max(rate(done), 1e-9)
            say(f"{what}: {done}/{total}  {rate(done):.0f} {unit}/s  {left / 60:.1f} min left  {text}")

    yield line


@contextmanager
def _bar(what: str, total: int | None, first: int) -> Iterator[Callable[[int, str, str], None]]:
    """A bar on the terminal; the text stands below it, where it has room and leaves the numbers theirs."""
    from rich.console import Console, RenderableType
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Bar(Progress):
        def get_renderables(self) -> Iterator[RenderableType]:
            yield self.make_tasks_table(self.tasks)
            yield from (Text(task.fields["text"]) for task in self.tasks if task.fields["text"])

    place = "{task.completed}" if total is None else "{task.completed}/{task.total}"
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn(place), TextColumn("{task.fields[rate]}"),
               *([] if total is None else [TimeRemainingColumn()]))
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total, completed=first, rate="", text="")
        yield lambda done, rate, text: bar.update(task, completed=done, rate=rate, text=text)


def say(sentence: str) -> None:
    """One line on stderr, if somebody listens; if not, the work goes on."""
    with suppress(OSError, ValueError):
        if sys.stderr is not None:
            print(sentence, file=sys.stderr, flush=True)
