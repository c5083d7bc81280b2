"""Bytes that are checked against a known hash before anything opens them.

Checking takes constant memory: a file is hashed piece by piece, and only one that passes is read as a whole (and hashed
again, for it may have changed in between). What the bytes mean is the caller's business.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

PIECE = 1 << 20


class Readable(Protocol):
    """Anything that bytes can be read from."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most `size`; none at the end."""


def hasher(pin: str) -> hashlib._Hash:
    """A fresh hash of the kind that `pin` is written in: 64 hex digits are SHA-256, 32 are MD5."""
    if len(pin) not in (32, 64):
        raise ValueError(f"a pin is 64 (SHA-256) or 32 (MD5) hex digits, got '{pin}'.")
    return hashlib.sha256() if len(pin) == 64 else hashlib.md5(usedforsecurity=False)


def pieces(stream: Readable, size: int) -> Iterator[bytes]:
    """The next `size` bytes of a stream, piece by piece; ends early if the stream does."""
    while size > 0 and (piece := stream.read(min(PIECE, size))):
        size -= len(piece)
        yield piece


def read_file(path: Path, limit: int, pin: str | None) -> bytes:
    """The bytes of a regular file of at most `limit` bytes; with a `pin`, only if they are the pinned ones."""
    if not path.is_file():
        raise ValueError(f"{path} must be a regular file; put the official file there.")
    with path.open("rb") as stream:
        size = path.stat().st_size
        if size > limit:
            raise ValueError(f"{path} has {size:,} bytes where at most {limit:,} are expected; fetch it again.")
        if pin is not None:
            digest = hasher(pin)
            for piece in pieces(stream, limit + 1):
                digest.update(piece)
            check_pin(digest.hexdigest(), pin, str(path))
            stream.seek(0)
        content = stream.read(size + 1)
    if pin is not None:
        check_bytes(content, pin, str(path))
    return content


def check_bytes(content: bytes, pin: str, name: str) -> None:
    """Refuse bytes that are not the pinned ones."""
    digest = hasher(pin)
    digest.update(content)
    check_pin(digest.hexdigest(), pin, name)


def check_pin(found: str, pin: str, name: str) -> None:
    """Refuse a hash that is not the pinned one."""
    if found != pin:
        raise ValueError(f"{name} is not the official file: its hash should be {pin[:12]}… and is {found[:12]}…; "
                         "it is damaged or another file, fetch it again.")
