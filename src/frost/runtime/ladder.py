"""Shapes that an engine may run at, up to its slots; the smallest that holds what runs.

A lone input in 64 slots would take as long as 64. Where a shape costs nothing there is one for every four rows, and
beyond 64 at least eight to an octave; where it is compiled first, powers of two. Bits are the same at one shape, and on
some backends at all (`Backend.ignores_shape`); a single rung is the strict mode.
"""

from __future__ import annotations

from bisect import bisect_left


class Ladder:
    """The shapes, in order.

    Args:
        is_strict: one shape.
        is_coarse: few of them.
    """

    def __init__(self, slots: int, is_strict: bool, is_coarse: bool = False) -> None:
        powers = [2**power for power in range(slots.bit_length())]
        fine = [] if is_coarse else [row for power in powers for row in range(power, 2 * power, max(4, power // 8))]
        self.rungs = (slots,) if is_strict else tuple(sorted({
            slots, *powers, *(row for row in fine if row <= slots)}))

    def fit(self, rows: int) -> int:
        """The smallest shape with at least so many rows."""
        return self.rungs[bisect_left(self.rungs, rows)]
