"""Shapes that an engine may run at: 1, 2, 4, … up to its slots; the smallest that holds what is running.

A lone input in 64 slots would take as long as 64. Bits are the same at one shape, and on some backends at all
(`Backend.ignores_shape`); a single rung is the strict mode.
"""

from __future__ import annotations

from bisect import bisect_left


class Ladder:
    """The shapes, in order."""

    def __init__(self, slots: int, is_strict: bool) -> None:
        self.rungs = (slots,) if is_strict else (*(2**power for power in range(slots.bit_length())
                                                   if 2**power < slots), slots)

    def fit(self, rows: int) -> int:
        """The smallest shape with at least so many rows."""
        return self.rungs[bisect_left(self.rungs, rows)]
