"""Answers of a job as Parquet files in a folder, each written whole or not at all; a second run goes on from the first.

    DIR/part-000000.parquet …    the answers, in no order; the metadata of each says which rows of the job it holds
    DIR.origin.json              what the answers were made with: others are never mixed in

One process writes, so that every row is there once, however often a block was computed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from frost.directory import alone_with, explained, replace_file
from frost.runtime.answerfile import check_same

FACTS = b"frost"    # of a part, in its metadata


class Facts(NamedTuple):
    """What a part says of itself."""

    rows: list[tuple[int, int]]    # from, to: without the last
    failed: int


class AnswerFolder:
    """The answers that are there, and a place for more."""

    def __init__(self, path: Path, count: int, part: int) -> None:
        self.path, self.part = path, part
        self.done: NDArray[np.bool_] = np.zeros(count, dtype=bool)
        self.failed = 0
        self._tables: list[Any] = []
        self._pending = self._next = 0
        for file in sorted(path.glob("part-*.parquet")):
            facts = facts_of(file)
            for start, stop in facts.rows:
                self.done[start:stop] = True
            self.failed += facts.failed
            self._next = int(file.stem.removeprefix("part-")) + 1
        for torn in path.glob(".part-*.tmp"):
            torn.unlink()

    def add(self, table: Any) -> int:
        """Keep answers; those of rows that are there already are left out. How many were new."""
        import pyarrow as pa

        numbers = table.column("row").to_numpy()
        _, first = np.unique(numbers, return_index=True)
        fresh = np.sort(first[~self.done[numbers[first]]])
        if len(fresh) < len(numbers):
            table = table.take(pa.array(fresh))
        self.done[numbers[fresh]] = True
        if len(fresh):
            self._tables.append(table)
            self._pending += len(fresh)
        if self._pending >= self.part:
            self.flush()
        return len(fresh)

    def flush(self) -> None:
        """Write what is kept as one more part."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not self._pending:
            return
        table = pa.concat_tables(self._tables)
        failed = len(table) - table.column("error").null_count
        facts = Facts(ranges(table.column("row").to_numpy()), failed)
        table = table.drop_columns(["row"]).replace_schema_metadata({FACTS: json.dumps(facts).encode()})
        content = pa.BufferOutputStream()
        pq.write_table(table, content)
        with explained(self.path):
            replace_file(self.path / f"part-{self._next:06d}.parquet", content.getvalue().to_pybytes())
        self.failed += failed
        self._next += 1
        self._tables, self._pending = [], 0


@contextmanager
def answer_folder(path: Path, origin: dict[str, Any], count: int, part: int) -> Iterator[AnswerFolder]:
    """Alone with a folder that is new, or holds answers of the same job; what is kept in the end is written."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file; with --ray, --out names a folder.")
    beside = path.with_name(f"{path.name}.origin.json")
    with explained(path):
        path.mkdir(parents=True, exist_ok=True)
    with alone_with(path, f"another process is writing to {path}; wait for it, or choose another --out."):
        if any(path.iterdir()):
            check_same(path, beside, origin)
        else:
            with explained(path):
                replace_file(beside, (json.dumps(origin, indent=2) + "\n").encode())
        folder = AnswerFolder(path, count, part)
        try:
            yield folder
        finally:
            folder.flush()


def facts_of(file: Path) -> Facts:
    """Which rows a part holds; what is no part of ours is a ValueError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        stored = pq.read_schema(file).metadata or {}
        rows, failed = json.loads(stored[FACTS])
        return Facts([(int(start), int(stop)) for start, stop in rows], int(failed))
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as error:
        raise ValueError(f"{file} is damaged or no file of answers ({type(error).__name__}: {error}); remove it, and "
                         "its rows are computed again.") from None


def ranges(numbers: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Row numbers as ranges: [3, 4, 5, 9] is (3, 6), (9, 10)."""
    ordered = np.sort(numbers)
    cuts = np.flatnonzero(np.diff(ordered) != 1) + 1
    return [(int(piece[0]), int(piece[-1]) + 1) for piece in np.split(ordered, cuts) if len(piece)]
