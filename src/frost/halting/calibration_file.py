"""How a calibration is stored: sizes checked before anything is made of that size, numbers as text, one checksum."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import numpy as np

from frost.halting.rule_choice import forms_of
from frost.halting.signals import SIGNALS
from frost.halting.threshold_fit import Quality, Values


def check_stored(plain: dict[str, Any]) -> None:
    """Refuse sizes that the stored bytes do not have, before anything is made of that size."""
    images, depth = plain["images"], plain["depth"]
    if type(images) is not int or type(depth) is not int or images < 0 or depth < 1:
        raise ValueError(f"{images!r} images of depth {depth!r}")
    for name, stored in plain["signals"].items():
        if name not in SIGNALS:
            raise ValueError(f"it has a signal '{name}', which does not exist")
        if len(as_bytes(stored)) != 4 * images * depth:
            raise ValueError(f"its values of '{name}' are not those of {images} images of depth {depth}")
    for _, form, _ in plain["choices"]:
        if form not in forms_of(plain["signals"]):
            raise ValueError(f"it chose '{form}' and has no values of it")
    if plain["hits"] is not None and len(as_bytes(plain["hits"])) != -(-images * depth // 8):
        raise ValueError(f"its hits are not those of {images} images of depth {depth}")
    if "quality" in plain and len(as_bytes(plain["quality"])) != 4 * images * depth:
        raise ValueError(f"its quality is not that of {images} inputs of depth {depth}")
    if plain["rule"] not in plain["signals"]:
        raise ValueError(f"it is for a rule '{plain['rule']}', of which it has no values")


def stored_quality(plain: dict[str, Any], shape: tuple[int, int]) -> Quality | None:
    """Bits where every answer was right or wrong, else numbers."""
    if "quality" in plain:
        return np.frombuffer(as_bytes(plain["quality"]), "<f4").reshape(shape).astype(np.float64)
    if plain["hits"] is None:
        return None
    packed = np.frombuffer(as_bytes(plain["hits"]), np.uint8)
    return np.unpackbits(packed, count=shape[0] * shape[1]).reshape(shape).astype(np.float64)


def stored_signals(plain: dict[str, Any], shape: tuple[int, int]) -> dict[str, Values]:
    """Traces by the name of their signal."""
    return {name: np.frombuffer(as_bytes(stored), "<f4").reshape(shape).astype(np.float32)
            for name, stored in plain["signals"].items()}


def as_text(content: bytes) -> str:
    """Bytes in base64."""
    return base64.b64encode(content).decode("ascii")


def as_bytes(stored: str) -> bytes:
    """The bytes of a text in base64."""
    return base64.b64decode(stored, validate=True)


def checksum(plain: dict[str, Any]) -> str:
    """SHA-256 over plain values."""
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
