"""From a budget to a stopping rule (§4.4, Eq. 20).

A calibration holds what frozen weights gave for held-out inputs: signals, input by input and step by step (traces),
sketches of the paper's one, how good the answers were, and which form of rule won at each budget; it names the weights.
Questions are answered from it without the model. Paper choice: scores of a moving model are not mixed in, although §4.4
gathers them during training.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from frost.config import suggest
from frost.halting.calibration_file import as_bytes, as_text, check_stored, checksum, stored_quality, stored_signals
from frost.halting.cost import Cost
from frost.halting.guarantee import certified_threshold
from frost.halting.rule_choice import (
    FIXED,
    PER_STEP,
    TWO_STEP,
    Choice,
    chosen,
    forms_of,
    is_near,
    signal_of,
    thresholds_of,
)
from frost.halting.signals import SIGNALS
from frost.halting.sketch import KllSketch
from frost.halting.stopping import Rule
from frost.halting.threshold_fit import Quality, Reached, Values, stops_at

FORMAT = 3
MOST_TRACES = 20_000    # images whose traces are kept; the sketches see all


class NotCalibrated(ValueError):
    """A threshold was asked for, and what it would be derived from is not there."""


class OutOfReach(ValueError):
    """No threshold of a rule gives the mean depth that was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """Held-out signals of one set of weights, and the stopping rules that follow from them."""

    weights_hash: str               # of the weights that gave them
    rule: str                       # whose quantiles `at_quantile` gives
    signals: dict[str, Values]      # traces by the name of the signal, (n, t); the rule's comes first
    quality: Quality | None         # how good the answer was, in [0, 1], (n, t); None where it is not known
    pooled: KllSketch               # over images and steps
    per_step: tuple[KllSketch, ...]
    dropped: int = 0                # images with a signal that is not a number
    cost: Cost | None = None
    choices: tuple[Choice, ...] = ()    # the form that won at each budget; empty: one threshold on the rule's signal

    @classmethod
    def gather(cls, values: Tensor | Mapping[str, Tensor], quality: Tensor | None = None, *, weights_hash: str,
               rule: str | None = None, cost: Cost | None = None, k: int = 2048, seed: int = 0,
               choose: bool = False) -> Calibration:
        """From signals of held-out inputs along their trajectories, (b, t) each, and their quality, (b, t).

        Args:
            values: of one signal, or of several by name.
            rule: the signal that quantiles are of; the first one unless it is said, and the score where there is none.
            choose: compare all forms of all signals, and keep the one that wins at each budget.
        """
        given = dict(values) if isinstance(values, Mapping) else {rule or "rank": values}
        rule = rule or next(iter(given))
        for name in (rule, *given):
            if name not in SIGNALS:
                raise ValueError(f"there is no stopping rule '{name}'. Known: {', '.join(SIGNALS)}.")
        arrays = {name: given[name].detach().double().cpu().numpy() for name in (rule, *given)}
        kept = ~np.any([np.isnan(array) | (array == np.inf) for array in arrays.values()], axis=(0, 2))
        pooled = KllSketch(k=k, seed=seed)
        pooled.update(arrays[rule][kept])
        per_step = []
        for step in range(arrays[rule].shape[1]):
            sketch = KllSketch(k=max(8, k // 4), seed=seed)
            sketch.update(arrays[rule][kept, step])
            per_step.append(sketch)
        rows = _spread(int(kept.sum()))
        known = None if quality is None else quality.detach().cpu().numpy().astype(np.float64)[kept][rows]
        traces = {name: array[kept][rows].astype(np.float32) for name, array in arrays.items()}
        choices = chosen(traces, known) if choose and known is not None else ()
        return cls(weights_hash=weights_hash, rule=rule, quality=known, pooled=pooled, per_step=tuple(per_step),
                   signals=traces, dropped=int((~kept).sum()), cost=cost, choices=choices)

    def __repr__(self) -> str:
        known = "unknown" if self.quality is None else f"{self.quality[:, -1].mean():.3f} at full depth"
        return f"Calibration(rule={self.rule!r}, inputs={self.inputs}, depth={self.depth}, quality {known})"

    @property
    def values(self) -> Values:
        """The traces of the rule's signal, (n, t)."""
        return self.signals[self.rule]

    @property
    def inputs(self) -> int:
        """How many traces there are."""
        return len(self.values)

    @property
    def depth(self) -> int:
        """T while the signals were gathered."""
        return self.values.shape[1]

    def at_quantile(self, quantile: float, per_step: bool = False) -> Rule:
        """The rule whose threshold has the share `quantile` of the calibration scores at or below it.

            P(s ≤ s_halt) ≈ q        (20)

        q = 1 means never early: exactly T steps, by definition. q = 0 stops every image at the first step that the rule
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

    def at_mean_depth(self, mean_depth: float, form: str | None = None) -> Rule:
        """The rule that takes this many steps in the mean over the held-out inputs, by first passage.

        Args:
            form: a signal with one threshold for all steps, such as `margin`, with one for each, `margin-per-step`,
                with one between the two steps next to this depth, `margin-two-step`; or `fixed`, which rounds down to
                whole steps. None is the one that won nearest to this budget.
        """
        self._check_seen()
        if form is None:
            return self.choice_at(mean_depth)[1]
        if form not in forms_of(self.signals):
            name = signal_of(str(form))
            if name in SIGNALS and name != FIXED:
                raise NotCalibrated(f"this calibration has no traces of '{name}', but of {', '.join(self.signals)}; "
                                    f"make one that has: frost calibrate RUN --policy {name}.")
            raise ValueError(f"there is no stopping rule '{form}'. {suggest(str(form), forms_of(self.signals))}")
        if form.endswith(PER_STEP):
            self._known_quality()
        signal, reached = thresholds_of(form, self.signals, self.quality, mean_depth)
        self._check_near(reached, mean_depth, form)
        return Rule.fitted(signal, reached.thresholds)

    def choices_at(self, shares: Iterable[float]) -> Iterator[tuple[float, str, Rule]]:
        """For shares of full depth, the share, the form that won there and its rule.

        Shares that no threshold reaches, as with signals in whole steps, are left out.
        """
        for share in shares:
            try:
                yield share, *self.choice_at(max(1.0, share * self.depth))
            except OutOfReach:
                continue

    def choice_at(self, mean_depth: float) -> tuple[str, Rule]:
        """The form that won on the held-out inputs at the budget nearest to this one, and its rule.

        Where no threshold of that form gives this mean depth, the next nearest is asked; after it the first one's
        signal between two steps, unless a winner of a smaller budget is better for less.
        """
        if not self.choices:
            return self.rule, self.at_mean_depth(mean_depth, self.rule)
        near = sorted(self.choices, key=lambda choice: abs(choice.mean_depth - mean_depth))[:2]
        for form in (near[0].form, *(choice.form for choice in near[1:] if choice.form != FIXED)):
            try:
                return form, self.at_mean_depth(mean_depth, form)
            except OutOfReach:
                continue
        between = f"{signal_of(near[0].form)}{TWO_STEP}"
        rules = [(between, self.at_mean_depth(mean_depth, between)),
                 *((choice.form, self.at_mean_depth(choice.mean_depth, choice.form)) for choice in near
                   if choice.mean_depth < mean_depth and choice.form != FIXED)]
        rows, quality = np.arange(self.inputs), self._known_quality()
        return max(rules, key=lambda found: quality[rows, self.depths_of(found[1]) - 1].mean())

    def at_flops(self, flops: float, form: str | None = None) -> Rule:
        """The rule that costs this many FLOPs an image in the mean over the held-out images."""
        if self.cost is None:
            raise NotCalibrated("this calibration does not know what a step costs; frost calibrate RUN makes one that "
                                "does.")
        least, most = self.cost.at(1), self.cost.at(self.depth)
        if not least <= flops <= most:
            raise ValueError(f"flops must lie between {least:.3g} (one step) and {most:.3g} (all {self.depth}), got "
                             f"{flops:.3g}.")
        return self.at_mean_depth(min(1 + (flops - self.cost.at(1)) / max(self.cost.step, 1), self.depth), form)

    def at_accuracy_loss(self, points: float, confidence: float = 0.95) -> Rule:
        """The cheapest rule certified to lose at most so many points against full depth.

        With the given confidence over the draw of the held-out images, the loss on fresh images of the same kind is at
        most `points` (`halting.guarantee`). Full depth where nothing less can be certified.
        """
        self._check_seen()
        return Rule.fitted(*certified_threshold(self.signals, self._known_quality(), points / 100, confidence))

    def mean_depth_of(self, rule: Rule) -> float:
        """The mean depth that a rule takes on the held-out images."""
        return float(self.depths_of(rule).mean())

    def depths_of(self, rule: Rule) -> NDArray[np.int64]:
        """The step at which each held-out input stops under a rule."""
        self._check_seen()
        if rule.name not in self.signals:
            raise NotCalibrated(f"this calibration has no traces of '{rule.name}', but of {', '.join(self.signals)}.")
        return stops_at(self.signals[rule.name], rule.thresholds)

    def merge(self, other: Calibration) -> Calibration:
        """The calibration of two machines that each saw a part of the held-out images."""
        for name in ("weights_hash", "rule", "depth", "cost"):
            if getattr(self, name) != getattr(other, name):
                raise ValueError(f"only calibrations of the same {name} can be merged, got {getattr(self, name)} and "
                                 f"{getattr(other, name)}.")
        sketches = [KllSketch.from_bytes(sketch.to_bytes()) for sketch in (self.pooled, *self.per_step)]
        for ours, theirs in zip(sketches, (other.pooled, *other.per_step), strict=True):
            ours.merge(theirs)
        rows = _spread(self.inputs + other.inputs)
        signals = {name: np.concatenate([values, other.signals[name]])[rows] for name, values in self.signals.items()
                   if name in other.signals}
        quality = None
        if self.quality is not None and other.quality is not None:
            quality = np.concatenate([self.quality, other.quality])[rows]
        choices = chosen(signals, quality) if quality is not None and (self.choices or other.choices) else ()
        return replace(self, pooled=sketches[0], per_step=tuple(sketches[1:]), dropped=self.dropped + other.dropped,
                       signals=signals, quality=quality, choices=choices)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, and a checksum over them all."""
        is_plain = self.quality is None or bool(np.isin(self.quality, (0.0, 1.0)).all())
        plain: dict[str, Any] = {
            "format": FORMAT, "weights_hash": self.weights_hash, "rule": self.rule, "dropped": self.dropped,
            "images": self.inputs, "depth": self.depth,
            "signals": {name: as_text(values.astype("<f4").tobytes()) for name, values in self.signals.items()},
            "hits": None if self.quality is None or not is_plain else as_text(np.packbits(self.quality > 0).tobytes()),
            "pooled": as_text(self.pooled.to_bytes()),
            "per_step": [as_text(sketch.to_bytes()) for sketch in self.per_step],
            "cost": None if self.cost is None else list(self.cost),
            "choices": [list(choice) for choice in self.choices]}
        if self.quality is not None and not is_plain:    # a bit an answer is not enough
            plain["quality"] = as_text(self.quality.astype("<f4").tobytes())
        return {**plain, "sha256": checksum(plain)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Calibration:
        """Read what `to_dict` wrote; anything else is refused."""
        plain = {name: value for name, value in values.items() if name != "sha256"} if isinstance(values, dict) else {}
        if plain.get("format") != FORMAT:
            raise ValueError(f"this is no calibration of format {FORMAT}, which this frost reads; calibrate the run "
                             "again: frost calibrate RUN.")
        try:
            if values.get("sha256") != checksum(plain):
                raise ValueError("its checksum does not fit")
            shape = (plain["images"], plain["depth"])
            check_stored(plain)
            return cls(weights_hash=plain["weights_hash"], rule=plain["rule"], dropped=plain["dropped"],
                       quality=stored_quality(plain, shape),
                       signals=stored_signals(plain, shape),
                       pooled=KllSketch.from_bytes(as_bytes(plain["pooled"])),
                       per_step=tuple(KllSketch.from_bytes(as_bytes(stored)) for stored in plain["per_step"]),
                       cost=None if plain["cost"] is None else Cost(*plain["cost"]),
                       choices=tuple(Choice(float(mean_depth), str(form), float(gain))
                                     for mean_depth, form, gain in plain["choices"]))
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

    def _check_near(self, reached: Reached, target: float, form: str) -> None:
        if form != FIXED and not is_near(reached, target, self.depth):
            raise OutOfReach(f"no threshold of '{form}' gives a mean depth of {target:g}: the nearest is "
                             f"{reached.mean_depth:.3f}; ask for that, or for another rule.")


def _spread(count: int) -> NDArray[np.int64]:
    """All rows, or as many as are kept, evenly spread over them."""
    return np.linspace(0, count - 1, min(count, MOST_TRACES)).round().astype(np.int64)
