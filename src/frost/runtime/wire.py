"""Messages between a process and its engine's: a text in JSON and, behind it, the bytes of tensors.

    4 bytes   length of the text        4 bytes   length of what is behind it

Plain numbers and names only: what comes in is read, never run.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from frost.core.inputs import Inputs, Signature
from frost.halting.budget import Budget
from frost.halting.stopping import AtDepth, Rule
from frost.runtime.budgets import Grant

HEAD = struct.Struct("<II")


def message(words: dict[str, Any], *parts: bytes) -> bytes:
    """Ready to be sent."""
    text, behind = json.dumps(words, separators=(",", ":")).encode(), b"".join(parts)
    return HEAD.pack(len(text), len(behind)) + text + behind


class Incoming:
    """Puts messages together again from the pieces in which they come."""

    def __init__(self) -> None:
        self._held = bytearray()

    def add(self, piece: bytes) -> Iterator[tuple[dict[str, Any], bytearray]]:
        """The messages that this piece has completed."""
        self._held += piece
        while len(self._held) >= HEAD.size:
            text, behind = HEAD.unpack_from(self._held)
            end = HEAD.size + text + behind
            if len(self._held) < end:
                return
            words = json.loads(self._held[HEAD.size:HEAD.size + text])
            payload = self._held[HEAD.size + text:end]
            del self._held[:end]
            yield words, payload


def inputs_of(payload: bytearray, count: int, signature: Signature, dtypes: Sequence[torch.dtype]) -> list[Inputs]:
    """Inputs that look alike, of which the bytes came part by part; the tensors share their memory."""
    begin, columns = 0, []
    for part, dtype in zip(signature.parts, dtypes, strict=True):
        numbers = count * math.prod(part.shape)
        column = torch.frombuffer(payload, dtype=dtype, count=numbers, offset=begin) if numbers else torch.empty(
            0, dtype=dtype)
        columns.append(column.view(count, *part.shape).unbind())
        begin += numbers * dtype.itemsize
    if signature.kind == "tensor":
        return list(columns[0])
    rows = list(zip(*columns, strict=True))
    if signature.kind == "tuple":
        return list(rows)
    return [{part.name: value for part, value in zip(signature.parts, row, strict=True)} for row in rows]


def outputs_of(payload: bytearray, count: int, shape: Sequence[int], dtype: torch.dtype) -> list[Tensor]:
    """The outputs behind some answers."""
    if not count:
        return []
    return list(torch.frombuffer(payload, dtype=dtype).view(count, *shape).unbind())


def grant_to_json(grant: Grant) -> list[Any]:
    """Plain values."""
    rule = grant.rule
    if isinstance(rule, AtDepth):
        words: Any = rule.depth
    else:
        assert isinstance(rule, Rule)
        words = [rule.name, list(rule.thresholds), rule.quantile]
    return [grant.budget.named(), words, grant.limit, grant.mean_depth, grant.is_reduced]


def grant_from_json(values: list[Any]) -> Grant:
    """What `grant_to_json` wrote."""
    budget, words, limit, mean_depth, is_reduced = values
    rule = AtDepth(words) if isinstance(words, int) else Rule(words[0], tuple(words[1]), words[2])
    return Grant(Budget(**budget), rule, limit, mean_depth, is_reduced)
