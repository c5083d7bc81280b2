"""Files fetched from their official pages, only when asked: resumed where they broke off, checked before they count.

A file grows as `NAME.part` and gets its name once its hash is right, so a file with its name is whole.
"""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

from frost.data.hashes import PIECE, check_pin, hasher, pieces
from frost.data.splits import Report

TIMEOUT = 30.0     # seconds without a byte after which a connection counts as dead
ATTEMPTS = 5       # connections in a row that bring nothing new, before giving up
CONNECTIONS = 100  # in all, however little each brings
FINAL = (400, 401, 403, 404, 405, 410, 451)   # answers that another attempt would get again
PAUSE = 1.0        # seconds before the second of them; doubles each time


class Remote(NamedTuple):
    """One file on the network, and what it must be."""

    url: str
    size: int      # bytes, exactly
    pin: str       # SHA-256, or MD5 where nothing better is published
    page: str      # where a person finds it

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.url.rpartition("/")[2]


class _Again(Exception):
    """A connection failed in a way that another one may mend."""


class _Refused(Exception):
    """A server will not send the file, however often it is asked."""


def cache_folder() -> Path:
    """Where fetched files are kept: the folder that FROST_CACHE names, or else .cache/frost in the home folder."""
    return Path(os.environ.get("FROST_CACHE") or Path.home() / ".cache" / "frost")


def fetch(remote: Remote, folder: Path, *, report: Report | None = None, timeout: float = TIMEOUT,
          attempts: int = ATTEMPTS, pause: float = PAUSE) -> Path:
    """The file in `folder`, fetched unless a whole one is there; a download that broke off goes on where it was."""
    target, part = folder / remote.name, folder / f"{remote.name}.part"
    if target.is_file() and _hash(target, remote.pin) == remote.pin:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    failures, reason = 0, ""
    for _ in range(CONNECTIONS):
        if failures >= attempts:
            break
        before = _size(part)
        if failures:
            time.sleep(pause * 2 ** (failures - 1))
        try:
            _continue(remote, part, timeout, report)
            check_pin(_hash(part, remote.pin), remote.pin, remote.url)
            part.replace(target)
            return target
        except _Again as error:
            failures = 1 if _size(part) > before else failures + 1
            reason = str(error)
        except ValueError as error:   # all bytes came, but not the right ones
            part.unlink(missing_ok=True)
            failures, reason = failures + 1, str(error)
        except _Refused as error:
            reason = str(error)
            break
    raise ValueError(_advice(remote, folder, reason))


def _continue(remote: Remote, part: Path, timeout: float, report: Report | None) -> None:
    """One connection: append to the part file what is still missing; raises unless the file is then complete."""
    start = _size(part)
    if start == remote.size:
        return
    if start > remote.size:
        part.unlink()
        start = 0
    request = urllib.request.Request(remote.url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            if response.status != 206:   # the server sends all of it, whatever was asked
                start = 0
            elif not str(response.headers.get("Content-Range", "")).startswith(f"bytes {start}-"):
                part.unlink()
                raise _Again("the server sent another part than was asked for")
            _append(response, part, start, remote, report)
    except urllib.error.HTTPError as error:
        if error.code == 416:   # nothing there to go on from
            part.unlink(missing_ok=True)
        kind = _Refused if error.code in FINAL else _Again
        raise kind(f"the server answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise _Again(f"{error.reason}") from None
    except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
        raise _Again(f"the connection broke, {error or type(error).__name__}") from None
    if _size(part) != remote.size:
        raise _Again(f"the connection ended after {_size(part):,} of {remote.size:,} bytes")


def _append(response: http.client.HTTPResponse, part: Path, start: int, remote: Remote, report: Report | None) -> None:
    with part.open("ab") as file:
        file.truncate(start)
        done = start
        while piece := _read(response):
            done += len(piece)
            if done > remote.size:
                raise ValueError(f"{remote.url} sends more than {remote.size:,} bytes")
            file.write(piece)
            if report is not None:
                report(f"fetching {remote.name}", done, remote.size)


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read1(PIECE)
    except OSError as error:    # of the network, whatever it is; errors of the disk pass
        raise _Again(f"the connection broke, {error or type(error).__name__}") from None


def _size(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def _hash(path: Path, pin: str) -> str:
    digest = hasher(pin)
    with path.open("rb") as stream:
        for piece in pieces(stream, path.stat().st_size):
            digest.update(piece)
    return digest.hexdigest()


def _advice(remote: Remote, folder: Path, reason: str) -> str:
    return (f"{remote.name} could not be fetched from {remote.url} ({reason.rstrip('.')}); try again later, or get it "
            f"from {remote.page} and put it into {folder}.")
