"""From a budget to a threshold (§4.4, Eq. 20).

A calibration holds the scores that frozen weights gave to held-out images, as a sketch, and names those weights.
Paper choice: scores of a moving model are not mixed in, although §4.4 gathers them during training.
"""

from __future__ import annotations

import base64
import binascii
import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from frost.halting.policy import ByScore
from frost.halting.sketch import KllSketch


class NotCalibrated(ValueError):
    """A threshold was asked for, and no score has been seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Held-out halting scores of one set of weights, and the thresholds that follow from them."""

    sketch: KllSketch   # of score logits, over images and steps
    weights_hash: str   # of the weights that gave the scores
    depth: int          # T while they were gathered
    dropped: int = 0    # scores that were not finite

    @classmethod
    def gather(cls, score_logits: Tensor, *, weights_hash: str, k: int = 2048, seed: int = 0) -> Calibration:
        """Fill a sketch with the scores of held-out trajectories, (b, t)."""
        sketch = KllSketch(k=k, seed=seed)
        values = score_logits.detach().double().cpu().numpy().ravel()
        dropped = sketch.update(values)
        return cls(sketch=sketch, weights_hash=weights_hash, depth=score_logits.shape[1], dropped=dropped)

    def at_quantile(self, quantile: float) -> ByScore:
        """The rule whose threshold has the share `quantile` of the calibration scores at or below it.

            P(s ≤ s_halt) ≈ q        (20)

        q = 1 means never early: exactly T steps, by definition. q = 0 stops everybody at the first step.
        """
        if not 0.0 <= quantile <= 1.0:
            raise ValueError(f"quantile must lie in [0, 1], got {quantile}; 1 is full depth.")
        if self.sketch.count == 0:
            raise NotCalibrated("the calibration has seen no score; gather it on held-out images first.")
        if quantile == 1.0:
            return ByScore(math.inf, quantile)
        if quantile == 0.0:
            return ByScore(-math.inf, quantile)
        return ByScore(self.sketch.quantile(quantile), quantile)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; the sketch keeps its own version and checksum."""
        sketch = base64.b64encode(self.sketch.to_bytes()).decode("ascii")
        return {"weights_hash": self.weights_hash, "depth": self.depth, "dropped": self.dropped, "sketch": sketch}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Calibration:
        """Read what `to_dict` wrote; anything else is refused."""
        expected = {"weights_hash": str, "depth": int, "dropped": int, "sketch": str}
        if set(values) != set(expected) or any(type(values[name]) is not kind for name, kind in expected.items()):
            raise ValueError(f"a calibration has the fields {', '.join(expected)}; calibrate the run again.")
        try:
            sketch = KllSketch.from_bytes(base64.b64decode(values["sketch"], validate=True))
        except binascii.Error as error:
            raise ValueError(f"the calibration's sketch is damaged ({error}); calibrate the run again.") from error
        return cls(sketch=sketch, weights_hash=values["weights_hash"], depth=values["depth"], dropped=values["dropped"])
