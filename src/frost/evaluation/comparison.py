"""All stopping rules of a run in one protocol, for `frost evaluate RUN --policy …`.

Thresholds come from the validation images, numbers from the images measured on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from frost.checkpoint import Run, weights_hash
from frost.config import suggest
from frost.data.splits import Images, labelled
from frost.evaluation.calibrating import FRACTIONS, check_trained_for, trained_by
from frost.evaluation.ceiling import FEATURES, ceiling_signal
from frost.evaluation.halting_table import HaltingRow, halting_table
from frost.evaluation.stopping_rules import (
    Comparison,
    Depths,
    Interval,
    Oracles,
    area,
    compare,
    depths_of,
    distance_to_oracle,
    judge,
    oracles,
    paired_difference,
)
from frost.evaluation.traces import Traces, trace
from frost.halting.calibration import Calibration
from frost.halting.rule_choice import PER_STEP, gain_of
from frost.halting.threshold_fit import stops_at
from frost.report.progress import progress
from frost.report.tables import percent, table

SIMPLE = ("confidence", "entropy", "margin", "patience", "residual", "second-order")    # need no training
EACH_STEP = ("confidence", "margin", "entropy")    # of these, also with a threshold for each step
CEILING, CHOSEN = "ceiling", "chosen"
MATCHED = 0.01    # of T: how near a mean depth must be to the one that was asked for


class Versus(NamedTuple):
    """The best form of the learned score against the best rule that needs no training."""

    fraction: float
    ours: str
    theirs: str
    difference: Interval


class Compared(NamedTuple):
    """Every rule at every fraction of full depth."""

    rows: dict[str, list[HaltingRow]]    # by rule, at quantiles
    at_fraction: list[Comparison]
    areas: dict[str, float]
    distances: dict[str, float]          # to the agreement oracle, at its mean depth
    oracle: Oracles
    versus: list[Versus]
    chosen: dict[float, str]             # by fraction, the form that the run's calibration uses there

    def to_json(self, depth: int) -> dict[str, Any]:
        """The parts that `frost evaluate --policy` adds."""
        return _as_json(self, depth)

    def text(self, depth: int) -> str:
        """The same for a person."""
        return _text(self, depth)


def policies_of(run: Run) -> list[str]:
    """Those that a run can answer: the score as it was taught, in both forms of thresholds, and the simple ones."""
    score = trained_by(run)
    return [score, f"{score}{PER_STEP}", *SIMPLE, *(f"{name}{PER_STEP}" for name in EACH_STEP), "fixed"]


def chosen(run: Run, names: Sequence[str]) -> list[str]:
    """The rules that were asked for; `all` is all that the run can answer."""
    known = policies_of(run)
    if "all" in names:
        return known
    names = [name for name in names if name != "oracle"]    # is always shown
    for name in names:
        check_trained_for(run, name.removesuffix(PER_STEP))
        if name not in known and name.removesuffix(PER_STEP) not in known:
            raise ValueError(f"there is no stopping rule '{name}'. {suggest(name, [*known, 'oracle', 'all'])}")
    return list(dict.fromkeys([*names, "fixed"]))    # the line to beat is always there


def signals_for(run: Run, policies: Sequence[str]) -> list[str]:
    """What has to be traced to judge these rules, and the ceiling where the score was taught by ranks."""
    base = list(dict.fromkeys(name.removesuffix(PER_STEP) for name in policies))
    return list(dict.fromkeys([*base, *FEATURES] if trained_by(run) == "rank" else base))


def compared(run: Run, held_out: Images, now: Traces, policies: Sequence[str], quantiles: Sequence[float]) -> Compared:
    """Judge every rule on traces of the images measured on, `now`, by thresholds from the held-out images."""
    wanted = signals_for(run, policies)
    with progress("calibrating", len(held_out)) as report:
        then = trace(run.model, labelled(held_out), wanted, report=report)
    at_fraction = compare(policies, then, now, FRACTIONS)
    if set(FEATURES) <= set(wanted) and now.depth > 1:
        now = now._replace(signals={**now.signals, CEILING: ceiling_signal(now)})
        at_fraction += [judge(CEILING, fraction, _ceiling_depths(now, fraction), now)
                        for fraction in FRACTIONS]
    forms = _chosen_forms(run, now)
    at_fraction += [judge(CHOSEN, fraction, depths, now) for fraction, (_, depths) in forms.items()]
    rows = {name: _quantile_rows(run, name, then, now, quantiles) for name in policies
            if not name.endswith(PER_STEP) and name != "fixed"}
    return Compared(rows, at_fraction, {name: area(name, then, now) for name in policies},
                    {name: distance_to_oracle(name, then, now) for name in policies}, oracles(now),
                    _versus(run, policies, then, now), {fraction: form for fraction, (form, _) in forms.items()})


def _chosen_forms(run: Run, now: Traces) -> dict[float, tuple[str, Depths]]:
    """What the run's own calibration uses at each fraction, and where each input stops under it."""
    ours, found = run.calibration, {}
    if ours is None or not ours.choices or not set(ours.signals) <= set(now.signals):
        return {}
    for fraction, form, rule in ours.choices_at(FRACTIONS):
        values = now.signals[rule.name].numpy().astype(np.float32)
        found[fraction] = form, stops_at(values, rule.thresholds)
    return found


def _ceiling_depths(now: Traces, fraction: float) -> Depths:
    """Where the ceiling stops each image: a threshold for each step, from the very images that it is measured on."""
    return depths_of(f"{CEILING}{PER_STEP}", now, now, max(1.0, fraction * now.depth))


def _as_json(result: Compared, depth: int) -> dict[str, Any]:
    return {
        "at_fraction": [{"policy": row.policy, "fraction": row.fraction, "mean_depth": row.mean_depth,
                         "accuracy": row.accuracy.value, "low": row.accuracy.low, "high": row.accuracy.high,
                         "gain": row.gain.value, "gain_low": row.gain.low, "gain_high": row.gain.high,
                         "form": result.chosen.get(row.fraction, "") if row.policy == CHOSEN else row.policy,
                         "is_matched": abs(row.mean_depth - row.fraction * depth) <= MATCHED * depth}
                        for row in result.at_fraction],
        "area": result.areas, "distance_to_oracle": result.distances, "oracle": result.oracle._asdict(),
        "versus_simple": [{"fraction": row.fraction, "policy": row.ours, "simple": row.theirs,
                           **row.difference._asdict()} for row in result.versus]}


def _text(result: Compared, depth: int) -> str:
    def named(row: Comparison) -> str:
        return f"{CHOSEN}: {result.chosen[row.fraction]}" if row.policy == CHOSEN else row.policy

    body = [[named(row), f"{row.fraction:.2f}", f"{row.mean_depth:.2f}", percent(row.accuracy.value),
             f"{100 * row.gain.value:+.2f}", f"[{100 * row.gain.low:+.2f}, {100 * row.gain.high:+.2f}]",
             f"{100 * result.areas[row.policy]:.2f}" if row.policy in result.areas else "",
             f"{100 * result.distances[row.policy]:+.2f}" if row.policy in result.distances else ""]
            for row in sorted(result.at_fraction, key=lambda row: (row.fraction, -row.accuracy.value))]
    oracle = result.oracle
    lines = [f"At {row.fraction:.2f} of full depth {row.ours} is {100 * row.difference.value:+.2f} points "
             f"[{100 * row.difference.low:+.2f}, {100 * row.difference.high:+.2f}] against {row.theirs}, the best "
             "simple rule." for row in result.versus]
    return "\n".join([
        table(["policy", "of T", "mean depth", "accuracy", "gain", "95 % interval", "area", "to oracle"], body), "",
        "gain: points above fixed depth at the same mean depth; intervals by paired bootstrap. area: mean",
        "accuracy over all mean depths. to oracle: points lost against the agreement oracle at its mean depth.",
        "chosen: what the run's calibration uses there. ceiling: a classifier fitted to labels of this split, which",
        "cannot be shipped.",
        f"Oracles: the class no longer changes after step {oracle.agreement_depth:.2f} of {depth} in the mean "
        f"({percent(oracle.agreement_accuracy)}); the first right step, {oracle.label_depth:.2f}, would give "
        f"{percent(oracle.label_accuracy)}.", *lines])


def _quantile_rows(run: Run, name: str, then: Traces, now: Traces, quantiles: Sequence[float]) -> list[HaltingRow]:
    calibration = Calibration.gather(then.signals[name], then.quality, weights_hash=weights_hash(run.model), rule=name)
    return halting_table(now.quality, now.signals[name], calibration, quantiles)


def _versus(run: Run, policies: Sequence[str], then: Traces, now: Traces) -> list[Versus]:
    """At each fraction, the forms are chosen on the held-out images, as a user would have to."""
    ours = [name for name in policies if name.removesuffix(PER_STEP) == trained_by(run)]
    theirs = [name for name in policies if name.removesuffix(PER_STEP) in SIMPLE]
    if not ours or not theirs:
        return []
    lines = []
    for fraction in FRACTIONS:
        budget = max(1.0, fraction * now.depth)

        def then_gained(name: str, budget: float = budget) -> float:
            return gain_of(depths_of(name, then, then, budget), then.quality.numpy()).value

        learned, simple = max(ours, key=then_gained), max(theirs, key=then_gained)
        first, second = depths_of(learned, then, now, budget), depths_of(simple, then, now, budget)
        lines.append(Versus(fraction, learned, simple, paired_difference(first, second, now)))
    return lines
