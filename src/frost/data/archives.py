"""Named members of a .tar.gz, read without unpacking anything.

Nothing is ever written, so no member can land outside a target. Headers are walked one by one and never trusted: only
members of the wanted names are read, each must be a regular file, occur once and match its pin. Long-name and other
extension headers are passed over like any member, because obeying them would mean reading as much as they claim.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from frost.data.hashes import check_bytes, check_pin, hasher, pieces

BLOCK = 512                        # tar is made of blocks of this size
MOST_MEMBERS = 64                  # the official archives have fewer than ten
EMPTY = (tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE)
MOST_BYTES = 512 * 1024 * 1024     # unpacked, all members together


def read_members(archive: Path, pins: Mapping[str, str], limit: int) -> dict[str, bytes]:
    """The pinned members of an archive by name, each of at most `limit` bytes.

    The archive is read twice: first to check every pin in constant memory, then to keep what passed.
    """
    for is_kept in (False, True):
        kept = _walk(archive, pins, limit, is_kept)
    return kept


def _walk(archive: Path, pins: Mapping[str, str], limit: int, is_kept: bool) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    try:
        with archive.open("rb") as packed, gzip.GzipFile(fileobj=packed) as stream:
            for member in _members(stream, archive):
                name, padding = member.name, -member.size % BLOCK
                if name not in pins:
                    _skip(stream, member.size + padding, archive)
                    continue
                if name in found:
                    raise ValueError(f"{archive} holds {name} more than once; fetch the official archive again.")
                if not member.isreg() or member.size > limit:
                    raise ValueError(f"{archive}: {name} must be a regular file of at most {limit:,} bytes; "
                                     "fetch the official archive again.")
                found[name] = _content(stream, member, pins[name], f"{name} in {archive}", is_kept)
                _skip(stream, padding, archive)
    except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.HeaderError) as error:
        raise ValueError(f"{archive} is damaged ({error}); fetch it again.") from None
    missing = sorted(set(pins) - set(found))
    if missing:
        raise ValueError(f"{archive} lacks {', '.join(missing)}; fetch the official archive again.")
    return found


def _members(stream: gzip.GzipFile, archive: Path) -> Iterator[tarfile.TarInfo]:
    """The headers of an archive, in order; the caller reads or passes over the content of one before the next."""
    total = 0
    for count in range(MOST_MEMBERS + 1):
        header = stream.read(BLOCK)
        if not header.strip(b"\0"):   # the end, marked or not
            return
        member = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        if member.type in EMPTY:
            member.size = 0
        total += member.size
        if member.size < 0 or total > MOST_BYTES:
            raise ValueError(f"{archive} claims more than {MOST_BYTES:,} bytes; it is not the official archive.")
        if count == MOST_MEMBERS:
            raise ValueError(f"{archive} has more than {MOST_MEMBERS} members; it is not the official archive.")
        yield member


def _content(stream: gzip.GzipFile, member: tarfile.TarInfo, pin: str, name: str, is_kept: bool) -> bytes:
    if is_kept:
        content = stream.read(member.size)
        check_bytes(content, pin, name)
        return content
    digest = hasher(pin)
    for piece in pieces(stream, member.size):
        digest.update(piece)
    check_pin(digest.hexdigest(), pin, name)
    return b""


def _skip(stream: gzip.GzipFile, size: int, archive: Path) -> None:
    """Pass over bytes, in constant memory."""
    if sum(len(piece) for piece in pieces(stream, size)) != size:
        raise ValueError(f"{archive} ends in the middle of a member; fetch it again.")
