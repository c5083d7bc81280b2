"""From a budget to a stopping rule (§4.4, Eq. 20).

A calibration holds what frozen weights gave for held-out images: the signal of one rule, image by image and step by
step (traces), sketches of it, and how good the answer was; it names the weights. Questions are answered from it
without the model. Paper choice: scores of a moving model are not mixed in, although §4.4 gathers them during training.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from frost.halting.budget import Quality, Reached, Values, per_step_at_mean_depth, pooled_at_mean_depth, stops_at
from frost.halting.guarantee import cheapest_safe
from frost.halting.policy import Rule
from frost.halting.signals import SIGNALS
from frost.halting.sketch import KllSketch

FORMAT = 2
MOST_TRACES = 20_000    # images whose traces are kept; the sketches see all
NEAR = 0.02             # of T: how far from the wish a mean depth may be and still count as reached


class NotCalibrated(ValueError):
    """A threshold was asked for, and what it would be derived from is not there."""


class Cost(NamedTuple):
    """FLOPs for one image."""

    once: int     # stem, B and D
    first: int    # the first step, free where it starts from h_0 = 0
    step: int     # each step after it

    def at(self, mean_depth: float) -> float:
        """Of an image that takes this many steps."""
        return self.once + self.first + (mean_depth - 1) * self.step


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """Held-out signals of one set of weights, and the stopping rules that follow from them."""

    weights_hash: str               # of the weights that gave them
    rule: str                       # whose signal it is
    values: Values                  # traces, (n, t)
    quality: Quality | None         # how good the answer was, in [0, 1], (n, t); None where it is not known
    pooled: KllSketch               # over images and steps
    per_step: tuple[KllSketch, ...]
    dropped: int = 0                # images with a signal that is not a number
    cost: Cost | None = None
    per_step_thresholds: bool = False   # what `at_mean_depth` gives unless it is told otherwise

    @classmethod
    def gather(cls, values: Tensor, quality: Tensor | None = None, *, weights_hash: str, rule: str = "rank",
               cost: Cost | None = None, k: int = 2048, seed: int = 0,
               per_step_thresholds: bool = False) -> Calibration:
        """From the signal of held-out inputs along their trajectories, (b, t), and their quality, (b, t)."""
        if rule not in SIGNALS:
            raise ValueError(f"there is no stopping rule '{rule}'. Known: {', '.join(SIGNALS)}.")
        array = values.detach().double().cpu().numpy()
        kept = ~np.isnan(array).any(axis=1) & ~(array == np.inf).any(axis=1)
        pooled = KllSketch(k=k, seed=seed)
        pooled.update(array[kept])
        per_step = []
        for step in range(array.shape[1]):
            sketch = KllSketch(k=max(8, k // 4), seed=seed)
            sketch.update(array[kept, step])
            per_step.append(sketch)
        rows = _spread(int(kept.sum()))
        known = None if quality is None else quality.detach().cpu().numpy().astype(np.float64)[kept][rows]
        traces = array[kept][rows].astype(np.float32)
        return cls(weights_hash=weights_hash, rule=rule, values=traces, quality=known, pooled=pooled,
                   per_step=tuple(per_step), dropped=int((~kept).sum()), cost=cost,
                   per_step_thresholds=per_step_thresholds)

    def __repr__(self) -> str:
        known = "unknown" if self.quality is None else f"{self.quality[:, -1].mean():.3f} at full depth"
        return f"Calibration(rule={self.rule!r}, inputs={len(self.values)}, depth={self.depth}, quality {known})"

    @property
    def depth(self) -> int:
        """T while the signals were gathered."""
        return self.values.shape[1]

    def at_quantile(self, quantile: float, per_step: bool = False) -> Rule:
        """The rule whose threshold has the share `quantile` of the calibration scores at or below it.

            P(s ≤ s_halt) ≈ q        (20)

        q = 1 means never early: exactly T steps, by definition. q = 0 stops everybody at the first step that the rule
        can judge. With `per_step`, each step has a threshold from the scores of that step.
        """
        if not 0.0 <= quantile <= 1.0:
            raise ValueError(f"quantile must lie in [0, 1], got {quantile}; 1 is full depth.")
        self._check_seen()
        if quantile in (0.0, 1.0):
            return Rule(self.rule, (math.inf if quantile else -math.inf,), quantile)
        if per_step:
            return Rule.fitted(self.rule, [sketch.quantile(quantile) if sketch.count else math.inf
                                           for sketch in self.per_step], quantile)
        return Rule.fitted(self.rule, (self.pooled.quantile(quantile),), quantile)

    def at_mean_depth(self, mean_depth: float, per_step: bool | None = None) -> Rule:
        """The rule that takes this many steps in the mean over the held-out images, by first passage.

        With `per_step`, each step has a threshold, chosen to get many right answers out of that depth on fresh images.
        """
        self._check_seen()
        if self.per_step_thresholds if per_step is None else per_step:
            reached = per_step_at_mean_depth(self.values, self._known_quality(), mean_depth)
        else:
            reached = pooled_at_mean_depth(self.values, mean_depth)
        self._check_near(reached, mean_depth)
        return Rule.fitted(self.rule, reached.thresholds)

    def at_flops(self, flops: float, per_step: bool | None = None) -> Rule:
        """The rule that costs this many FLOPs an image in the mean over the held-out images."""
        if self.cost is None:
            raise NotCalibrated("this calibration does not know what a step costs; frost calibrate RUN makes one that "
                                "does.")
        least, most = self.cost.at(1), self.cost.at(self.depth)
        if not least <= flops <= most:
            raise ValueError(f"flops must lie between {least:.3g} (one step) and {most:.3g} (all {self.depth}), got "
                             f"{flops:.3g}.")
        return self.at_mean_depth(min(1 + (flops - self.cost.at(1)) / max(self.cost.step, 1), self.depth), per_step)

    def at_accuracy_loss(self, points: float, confidence: float = 0.95, per_step: bool | None = None) -> Rule:
        """The cheapest rule certified to lose at most so many points against full depth.

        With the given confidence over the draw of the held-out images, the loss on fresh images of the same kind is at
        most `points` (`halting.guarantee`). Full depth where nothing less can be certified.
        """
        self._check_seen()
        return Rule.fitted(self.rule, cheapest_safe(self.values, self._known_quality(), points / 100, confidence,
                                                    per_step=per_step))

    def mean_depth_of(self, rule: Rule) -> float:
        """The mean depth that a rule takes on the held-out images."""
        self._check_seen()
        return float(stops_at(self.values, rule.thresholds).mean())

    def merge(self, other: Calibration) -> Calibration:
        """The calibration of two machines that each saw a part of the held-out images."""
        for name in ("weights_hash", "rule", "depth", "cost"):
            if getattr(self, name) != getattr(other, name):
                raise ValueError(f"only calibrations of the same {name} can be merged, got {getattr(self, name)} and "
                                 f"{getattr(other, name)}.")
        sketches = [KllSketch.from_bytes(sketch.to_bytes()) for sketch in (self.pooled, *self.per_step)]
        for ours, theirs in zip(sketches, (other.pooled, *other.per_step), strict=True):
            ours.merge(theirs)
        values = np.concatenate([self.values, other.values])
        rows = _spread(len(values))
        quality = None
        if self.quality is not None and other.quality is not None:
            quality = np.concatenate([self.quality, other.quality])[rows]
        return replace(self, pooled=sketches[0], per_step=tuple(sketches[1:]), dropped=self.dropped + other.dropped,
                       values=values[rows], quality=quality,
                       per_step_thresholds=self.per_step_thresholds and quality is not None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, and a checksum over them all."""
        is_plain = self.quality is None or bool(np.isin(self.quality, (0.0, 1.0)).all())
        plain: dict[str, Any] = {
            "format": FORMAT, "weights_hash": self.weights_hash, "rule": self.rule, "dropped": self.dropped,
            "images": len(self.values), "depth": self.depth, "values": _text(self.values.astype("<f4").tobytes()),
            "hits": None if self.quality is None or not is_plain else _text(np.packbits(self.quality > 0).tobytes()),
            "pooled": _text(self.pooled.to_bytes()), "per_step": [_text(sketch.to_bytes()) for sketch in self.per_step],
            "cost": None if self.cost is None else list(self.cost), "per_step_thresholds": self.per_step_thresholds}
        if self.quality is not None and not is_plain:    # a bit an answer is not enough
            plain["quality"] = _text(self.quality.astype("<f4").tobytes())
        return {**plain, "sha256": _checksum(plain)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Calibration:
        """Read what `to_dict` wrote; anything else is refused."""
        plain = {name: value for name, value in values.items() if name != "sha256"} if isinstance(values, dict) else {}
        if plain.get("format") != FORMAT:
            raise ValueError(f"this is no calibration of format {FORMAT}, which this frost reads; calibrate the run "
                             "again: frost calibrate RUN.")
        try:
            if values.get("sha256") != _checksum(plain):
                raise ValueError("its checksum does not fit")
            shape = (plain["images"], plain["depth"])
            _check_stored(plain)
            return cls(weights_hash=plain["weights_hash"], rule=plain["rule"], dropped=plain["dropped"],
                       quality=_stored_quality(plain, shape),
                       values=np.frombuffer(_bytes(plain["values"]), "<f4").reshape(shape).astype(np.float32),
                       pooled=KllSketch.from_bytes(_bytes(plain["pooled"])),
                       per_step=tuple(KllSketch.from_bytes(_bytes(stored)) for stored in plain["per_step"]),
                       cost=None if plain["cost"] is None else Cost(*plain["cost"]),
                       per_step_thresholds=plain["per_step_thresholds"])
        except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
            raise ValueError(f"the calibration is damaged ({error}); make it again: frost calibrate RUN.") from error

    def _known_quality(self) -> Quality:
        if self.quality is None:
            raise NotCalibrated("this calibration does not know which answers were right; gather it from inputs with "
                                "labels: frost calibrate RUN.")
        return self.quality

    def _check_seen(self) -> None:
        if not len(self.values) or not self.pooled.count:
            raise NotCalibrated("the calibration has seen no score; gather it on held-out images first.")

    def _check_near(self, reached: Reached, wish: float) -> None:
        if abs(reached.mean_depth - wish) > NEAR * self.depth:
            raise ValueError(f"no threshold of '{self.rule}' gives a mean depth of {wish:g}: the nearest is "
                             f"{reached.mean_depth:.3f}; ask for that, or for another rule.")


def _spread(count: int) -> NDArray[np.int64]:
    """All rows, or as many as are kept, evenly spread over them."""
    return np.linspace(0, count - 1, min(count, MOST_TRACES)).round().astype(np.int64)


def _check_stored(plain: dict[str, Any]) -> None:
    """Refuse sizes that the stored bytes do not have, before anything is made of that size."""
    images, depth = plain["images"], plain["depth"]
    if type(images) is not int or type(depth) is not int or images < 0 or depth < 1:
        raise ValueError(f"{images!r} images of depth {depth!r}")
    if len(_bytes(plain["values"])) != 4 * images * depth:
        raise ValueError(f"its values are not those of {images} images of depth {depth}")
    if plain["hits"] is not None and len(_bytes(plain["hits"])) != -(-images * depth // 8):
        raise ValueError(f"its hits are not those of {images} images of depth {depth}")
    if "quality" in plain and len(_bytes(plain["quality"])) != 4 * images * depth:
        raise ValueError(f"its quality is not that of {images} inputs of depth {depth}")
    if plain["rule"] not in SIGNALS:
        raise ValueError(f"it is for a rule '{plain['rule']}', which does not exist")


def _stored_quality(plain: dict[str, Any], shape: tuple[int, int]) -> Quality | None:
    """Bits where every answer was right or wrong, else numbers."""
    if "quality" in plain:
        return np.frombuffer(_bytes(plain["quality"]), "<f4").reshape(shape).astype(np.float64)
    if plain["hits"] is None:
        return None
    packed = np.frombuffer(_bytes(plain["hits"]), np.uint8)
    return np.unpackbits(packed, count=shape[0] * shape[1]).reshape(shape).astype(np.float64)


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _bytes(stored: str) -> bytes:
    return base64.b64decode(stored, validate=True)


def _checksum(plain: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
