"""Fifteen hostile archives (F11): reading one must write nothing anywhere and take little memory.

    python campaigns/hostile_archives.py       # called by hostile_data.py

Each archive pretends to be CIFAR's and is read in a process of its own, whose memory may grow by at most 64 MB. Those
that hold the sound members beside the hostile ones may be read; the others must be refused. The controls unpack the
same archives with `tarfile`: trusted, it writes outside its target on every Python; with the `data` filter it does so
before Python 3.11.13, 3.12.11 and 3.13.4; and listing the names of a bomb alone takes memory without bound. All of it
happens in a temporary folder. Figures go to docs/results/campaigns.json.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import platform
import resource
import shutil
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy  # noqa: F401 - imported before forking, so that no child's memory grows by it
from hostile_data import pinned, record, write_set

from frost.data.cifar import Layout, load_cifar

GROWTH = 64            # MB of memory that reading a hostile archive may take
FOLDER = "cifar-100-python"


class Hostile(NamedTuple):
    """One hostile archive."""

    name: str
    blocks: Callable[[Path, int], Iterator[bytes]]   # given the folder outside and a size in MB, pieces of the .tar.gz
    is_read: bool = False                            # whether the sound members may be read beside the hostile ones
    is_bomb: bool = False                            # too large for the controls


def packed(content: bytes) -> bytes:
    """One gzip member; members one after the other make one stream."""
    return gzip.compress(content, 6, mtime=0)


def entry(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "", size: int = -1) -> bytes:
    """A tar header with its content; a `size` given apart is a lie or a promise."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, link, len(content) if size < 0 else size
    return member.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


def sound(skip: str = "") -> bytes:
    """The members of a sound archive, one left out if asked."""
    return b"".join(entry(f"{FOLDER}/{name}", content) for name, content in SOUND.items() if name != skip)


def beside(*parts: bytes) -> Iterator[bytes]:
    """Hostile members, then the sound ones."""
    yield packed(b"".join(parts) + sound() + bytes(1024))


def instead(name: str, *parts: bytes) -> Iterator[bytes]:
    """The sound members but one, then the hostile ones."""
    yield packed(sound(name) + b"".join(parts) + bytes(1024))


def flood(header: bytes, megabytes: int) -> Iterator[bytes]:
    """A header and that many megabytes of zeros, a thousandth of it when packed."""
    yield packed(header)
    zeros = packed(bytes(1 << 20))
    for _ in range(megabytes):
        yield zeros


def crowd(megabytes: int) -> Iterator[bytes]:
    """Two thousand empty members for each megabyte."""
    some = packed(entry("crowd") * 2048)
    for _ in range(megabytes):
        yield some


def deep_links(outside: Path) -> bytes:
    """Links whose resolved path is longer than the system resolves, behind which `..` is taken at its word."""
    name, parts, path = "d" * 247, [], ""
    steps = "abcdefghijklmnop"
    for step in steps:
        parts += [entry(f"{path}{name}", kind=tarfile.DIRTYPE), entry(f"{path}{step}", kind=tarfile.SYMTYPE, link=name)]
        path += f"{name}/"
    end = f"{'/'.join(steps)}/{'l' * 254}"
    parts += [entry(end, kind=tarfile.SYMTYPE, link="../" * len(steps)),
              entry("door", kind=tarfile.SYMTYPE, link=f"{end}/../{outside.name}"), entry("door/deep", b"out")]
    return b"".join(parts)


def chain(outside: Path) -> bytes:
    """A link to the folder above, and a file behind it."""
    return entry("up", kind=tarfile.SYMTYPE, link="..") + entry(f"up/{outside.name}/chained", b"out")


SECRET = "secret"
TRAIN = f"{FOLDER}/train"
ARCHIVES = [
    Hostile("name with ..", lambda out, _: beside(entry(f"../{out.name}/dotted", b"out")), True),
    Hostile("absolute name", lambda out, _: beside(entry(f"{out}/absolute", b"out")), True),
    Hostile("chain of links", lambda out, _: beside(chain(out)), True),
    Hostile("links too deep to resolve", lambda out, _: beside(deep_links(out)), True),
    Hostile("hard link out", lambda out, _: beside(entry("hard", kind=tarfile.LNKTYPE, link=f"../{out.name}/{SECRET}"),
                                                   entry("hard", b"overwritten")), True),
    Hostile("device", lambda out, _: beside(entry("device", kind=tarfile.CHRTYPE)), True),
    Hostile("wanted member is a symbolic link", lambda out, _: instead(
        "train", entry(TRAIN, kind=tarfile.SYMTYPE, link=f"../../{out.name}/{SECRET}"))),
    Hostile("wanted member is a hard link", lambda out, _: instead(
        "train", entry(TRAIN, kind=tarfile.LNKTYPE, link=f"{FOLDER}/test"))),
    Hostile("wanted member is a pipe", lambda out, _: instead("train", entry(TRAIN, kind=tarfile.FIFOTYPE))),
    Hostile("wanted member twice", lambda out, _: beside(entry(TRAIN, SOUND["train"]))),
    Hostile("wanted member is a bomb", lambda out, size: flood(
        entry(TRAIN, size=min(size, 150) << 20), size), is_bomb=True),
    Hostile("unwanted member is a bomb", lambda out, size: flood(entry("big", size=size << 20), size), is_bomb=True),
    Hostile("long name is a bomb", lambda out, size: flood(
        entry("././@LongLink", kind=tarfile.GNUTYPE_LONGNAME, size=min(size, 500) << 20), size), is_bomb=True),
    Hostile("extended header is a bomb", lambda out, size: flood(
        entry("pax", kind=tarfile.XHDTYPE, size=min(size, 500) << 20), size), is_bomb=True),
    Hostile("a million members", lambda out, size: crowd(size), is_bomb=True),
]
SOUND: dict[str, bytes] = {}


def prepare(scratch: Path) -> Layout:
    """Make the sound members, once; what they must be is the answer."""
    place = scratch / "sound"
    place.mkdir()
    write_set("cifar", place)
    SOUND.update({path.name: path.read_bytes() for path in sorted(place.iterdir())})
    layout = pinned("cifar", place)
    assert isinstance(layout, Layout)
    return layout


def judge_archive(hostile: Hostile, layout: Layout, scratch: Path, megabytes: int) -> tuple[str, float]:
    """What went wrong when the package read an archive, '' if nothing; and by how many MB its memory grew."""
    shutil.rmtree(scratch, ignore_errors=True)
    outside, target = scratch / "outside", scratch / "target"
    outside.mkdir(parents=True)
    target.mkdir()
    (outside / SECRET).write_text("as it was")
    with (target / layout.archive).open("wb") as archive:
        archive.writelines(hostile.blocks(outside, megabytes))
    before = listing(scratch)
    outcome = apart(lambda: load_cifar(target, layout))
    growth = float(outcome["growth"])
    if listing(scratch) != before:
        return f"files changed: {sorted(set(listing(scratch)) ^ set(before))}", growth
    if growth > GROWTH:
        return f"memory grew by {growth:.0f} MB", growth
    if outcome["error"] not in ("", "ValueError"):
        return f"{outcome['error']}: {outcome['text']}", growth
    if not outcome["error"] and not hostile.is_read:
        return "accepted", growth
    return ("" if not outcome["error"] or layout.archive in outcome["text"] else "the archive is not named"), growth


def apart(action: Callable[[], object]) -> dict[str, Any]:
    """Do something in a child process: how it ended, and by how many MB its memory grew at most."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        outcome = {"error": "", "text": ""}
        try:
            action()
        except BaseException as error:
            outcome = {"error": type(error).__name__, "text": str(error)}
        growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        os.write(writing, json.dumps({**outcome, "growth": growth}).encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    return json.loads(answer) if answer else {"error": "crash", "text": "", "growth": 0.0}


def listing(folder: Path) -> list[tuple[str, int, int]]:
    """Every file below a folder with its size and time."""
    found = ((str(path), path.lstat()) for path in folder.rglob("*"))
    return sorted((name, status.st_size, status.st_mtime_ns) for name, status in found)


def escapes(hostile: Hostile, layout: Layout, scratch: Path, how: str) -> bool:
    """Whether `tarfile` changes something outside its target when it unpacks an archive."""
    judge_archive(hostile, layout, scratch, 1)
    before = listing(scratch / "outside")
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        with tarfile.open(scratch / "target" / layout.archive) as archive:
            archive.extractall(scratch / "target", filter=how)
    return listing(scratch / "outside") != before


def lists_beyond(hostile: Hostile, layout: Layout, scratch: Path) -> bool:
    """Whether `tarfile` takes more than the allowed memory to list the names of a bomb of twice that."""
    judge_archive(hostile, layout, scratch, 2 * GROWTH)

    def listed() -> None:
        with tarfile.open(scratch / "target" / layout.archive) as archive:
            archive.getnames()

    return float(apart(listed)["growth"]) > GROWTH


def main(megabytes: int = 489) -> int:
    """Read each archive, count, write, and fail if one did harm or if trusted unpacking did none."""
    with tempfile.TemporaryDirectory() as folder:
        layout = prepare(Path(folder))
        case = Path(folder) / "case"
        outcomes = {hostile.name: judge_archive(hostile, layout, case, megabytes) for hostile in ARCHIVES}
        small = [hostile for hostile in ARCHIVES if not hostile.is_bomb]
        bombs = [hostile for hostile in ARCHIVES if hostile.is_bomb]
        swollen = sum(lists_beyond(hostile, layout, case) for hostile in bombs)
        out = {how: sum(escapes(hostile, layout, case, how) for hostile in small) for how in ("fully_trusted", "data")}
    faults = {name: fault for name, (fault, _) in outcomes.items() if fault}
    for name, fault in faults.items():
        print(f"HARM {name}: {fault}")
    most = max(growth for _, growth in outcomes.values())
    version = platform.python_version()
    print(f"F11: {len(ARCHIVES)} hostile archives, {len(faults)} did harm, memory grew by at most {most:.0f} MB; "
          f"on Python {version} extractall writes outside its target in {out['fully_trusted']} of {len(small)}, "
          f"with the data filter in {out['data']}; listing swells in {swollen} of {len(bombs)} bombs")
    record("F11", {"n": len(ARCHIVES), "seed": None, "failures": len(faults), "most_growth_mb": round(most, 1),
                   "control": {"python": version, "extractall": {"n": len(small), "escaped": out["fully_trusted"]},
                               "extractall with the data filter": {"n": len(small), "escaped": out["data"]},
                               "listing": {"n": len(bombs), f"grew by more than {GROWTH} MB": swollen}}})
    has_old_tarfile = sys.version_info < (3, 11, 13)
    return int(bool(faults) or not swollen or not out["fully_trusted"] or (has_old_tarfile and not out["data"]))


if __name__ == "__main__":
    sys.exit(main())
