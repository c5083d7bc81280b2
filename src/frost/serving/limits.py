"""What a request may take; each number is a row of the table in docs/guides/serve-a-run.md, and has a test."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes and times."""

    body: int = 2**20                # bytes
    header: int = 32 * 1024          # bytes of request line and headers together
    pixels: int = 4_000_000          # of an image, by its header
    images: int = 64                 # or inputs, in a request
    json_depth: int = 32             # brackets inside one another
    header_seconds: float = 10.0     # from the first moment until the headers are there
    body_seconds: float = 10.0       # from the headers until the body is there
    answer_seconds: float = 10.0     # until the client has taken the answer
    deadline: float = 30.0           # seconds, the longest that a request may ask for, and what it has without asking
    drain: float = 10.0              # seconds, from SIGTERM until the process ends


LIMITS = Limits()
SHORTEST_KEY = 16    # characters


def check_keys(keys: Collection[bytes]) -> None:
    """Refuse keys that somebody could guess, an empty one among them."""
    if keys and min(map(len, keys)) < SHORTEST_KEY:
        raise ValueError(f"each key must have {SHORTEST_KEY} characters or more.")
