"""Answers of `frost predict`, one line for each image in the order of the images; a second run goes on from the first.

Beside FILE lies FILE.origin.json, which says what the answers were made with: others are never mixed in. A line that
was cut short by a kill is taken off before going on.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from frost.directory import explained, lock, read_json, replace_file

COLUMNS = ("file", "label", "class", "confidence", "depth", "score", "error")
FLUSH_EVERY = 256    # lines
Asked = TypeVar("Asked")


class AnswerFile:
    """A CSV or JSON-lines file that grows by whole lines."""

    def __init__(self, path: Path, origin: dict[str, Any]) -> None:
        if path.suffix not in (".csv", ".jsonl"):
            raise ValueError(f"--out must end in .csv or .jsonl, got {path}.")
        if path.is_dir():
            raise ValueError(f"{path} is a folder; name a file for --out.")
        self.path, self.is_csv = path, path.suffix == ".csv"
        self._unflushed = 0
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = path.open("a", encoding="utf-8", newline="")
        try:
            self._begin(origin)
        except BaseException:
            self._stream.close()
            raise

    def _begin(self, origin: dict[str, Any]) -> None:
        """Alone with the file, see that it may be gone on with; an empty one is as good as none."""
        lock(self._stream.fileno(), f"another process is writing to {self.path}; wait for it, or choose another --out.")
        beside = self.path.with_name(f"{self.path.name}.origin.json")
        if self.path.stat().st_size:
            check_same(self.path, beside, origin)
            _cut_torn_line(self.path)
        else:
            with explained(self.path):
                replace_file(beside, (json.dumps(origin, indent=2) + "\n").encode())
        if self.is_csv and self.path.stat().st_size == 0:
            self._write(COLUMNS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._stream.close()

    def skip_done(self, files: Iterable[Asked], name_of: Callable[[Asked], str]) -> tuple[Iterator[Asked], int, int]:
        """The files that are left, how many lines there are, and how many of them without an answer.

        Lines for other files are refused.
        """
        left, count, failed = iter(files), 0, 0
        for done, has_failed in self._done():
            asked = next(left, None)
            if asked is None or self.written_name(name_of(asked)) != done:
                ours = "nothing" if asked is None else name_of(asked)
                raise ValueError(f"{self.path} answers {done} where {ours} is asked for; name the same files in the "
                                 "same order, or another --out.")
            count, failed = count + 1, failed + has_failed
        return left, count, failed

    def add(self, row: dict[str, Any]) -> None:
        """Append one answer."""
        row = {name: self.written_name(value) if isinstance(value, str) else value for name, value in row.items()}
        if self.is_csv:
            self._write([row.get(name, "") for name in COLUMNS])
        else:
            self._stream.write(json.dumps(row, allow_nan=False) + "\n")
        self._unflushed += 1
        if self._unflushed >= FLUSH_EVERY:
            self._stream.flush()
            self._unflushed = 0

    def written_name(self, file: str) -> str:
        """A file's name, or any other words, as they stand in the answers: on one line, and as text."""
        text = os.fsencode(file).decode("utf-8", "backslashreplace")
        return "".join(letter if letter not in "\r\n" else repr(letter)[1:-1] for letter in text)

    def _done(self) -> Iterator[tuple[str, bool]]:
        """The file of each line, and whether it has no answer."""
        with self.path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream) if self.is_csv else map(json.loads, stream):
                yield row["file"], bool(row.get("error"))

    def _write(self, cells: Iterable[Any]) -> None:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(cells)
        self._stream.write(line.getvalue())


def check_same(path: Path, beside: Path, origin: dict[str, Any]) -> None:
    """Refuse answers at `path` that were made with anything else, as the file beside them says."""
    if not beside.is_file():
        raise ValueError(f"{path} exists and is no file of answers ({beside.name} is not beside it); choose another "
                         "--out.")
    theirs = read_json(beside)
    for name, value in origin.items():
        if theirs.get(name) != value:
            raise ValueError(f"{path} was made with {name} = {theirs.get(name)!r}, not {value!r}; choose another "
                             "--out.")


def _cut_torn_line(path: Path) -> None:
    """Keep what ends in a line break."""
    with path.open("r+b") as stream:
        size = end = stream.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - 65_536)
            stream.seek(start)
            found = stream.read(end - start).rfind(b"\n")
            if found >= 0:
                end = start + found + 1
                break
            end = start
        if end != size:
            stream.truncate(end)
