"""What a job is asked for: files by name, from a list, a folder or Parquet files, as tables of a block each.

A row's number is its place in this order; a second run knows by it what is left. Parquet files with a column of images
or arrays are read where they are needed, row group by row group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from frost.data.filelist import Failure, asked_files

CHUNK = 65_536       # names
KEYS = ("file", "key", "id", "path")
INPUTS = ("image", "input", "inputs", "array")


class Listed(NamedTuple):
    """All rows of a job.

    The table has `file` and `image`, and for Parquet files `source`, `column`, `group` and `place`.
    """

    table: Any        # of Arrow
    digest: str       # of the rows' keys, in order

    def blocks(self, left: NDArray[np.int64], rows: int) -> list[Any]:
        """The rows that are left, as tables of a block each."""
        import pyarrow as pa

        pieces = (left[start:start + rows] for start in range(0, len(left), rows))
        return [self.table.take(pa.array(piece)).append_column("row", pa.array(piece)).combine_chunks()
                for piece in pieces]


def listed_rows(listed: Path) -> Listed:
    """Read the names; none at all is a ValueError."""
    import pyarrow as pa

    parquet = parquet_files(listed)
    tables = list(_of_parquet(parquet) if parquet else _of_names(_names(listed)))
    if not tables or not sum(map(len, tables)):
        raise ValueError(f"{listed} names nothing to predict; --list takes a file with one path a line, a folder of "
                         "images, or Parquet files.")
    table = pa.concat_tables(tables)
    digest = hashlib.sha256()
    for chunk in table.column("file").chunks:
        for name in chunk.to_pylist():
            digest.update(str(name).encode("utf-8", "surrogateescape") + b"\n")
    return Listed(table, digest.hexdigest())


def parquet_files(listed: Path) -> list[Path]:
    """The Parquet files that a path stands for; none if it is a list or a folder of images."""
    if listed.is_dir():
        return sorted(listed.glob("*.parquet"))
    return [listed] if listed.suffix == ".parquet" else []


def _names(listed: Path) -> Iterator[str]:
    asked = asked_files([listed]) if listed.is_dir() else asked_files([], listed)
    for file in asked:
        if isinstance(file, Failure):
            raise ValueError(file.error)
        yield str(Path(file).absolute())    # a worker has another working directory


def _of_names(names: Iterable[str]) -> Iterator[Any]:
    import pyarrow as pa

    stream = iter(names)
    while chunk := list(islice(stream, CHUNK)):
        try:
            files = pa.array(chunk, pa.string())
        except UnicodeEncodeError as error:
            raise ValueError(f"{error.object!a} is no name in UTF-8, which Parquet needs; rename it.") from None
        yield pa.table({"file": files, "image": files})


def _of_parquet(files: list[Path]) -> Iterator[Any]:
    """A row for each row of the files: a path, or the place of its input."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in files:
        try:
            file = pq.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{path} is no Parquet file ({error}).") from None
        names = file.schema_arrow.names
        key = next((name for name in KEYS if name in names), None)
        column = next((name for name in INPUTS if name in names), None)
        if key is None:
            raise ValueError(f"{path} has no column of keys: one of {', '.join(KEYS)}; it has {', '.join(names)}.")
        for group in range(file.num_row_groups):
            keys = file.read_row_group(group, [key]).column(key).cast(pa.string()).combine_chunks()
            if column is None:
                yield pa.table({"file": keys, "image": keys})
                continue
            count = len(keys)
            yield pa.table({
                "file": keys, "image": pa.nulls(count, pa.string()), "place": pa.array(range(count)),
                "source": pa.array([str(path.absolute())] * count), "column": pa.array([column] * count),
                "group": pa.array([group] * count)})
