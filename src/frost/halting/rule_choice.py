"""Which stopping rule to use at a budget: the forms are compared on held-out inputs, and the winner is kept.

A form is a signal with one threshold for all steps (`margin`), with one for each (`margin-per-step`), or with one
between two neighbouring steps (`margin-two-step`), which stays as near to fixed depth as a mean depth between two steps
allows. Each half of the inputs is judged by thresholds from the other half, against fixed depth at the mean depth that
it took. A form must be clearly above that line to win; else the one that won at a smaller budget is taken, then the
best between two steps, if they are above the line at all; else fixed depth itself. The paper has one form, one
threshold on the score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from frost.halting.fixed_depth import fixed_depth_line
from frost.halting.threshold_fit import Quality, Reached, Values, per_step_at_mean_depth, pooled_at_mean_depth, stops_at

BUDGETS = (0.2, 0.275, 0.35, 0.425, 0.5, 0.6, 0.75, 0.9)    # shares of full depth at which forms are compared
PER_STEP, TWO_STEP = "-per-step", "-two-step"               # how the names of forms end
FIXED = "fixed"
FEWEST = 50               # inputs in a half; with fewer nothing is chosen
CLEARLY = 2.5             # standard errors above fixed depth that a form must be to win
LIKELY = 1.0              # and that one must be which won at a smaller budget
NEAR = 0.02               # of T: how far from the budget a mean depth may be and still count as reached


class Choice(NamedTuple):
    """The form that won at a budget."""

    mean_depth: float     # the budget
    form: str             # a signal's name, with or without an ending; or `fixed`
    gain: float           # its quality above the fixed-depth line there, on inputs that its thresholds had not seen


class Gain(NamedTuple):
    """Quality above fixed depth, and its standard error."""

    value: float
    error: float


def signal_of(form: str) -> str:
    """The signal that a form looks at."""
    return form.removesuffix(PER_STEP).removesuffix(TWO_STEP)


def forms_of(signals: Mapping[str, Values]) -> list[str]:
    """Those that can be made of these signals."""
    return [FIXED, *(f"{name}{end}" for name in signals for end in ("", PER_STEP, TWO_STEP))]


def thresholds_of(form: str, signals: Mapping[str, Values], quality: Quality | None,
                  mean_depth: float) -> tuple[str, Reached]:
    """The signal of a form, and its thresholds for a mean depth."""
    if form == FIXED:
        signal = next(iter(signals))
        return signal, whole_steps(signals[signal], mean_depth)
    signal = signal_of(form)
    if form.endswith(TWO_STEP):
        return signal, two_steps(signals[signal], mean_depth)
    if signal == form:
        return signal, pooled_at_mean_depth(signals[signal], mean_depth)
    assert quality is not None, "thresholds for each step are fitted to right answers"
    return signal, per_step_at_mean_depth(signals[signal], quality, mean_depth)


def whole_steps(values: Values, mean_depth: float) -> Reached:
    """All inputs stop at the same step, the last one that the mean depth pays for."""
    return two_steps(values, math.floor(mean_depth))


def two_steps(values: Values, mean_depth: float) -> Reached:
    """All inputs stop at one of the two steps next to the mean depth; the signal says which stop first."""
    depth = values.shape[1]
    if not 1 <= mean_depth <= depth:
        raise ValueError(f"mean depth must lie between 1 and {depth}, the steps of a trace; got {mean_depth}.")
    below = math.floor(mean_depth)
    goes_on = mean_depth - below    # the share that takes one more step
    at = values[:, below - 1]
    threshold = -math.inf if goes_on <= 0 else float(np.quantile(at, goes_on, method="inverted_cdf"))
    thresholds = (*[math.inf] * (below - 1), threshold, -math.inf)[:depth]
    return Reached(thresholds, float(stops_at(values, thresholds).mean()))


def is_near(reached: Reached, mean_depth: float, depth: int) -> bool:
    """Whether thresholds give the mean depth that was asked for."""
    return abs(reached.mean_depth - mean_depth) <= NEAR * depth


def chosen(signals: Mapping[str, Values], quality: Quality, seed: int = 0) -> tuple[Choice, ...]:
    """The winner at each budget; none where there are too few inputs to tell, or one step only."""
    count, depth = quality.shape
    half = halves(count, seed)
    if depth < 2 or min(half.sum(), (~half).sum()) < FEWEST:
        return ()
    choices: list[Choice] = []
    winner = ""
    for target in sorted({max(1.0, share * depth) for share in BUDGETS}):
        gains = {form: crossed_gain(form, signals, quality, half, target) for form in forms_of(signals)}
        known = {form: gain for form, gain in gains.items() if gain is not None}
        ordered = sorted((form for form, gain in known.items() if gain.value > 0), key=lambda form: -known[form].value)
        clear = [form for form in ordered if known[form].value > CLEARLY * known[form].error]
        again = [form for form in ordered if form == winner and known[form].value > LIKELY * known[form].error]
        near = [form for form in ordered if form.endswith(TWO_STEP)]
        form = next((form for form in (*clear, *again, *near) if _holds(form, signals, quality, target)), FIXED)
        winner = form if form in clear else winner
        choices.append(Choice(target, form, 0.0 if form == FIXED else known[form].value))
    return tuple(choices)


def halves(count: int, seed: int = 0) -> np.ndarray:
    """Which inputs are in the first half, (n,); they are drawn, so that an order in the data does not matter."""
    half: np.ndarray = np.random.default_rng(seed).permutation(count) % 2 == 0
    return half


def _holds(form: str, signals: Mapping[str, Values], quality: Quality, mean_depth: float) -> bool:
    """Whether a form reaches the budget and is above fixed depth with its final thresholds too, those of all inputs."""
    signal, reached = thresholds_of(form, signals, quality, mean_depth)
    depths = stops_at(signals[signal], reached.thresholds)
    return is_near(reached, mean_depth, quality.shape[1]) and gain_of(depths, quality).value > 0


def crossed_depths(form: str, signals: Mapping[str, Values], quality: Quality, mean_depth: float) -> np.ndarray:
    """Where each input stops when each half is judged by thresholds of the other half, (n,)."""
    half, depths = halves(len(quality)), np.empty(len(quality), dtype=np.int64)
    for then, now in ((half, ~half), (~half, half)):
        known = {name: values[then] for name, values in signals.items()}
        signal, reached = thresholds_of(form, known, quality[then], mean_depth)
        depths[now] = stops_at(signals[signal][now], reached.thresholds)
    return depths


def crossed_gain(form: str, signals: Mapping[str, Values], quality: Quality, half: np.ndarray,
                 mean_depth: float) -> Gain | None:
    """Quality above fixed depth at the mean depth taken, each half judged by thresholds of the other.

    None where no thresholds of the form give this mean depth.
    """
    gains = []
    for then, now in ((half, ~half), (~half, half)):
        signal, reached = thresholds_of(form, {name: values[then] for name, values in signals.items()}, quality[then],
                                        mean_depth)
        if form != FIXED and not is_near(reached, mean_depth, quality.shape[1]):
            return None
        gains.append(gain_of(stops_at(signals[signal][now], reached.thresholds), quality[now]))
    return Gain(float(np.mean([gain.value for gain in gains])), math.hypot(*(gain.error for gain in gains)) / 2)


def gain_of(depths: np.ndarray, quality: Quality) -> Gain:
    """Quality of stopping each input at its depth, less that of stopping all at their mean depth.

        gain = mean_i [q_i(d_i) − line_i],   line_i = (1 − w) q_i(b) + w q_i(b + 1) + slope · (d_i − mean d)

    b and b + 1 are the steps next to the mean depth, w its place between them. The last term has mean 0: it is what the
    mean depth's own randomness adds to the error.
    """
    rows, mean_depth = np.arange(len(quality)), float(depths.mean())
    above = min(math.floor(mean_depth) + 1, quality.shape[1])
    slope = float(quality[:, above - 1].mean() - quality[:, max(above - 2, 0)].mean())
    parts = quality[rows, depths - 1] - fixed_depth_line(quality, mean_depth) - slope * (depths - mean_depth)
    return Gain(float(parts.mean()), float(parts.std()) / math.sqrt(len(parts)))
