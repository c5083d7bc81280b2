"""Which files are asked for: those named, the images in folders, and the lines of a list.

A list may be a pipe: it is read once, as it comes, and how many lines it has is known at its end only. A line has a
longest length, so that what is no list is refused, however long it is.
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable, Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from frost.data.images import SUFFIXES

PIECE = LONGEST_LINE = 65_536    # bytes
LOOKS = 0.2                      # seconds between two looks whether somebody has asked to stop
MARK = b"\xef\xbb\xbf"           # with which some editors begin a file


class Failure(NamedTuple):
    """A file without an answer."""

    file: str
    error: str

    def to_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {"file": self.file, "error": self.error}


def asked_files(files: Sequence[Path], listed: Path | None = None,
                is_over: Callable[[], bool] = bool) -> Iterator[str | Failure]:
    """The files, with the images of a folder in its place; then those of a list.

    Args:
        is_over: whether somebody has asked to stop; then no more is read.
    """
    for file in files:
        try:
            is_folder = file.is_dir()
        except OSError as error:
            yield Failure(str(file), f"{file} cannot be opened: {error.strerror}.")
            continue
        yield from _images_in(file) if is_folder else [str(file)]
    if listed is not None:
        yield from _lines_of(listed, is_over)


def count_files(files: Sequence[Path], listed: Path | None = None) -> int | None:
    """How many `asked_files` gives; None if that cannot be known beforehand, since a pipe is read once only."""
    if listed is not None and not listed.is_file():
        return None
    return sum(1 for _ in asked_files(files, listed))


def _images_in(folder: Path) -> Iterator[str | Failure]:
    """The images of a folder and of the folders in it, each folder's own first, by name; hidden ones are left out."""
    is_empty = True
    troubles: list[OSError] = []
    for place, folders, names in os.walk(folder, onerror=troubles.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place) / name
            if path.suffix.lower() in SUFFIXES and not name.startswith(".") and path.is_file():
                is_empty = False
                yield str(path)
    for error in troubles:
        yield Failure(str(error.filename), f"{error.filename} cannot be opened: {error.strerror}.")
    if is_empty and not troubles:
        yield Failure(str(folder), f"{folder} holds no PNG, JPEG or WebP file; name the folder that holds the images.")


def _lines_of(listed: Path, is_over: Callable[[], bool]) -> Iterator[str]:
    """The lines of a list that hold something, without a byte-order mark."""
    try:
        with listed.open("rb", buffering=0) as stream:
            for number, line in enumerate(_raw_lines(stream, is_over), start=1):
                if len(line) > LONGEST_LINE:
                    raise ValueError(f"line {number} of {listed} is longer than {LONGEST_LINE:,} bytes; --list takes "
                                     "a file with one path a line.")
                if b"\0" in line:
                    raise ValueError(f"line {number} of {listed} holds a zero byte, which no path does; --list takes "
                                     "a file in UTF-8 with one path a line.")
                name = os.fsdecode(line.removeprefix(MARK) if number == 1 else line).rstrip("\r")
                if name.strip():
                    yield name
    except OSError as error:
        raise ValueError(f"{listed} cannot be opened: {error.strerror}; --list takes a file with one path a line."
                         ) from error


def _raw_lines(stream: FileIO, is_over: Callable[[], bool]) -> Iterator[bytes]:
    rest = b""
    while piece := _next_piece(stream, is_over):
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if len(rest) > LONGEST_LINE:
            break    # it is refused as it is, without waiting for its end
    if rest and not is_over():
        yield rest


def _next_piece(stream: FileIO, is_over: Callable[[], bool]) -> bytes:
    """The next bytes; none at the end, nor if somebody asks to stop while nothing comes."""
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        while not select.select([stream], [], [], LOOKS)[0]:
            if is_over():
                return b""
    return stream.read(PIECE) or b""
