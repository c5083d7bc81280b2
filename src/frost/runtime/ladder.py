"""Shapes that an engine may run at: 1, 2, 4, 8, 12, 16, 24, 32, … up to its slots; the smallest that holds what runs.

A lone input in 64 slots would take as long as 64. Bits are the same at one shape, and on some backends at all
(`Backend.ignores_shape`); a single rung is the strict mode.
"""

from __future__ import annotations

from bisect import bisect_left


class Ladder:
    """The shapes, in order."""

    def __init__(self, slots: int, is_strict: bool) -> None:
        powers = [2**power for power in range(slots.bit_length())]
        steps = {slots, *powers, *(power + power // 2 for power in powers if power >= 8)}
        self.rungs = (slots,) if is_strict else tuple(sorted(step for step in steps if step <= slots))

    def fit(self, rows: int) -> int:
        """The smallest shape with at least so many rows."""
        return self.rungs[bisect_left(self.rungs, rows)]
