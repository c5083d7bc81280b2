"""A disk that remembers: the file operations of a save, and what a crash in their middle may leave of them."""

from __future__ import annotations

import errno
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from frost import checkpoint, directory

MOST = 64         # combinations of what was lost, for each prefix


class Operation(NamedTuple):
    """Something that a save does to the disk."""

    kind: str            # make, write, fsync, rename, remove
    path: Path           # relative to the folder watched
    target: Path | None = None
    content: bytes = b""


class Recorder:
    """Notes the file operations of a save, and may let one of them fail."""

    def __init__(self, root: Path, fails_at: int | None = None, error: int = errno.EIO) -> None:
        self.root, self.fails_at, self.error = root, fails_at, error
        self.operations: list[Operation] = []

    def note(self, kind: str, path: Path, target: Path | None = None, content: bytes = b"") -> None:
        """Called before an operation, but for writes whose content is known after."""
        if self.root not in (path, *path.parents):
            return
        if self.fails_at == len(self.operations):
            self.fails_at = None
            raise OSError(self.error, os.strerror(self.error), str(path))
        self.operations.append(Operation(kind, path.relative_to(self.root),
                                         target and target.relative_to(self.root), content))

    @contextmanager
    def torn(self, path: Path, content: bytes) -> Iterator[None]:
        """A write that fails has begun: the file is opened, and half of it written; but nothing on a read-only disk."""
        try:
            yield
        except OSError:
            if self.error != errno.EROFS:
                with path.open("wb") as file:
                    file.write(content[:len(content) // 2])
            raise

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While the block runs, everything that a save calls is noted."""
        real = {"mkdtemp": tempfile.mkdtemp, "fsync": directory.fsync, "rmtree": shutil.rmtree,
                "save_model": checkpoint.save_model, "write_bytes": Path.write_bytes, "write_text": Path.write_text,
                "rename": Path.rename, "replace": Path.replace, "unlink": Path.unlink}

        def mkdtemp(*args: Any, **named: Any) -> str:
            self.note("make", Path(named["dir"]) / "new")
            made = real["mkdtemp"](*args, **named)
            if self.operations and self.root in Path(made).parents:
                self.operations[-1] = Operation("make", Path(made).relative_to(self.root))
            return made

        def write(name: str) -> Callable[..., Any]:
            def written(path: Path, content: Any, *args: Any, **named: Any) -> Any:
                data = content if isinstance(content, bytes) else content.encode()
                with self.torn(path, data):
                    self.note("write", path, content=data)
                return real[name](path, content, *args, **named)
            return written

        def save_model(model: Any, file: str) -> None:
            with self.torn(Path(file), b"half of the weights"):
                self.note("write", Path(file))
            real["save_model"](model, file)
            self.operations[-1] = self.operations[-1]._replace(content=Path(file).read_bytes())

        def move(name: str) -> Callable[..., Any]:
            def moved(path: Path, target: Path) -> Any:
                self.note("rename", path, Path(target))
                return real[name](path, target)
            return moved

        def removed(name: str) -> Callable[..., Any]:
            def remove(path: Path, *args: Any, **named: Any) -> Any:
                if Path(path).exists():
                    self.note("remove", Path(path))
                return real[name](path, *args, **named)
            return remove

        def fsync(path: Path) -> None:
            self.note("fsync", path)
            real["fsync"](path)

        with (mock.patch("tempfile.mkdtemp", mkdtemp), mock.patch.object(directory, "fsync", fsync),
              mock.patch.object(checkpoint, "save_model", save_model), mock.patch("shutil.rmtree", removed("rmtree")),
              mock.patch.object(Path, "write_bytes", write("write_bytes")),
              mock.patch.object(Path, "write_text", write("write_text")),
              mock.patch.object(Path, "rename", move("rename")), mock.patch.object(Path, "replace", move("replace")),
              mock.patch.object(Path, "unlink", removed("unlink"))):
            yield


def crash_states(operations: list[Operation], generator: random.Random) -> Iterator[list[Operation]]:
    """What may be on the disk after a crash following these operations: those that surely happened, and some others."""
    pending = [number for number, done in enumerate(operations) if not _is_durable(operations, number)]
    choices = [("whole", "torn", "lost") if operations[number].kind == "write" else ("whole", "lost")
               for number in pending]
    total = 1
    for options in choices:
        total *= len(options)
    fates = product(*choices) if total <= MOST else iter(
        [tuple("whole" for _ in choices), tuple("lost" for _ in choices)]
        + [tuple(generator.choice(options) for options in choices) for _ in range(MOST - 2)])
    for fate in fates:
        happened = dict(zip(pending, fate, strict=True))
        state = []
        for number, done in enumerate(operations):
            if happened.get(number) == "lost" and done.kind == "write":
                state.append(done._replace(content=b""))      # the entry may be there, without its content
            elif happened.get(number) == "torn":
                state.append(done._replace(content=done.content[:len(done.content) // 2]))
            elif happened.get(number) != "lost":
                state.append(done)
        yield state


def _is_durable(operations: list[Operation], number: int) -> bool:
    """Whether a later fsync has brought an operation to the disk: of the file for a write, of its folder for a name."""
    done = operations[number]
    if done.kind == "fsync":
        return True
    where = done.path if done.kind == "write" else (done.target or done.path).parent
    return any(later.kind == "fsync" and _same(later.path, where, operations[number + 1:]) for later in
               operations[number + 1:])


def _same(path: Path, where: Path, later: list[Operation]) -> bool:
    """Whether a path is a place, also after the place, or a folder around it, was renamed."""
    names = {where}
    for done in later:
        if done.kind == "rename" and done.target is not None:
            names |= {done.target / name.relative_to(done.path) for name in names if done.path in (name, *name.parents)}
    return path in names


def apply(operations: list[Operation], root: Path) -> None:
    """Do what happened; what needs something that was lost does not happen either."""
    for done in operations:
        place = root / done.path
        if done.kind == "make":
            place.mkdir(parents=True, exist_ok=True)
        elif done.kind == "write" and place.parent.is_dir():
            place.write_bytes(done.content)
        elif done.kind == "rename" and place.exists():
            assert done.target is not None
            place.replace(root / done.target)
        elif done.kind == "remove":
            shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink(missing_ok=True)
