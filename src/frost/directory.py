"""A directory that is whole or not there: built aside, sealed by a manifest, renamed once, verified when read.

The manifest lists size and SHA-256 of each file, and its own, and is written last; every file is on disk before the
rename. Here are also the lock that keeps two processes apart, and what to do when a write fails.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

MANIFEST = "MANIFEST.json"
FORMAT = 2
LARGEST_JSON = 64 * 2**20
FULL = (errno.ENOSPC, errno.EDQUOT)
FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG,
             errno.ELOOP)


@contextmanager
def built_aside(path: Path) -> Iterator[Path]:
    """A new folder beside `path` to build it in; what is left of it in the end is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
    try:
        yield building
    finally:
        shutil.rmtree(building, ignore_errors=True)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn a write that failed, for want of space or for another reason, into a sentence that names the path."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OSError(f"{path} could not be written ({reason}); what was saved before is whole. {advice(error)}"
                      ) from error


def advice(error: BaseException) -> str:
    """What to do about a write that failed, by the system's number for it."""
    number = getattr(error, "errno", None)
    if number is None:    # safetensors tells it in words only
        found = re.search(r"os error (\d+)", str(error))
        number = int(found[1]) if found else None
    if number in FULL:
        return "Make room, then run the same command again; a training goes on with --resume."
    if number in FORBIDDEN:
        return "Choose another place, or see to its permissions."
    return "See to the disk, then run the same command again; a training goes on with --resume."


def lock(descriptor: int, sentence: str) -> None:
    """Refuse, with this sentence, a file or folder that another process has locked; closing it unlocks it."""
    try:
        import fcntl
    except ImportError:    # Windows has no such locks: there it is up to the user
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ValueError(sentence) from error
    except OSError:
        return    # a file system without locks: as on Windows


@contextmanager
def alone_with(folder: Path, sentence: str) -> Iterator[None]:
    """Lock a folder itself, which leaves no file in it, while the block runs."""
    if os.name == "nt":
        yield    # a folder cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        lock(descriptor, sentence)
        yield
    finally:
        os.close(descriptor)


def check_writable(folder: Path) -> None:
    """Refuse a folder that takes no files, before long work whose result belongs there."""
    with explained(folder), tempfile.TemporaryFile(dir=folder):
        pass


def seal(folder: Path, facts: Mapping[str, Any]) -> None:
    """List all files in a manifest together with `facts`, and bring everything to the disk."""
    files = {file.name: facts_of(file) for file in sorted(folder.iterdir())}
    (folder / MANIFEST).write_bytes(manifest_bytes({**facts, "files": files}))
    for file in folder.iterdir():
        file.chmod(0o644)    # as other files of the user's; safetensors keeps others out
        fsync(file)
    fsync(folder)
    folder.chmod(0o755)   # mkdtemp keeps others out


def verify(path: Path, required: Iterable[str]) -> dict[str, Any]:
    """Check a directory against its manifest, which is returned; anything amiss is a ValueError naming the file."""
    if not (path / MANIFEST).is_file():
        raise ValueError(f"{path} is not whole: it has no {MANIFEST}.")
    manifest = read_json(path / MANIFEST)
    files = manifest.get("files")
    if manifest.get("format") != FORMAT:
        raise ValueError(f"{path / MANIFEST} has format {manifest.get('format')!r}, this frost reads {FORMAT}.")
    if (path / MANIFEST).read_bytes() != manifest_bytes(manifest):
        raise ValueError(f"{path / MANIFEST} is damaged: it is not as it was written.")
    if not isinstance(files, dict):
        raise ValueError(f"{path / MANIFEST} does not list its files.")
    for name in required:
        if name not in files:
            raise ValueError(f"{path / MANIFEST} does not list {name}.")
    for name, facts in files.items():
        file = path / name
        if Path(name).name != name or file.is_symlink() or not file.is_file():
            raise ValueError(f"{file} is missing or is no plain file.")
        if facts_of(file) != facts:
            raise ValueError(f"{file} is damaged: its size or SHA-256 is not that of the manifest.")
    return manifest


def manifest_bytes(manifest: Mapping[str, Any]) -> bytes:
    """The manifest as it is stored, with a hash over itself; any other bytes are damage."""
    plain = {"format": FORMAT} | {name: value for name, value in manifest.items() if name not in ("format", "sha256")}
    text = json.dumps(plain, sort_keys=True, allow_nan=False)
    return (json.dumps({**plain, "sha256": hashlib.sha256(text.encode()).hexdigest()}, indent=2) + "\n").encode()


def facts_of(file: Path) -> dict[str, Any]:
    """What the manifest says of a file."""
    with file.open("rb") as stream:
        return {"bytes": file.stat().st_size, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}


def write_json(file: Path, values: Mapping[str, Any]) -> None:
    """Plain values as readable JSON; NaN and infinity are refused."""
    file.write_text(json.dumps(values, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def read_json(file: Path) -> dict[str, Any]:
    """An object from a JSON file of bounded size; anything else is a ValueError naming the file."""
    if file.stat().st_size > LARGEST_JSON:
        raise ValueError(f"{file} is larger than a run's JSON can be.")
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not JSON ({error}).") from error
    if not isinstance(values, dict):
        raise ValueError(f"{file} does not hold an object.")
    return values


def replace_file(file: Path, content: bytes) -> None:
    """Write a file whole or not at all: beside it, to the disk, then renamed over it."""
    aside = file.with_name(f".{file.name}.tmp")
    aside.write_bytes(content)
    fsync(aside)
    aside.replace(file)
    fsync(file.parent)


def move_into_place(building: Path, path: Path, check: Callable[[Path], None]) -> None:
    """Rename a folder once; an older one steps aside first, comes back if that fails, and is deleted last.

    Args:
        check: refuses an older one that must not be lost; another process may have written there since it was built.
    """
    if not path.exists() or not any(path.iterdir()):
        building.rename(path)    # also over an empty folder
    else:
        aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".old", dir=path.parent))
        try:
            path.rename(aside / path.name)
        except BaseException:
            aside.rmdir()
            raise
        try:
            check(aside / path.name)
            building.rename(path)
        except BaseException:
            (aside / path.name).rename(path)
            aside.rmdir()
            raise
        shutil.rmtree(aside)
    fsync(path.parent)


def fsync(path: Path) -> None:
    """Return when a file or a folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
