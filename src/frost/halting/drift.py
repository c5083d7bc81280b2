"""Do the images of today look like those that the thresholds come from?

Live, an image is seen only until it stops. So the scores that arrive at step t are compared with those of the held-out
images that would have reached step t under the same rule, by the largest difference of their distribution functions
(Kolmogorov and Smirnov), each against the 1 − α/T quantile of what chance gives.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from frost.halting.calibration import Calibration
from frost.halting.sketch import KllSketch, rank_error
from frost.halting.stopping import Rule


class StepDrift(NamedTuple):
    """The scores at one step, then and now."""

    step: int
    then: int            # held-out images that reach the step
    now: int             # images seen there
    distance: float      # largest difference of the two distribution functions
    limit: float         # that chance stays below, the error of the sketch included


class Watch:
    """Collects live scores and compares them with a calibration's.

    Args:
        rule: the stopping rule in use, which decides what is seen at a later step.
        alarm: α, the chance of a false alarm in one check.
    """

    def __init__(self, calibration: Calibration, rule: Rule, alarm: float = 0.01, k: int = 512) -> None:
        if rule.name not in calibration.signals:
            raise ValueError(f"the rule '{rule.name}' cannot be watched with a calibration of "
                             f"{', '.join(calibration.signals)}.")
        self.alarm = alarm
        reaches, values = calibration.depths_of(rule), calibration.signals[rule.name]
        self._then = [np.sort(values[reaches > step, step]) for step in range(calibration.depth)]
        self._now = [KllSketch(k=k) for _ in range(calibration.depth)]

    def see(self, steps: np.ndarray, values: np.ndarray) -> None:
        """Take in the signal of some images at their steps (from 1); what is not finite is left out."""
        for step in np.unique(steps):
            if 1 <= step <= len(self._now):
                self._now[step - 1].update(values[steps == step])

    def drifts(self) -> list[StepDrift]:
        """One line for each step that was reached both then and now."""
        lines = []
        for step, (then, now) in enumerate(zip(self._then, self._now, strict=True), start=1):
            finite = then[np.isfinite(then)]
            if finite.size and now.count:
                chance = math.sqrt(-0.5 * math.log(self.alarm / (2 * len(self._now))))
                limit = chance * math.sqrt(1 / finite.size + 1 / now.count)
                limit += rank_error(now.k) if now.count > now.k else 0.0
                lines.append(StepDrift(step, int(finite.size), now.count, _distance(finite, now), limit))
        return lines

    @property
    def has_drifted(self) -> bool:
        """Whether any step's scores differ by more than chance explains: time to calibrate again."""
        return any(line.distance > line.limit for line in self.drifts())


def _distance(then: np.ndarray, now: KllSketch) -> float:
    """The largest difference of two distribution functions, at the jumps of either."""
    live = np.array([now.quantile(share) for share in np.linspace(0, 1, 257)])
    places = np.concatenate([then, live])
    ours = np.searchsorted(then, places, side="right") / then.size
    return float(np.abs(ours - now.ranks(places)).max())
