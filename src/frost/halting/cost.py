"""What an input costs that takes some number of steps."""

from __future__ import annotations

from typing import NamedTuple


class Cost(NamedTuple):
    """FLOPs for one image."""

    once: int     # stem, B and D
    first: int    # the first step, free where it starts from h_0 = 0
    step: int     # each step after it

    def at(self, mean_depth: float) -> float:
        """Of an image that takes this many steps."""
        return self.once + self.first + (mean_depth - 1) * self.step
