"""Do the inputs of today look like those that the thresholds come from? Asked of what a server sees.

Only the first step is compared: every input takes it, whatever its budget. What was seen is forgotten in turns, so that
a change after a week shows as soon as one after an hour.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from frost.halting.calibration import Calibration
from frost.halting.drift import Watch
from frost.halting.stopping import Rule

LEAST = 128                  # inputs before anything is said; looked at again at twice as many, and so on
TURN = LEAST * 2**6          # inputs after which counting begins anew


class Drift(NamedTuple):
    """The signals at the first step, then and now."""

    inputs: int        # seen
    distance: float    # the largest difference of the two distribution functions
    limit: float       # that chance stays below

    @property
    def has_drifted(self) -> bool:
        """Whether they differ by more than chance explains."""
        return self.distance > self.limit


class FirstStep(Watch):
    """Watches the calibration's first signal at the first step; compares now and then, so that chance has few tries."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self.drift: Drift | None = None    # as it was found last; None before the first look
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget what was seen, not what was found."""
        super().__init__(self._calibration, Rule(next(iter(self._calibration.signals)), (math.inf,)))
        self._seen, self._next = 0, LEAST

    def see(self, steps: np.ndarray, values: np.ndarray) -> None:
        """Take in the signal of inputs that have taken their first step; in the engine's thread."""
        first = values[steps == 1]
        if not first.size:
            return
        super().see(np.ones(first.size, dtype=np.int64), first)
        self._seen += int(first.size)
        if self._seen >= self._next:
            self._next *= 2
            lines = self.drifts()
            self.drift = Drift(lines[0].now, lines[0].distance, lines[0].limit) if lines else self.drift
        if self._seen >= TURN:
            self.begin_anew()
