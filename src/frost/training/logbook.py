"""The logbook of a run: one JSON object a line, in the order of the steps, each step once.

Lines are appended while the run goes on. When it goes on from a checkpoint, lines of later steps are cut off, so that
the file reads as if the run had never been interrupted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from frost.directory import explained, replace_file


class Logbook:
    """A file of JSON lines that carry a `step`."""

    def __init__(self, path: Path, last_step: int = 0) -> None:
        """Open for appending, after cutting off what lies beyond `last_step`."""
        kept = cut_back(path, last_step)
        self.path = path
        self.last_step = kept[-1]["step"] if kept else 0
        self._file = path.open("a", encoding="utf-8")

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append a line; it is in the hands of the system at once, so that a kill does not lose it."""
        with explained(self.path):
            self._file.write(json.dumps(entry, allow_nan=False) + "\n")
            self._file.flush()
        self.last_step = entry["step"]

    def sync(self) -> None:
        """Return when all lines are on the disk; called before a checkpoint that counts on them."""
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def read(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a logbook; half a line at its end, left by a kill, is not one."""
    if not path.exists():
        return []
    *lines, _ = path.read_text(encoding="utf-8").split("\n")
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise ValueError(f"{path} holds a line that is not JSON ({error}); move the file away and go on.") from error


def cut_back(path: Path, last_step: int) -> list[dict[str, Any]]:
    """Remove everything after `last_step`, whatever it is; what is kept is returned.

    Lines up to the last checkpoint were on the disk before it. What a power cut leaves behind them may be anything.
    """
    if not path.exists():
        return []
    kept: list[dict[str, Any]] = []
    for line in path.read_bytes().split(b"\n"):
        try:
            entry = json.loads(line)
            if entry["step"] > last_step:
                break
        except (ValueError, TypeError, LookupError):
            break
        kept.append(entry)
    replace_file(path, "".join(json.dumps(entry, allow_nan=False) + "\n" for entry in kept).encode())
    return kept
