"""What the ranking losses do to training: Figure 2 and §6.4, App. D, §5.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frost.analysis.claims.verdict import (
    Section,
    Units,
    accuracy_of,
    along_steps,
    measured,
    percent,
    points,
    seeds_of,
    verdict_of,
)
from frost.analysis.collapse import Outcome, why_collapsed
from frost.analysis.intervals import Measured, difference, exact, of_mean, of_share
from frost.analysis.published import LOSSES

NEAR = 0.01          # of an accuracy: what still counts as the same
BASELINES = ("vanilla", "recurrent", "basic-ssm")


def losses(units: Units) -> Section:
    """Does anchoring alone collapse, and does ranking alone lose early exits?"""
    runs = {"anchoring": units["frost-anchoring"], "both": units["frost-mean-s0"], "relative": units["frost-relative"]}
    full = {name: accuracy_of(run) for name, run in runs.items()}
    quarter = {name: _at_quantile(run, 0.25) for name, run in runs.items()}
    gap = difference(quarter["both"][0], quarter["relative"][0])
    spread = {name: run["score_deviation"] for name, run in runs.items()}
    checks = {
        "anchoring alone has less than half of the accuracy of both": full["anchoring"].value < full["both"].value / 2,
        "ranking alone is within 1 point of both at full depth":
            abs(full["relative"].value - full["both"].value) <= NEAR,
        "at quantile 0.25 both is above ranking alone (95 % lower limit of the difference > 0)": gap.low > 0,
        "ranking alone leaves the scores less spread than both": spread["relative"] < spread["both"],
    }
    keys = ("share", "easy_score", "hard_score", "median_score")
    ours = {"full_depth": {name: value._asdict() for name, value in full.items()},
            "at_quarter": {name: {"accuracy": value._asdict(), "mean_depth": depth._asdict()}
                           for name, (value, depth) in quarter.items()},
            "gap_at_quarter": gap._asdict(),
            "score_deviation": {name: exact(value)._asdict() for name, value in spread.items()},
            "curves": {name: {key: run["over_training"][key] for key in keys} for name, run in runs.items()}}
    return Section(
        "Anchoring alone collapses (29.79 %), ranking alone keeps full-depth accuracy (61.68 against 61.96 %) and "
        "loses 11.20 points at quantile 0.25 (§6.4, Figure 2).",
        dict(LOSSES), ours, verdict_of(checks, runs["both"], runs["relative"]), "; ".join(checks),
        f"At full depth: anchoring alone {percent(full['anchoring'].value)}, both {percent(full['both'].value)}, "
        f"ranking alone {percent(full['relative'].value)}. At quantile 0.25 both is {points(gap.value)} from ranking "
        f"alone, at mean depths of {quarter['both'][1].value:.2f} and {quarter['relative'][1].value:.2f}.",
        checks, seeds_of(*runs.values()))


def collapse(units: Units) -> Section:
    """Do the baselines collapse under the ranking loss, and FROST not; and do gradients conflict?"""
    grid: dict[str, Any] = {}
    for model in (*BASELINES, "frost"):
        without = {unit["seed"]: unit for name, unit in units.items() if name.startswith(f"{model}-none-")}
        grid[model] = {reduce: _judged(units, f"{model}-{reduce}-", without) for reduce in ("mean", "sum")}
        finite = [unit["per_step_accuracy"][-1] for unit in without.values() if unit["is_finite"]]
        grid[model]["none"] = {"accuracy": of_mean(finite)._asdict() if finite else None}
    share = {model: {reduce: measured(grid[model][reduce]["collapsed"]) for reduce in ("mean", "sum")}
             for model in grid}
    conflicts = {model: _conflicts(units, model) for model in grid}
    checks = {
        "as printed (sum over steps) every baseline collapses in more than half of the seeds":
            all(share[model]["sum"].value > 0.5 for model in BASELINES),
        "as printed FROST collapses in none": share["frost"]["sum"].value == 0,
        "with the mean over steps every baseline collapses in more than half of the seeds":
            all(share[model]["mean"].value > 0.5 for model in BASELINES),
        "the relative loss conflicts with the task in every baseline (95 % upper limit of C < 0)":
            all(conflicts[model]["relative"].high < 0 for model in BASELINES),
        "it agrees with the task in FROST (95 % lower limit of C > 0)": conflicts["frost"]["relative"].low > 0,
        "the anchoring loss conflicts with the task in every baseline and agrees in FROST":
            all(conflicts[model]["anchoring"].high < 0 for model in BASELINES) and
            conflicts["frost"]["anchoring"].low > 0,
    }
    ours = {"grid": grid, "conflict": {model: {name: value._asdict() for name, value in rows.items()}
                                       for model, rows in conflicts.items()},
            "conflict_over_training": {model: _curve(units, model) for model in grid}}
    lines = [f"{model} {share[model]['sum'].value * share[model]['sum'].n:.0f} and "
             f"{share[model]['mean'].value * share[model]['mean'].n:.0f} of {share[model]['sum'].n}" for model in grid]
    return Section(
        "With the ranking loss Vanilla, Recurrent and BasicSSM collapse and FROST does not, because only FROST's "
        "gradients agree (App. D).",
        {"baselines": "collapse across seeds", "frost": "does not", "conflict": "C ≪ 0 in baselines, C > 0 in FROST"},
        ours, verdict_of(checks, *(unit for name, unit in units.items() if "-none-" in name)), "; ".join(checks),
        "Collapsed with the sum and with the mean over steps: " + ", ".join(lines) + ". Mean cosine of the relative "
        "loss's gradient to the task's: " + ", ".join(f"{model} {rows['relative'].value:+.2f}"
                                                     for model, rows in conflicts.items()) + ".",
        checks, seeds_of(*units.values()))


def supervision(units: Units) -> Section:
    """Is the last step's loss enough?"""
    runs = {"last": units["frost-mean-s0"], "deep": units["frost-deep"], "random": units["frost-random"]}
    depth = runs["last"]["depth"]
    full = {name: accuracy_of(run) for name, run in runs.items()}
    half = {name: accuracy_of(run, depth // 2 - 1) for name, run in runs.items()}
    quarter = {name: accuracy_of(run, max(0, depth // 4 - 1)) for name, run in runs.items()}
    best_full, best_half = (max(values[name].value for name in ("deep", "random")) for values in (full, half))
    checks = {
        "at full depth the last step's loss alone is at most 1 point below the better of the two others":
            full["last"].value >= best_full - NEAR,
        "when everybody stops at half depth it is at most 1 point below": half["last"].value >= best_half - NEAR,
        "and at a quarter": quarter["last"].value >= max(quarter[name].value for name in ("deep", "random")) - NEAR,
    }
    ours = {"full_depth": {name: value._asdict() for name, value in full.items()},
            "half_depth": {name: value._asdict() for name, value in half.items()},
            "per_step_accuracy": {name: along_steps(run) for name, run in runs.items()}}
    return Section(
        "Supervising the last step alone is sufficient; intermediate states become useful by themselves (§5.1).",
        {"statement": "sufficient"}, ours, verdict_of(checks, *runs.values()), "; ".join(checks),
        f"At full depth: last step only {percent(full['last'].value)}, with deep supervision "
        f"{percent(full['deep'].value)}, with random depth {percent(full['random'].value)}; stopped at step "
        f"{depth // 2}: {percent(half['last'].value)}, {percent(half['deep'].value)} and "
        f"{percent(half['random'].value)}.",
        checks, seeds_of(*runs.values()))


def _at_quantile(unit: Mapping[str, Any], quantile: float) -> tuple[Measured, Measured]:
    """Accuracy and mean depth."""
    row = next(row for row in unit["rows"] if row["quantile"] == quantile)
    return measured(row["accuracy"]), measured(row["mean_depth"])


def _judged(units: Units, prefix: str, without: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Every seed of one model under one form of the loss, and the share that collapsed."""
    rows = []
    for name, unit in units.items():
        if not name.startswith(prefix):
            continue
        base = without[unit["seed"]]
        found = Outcome(unit["is_finite"], unit["per_step_accuracy"][-1] if unit["is_finite"] else 0.0,
                        unit.get("score_deviation", 0.0))
        reason = why_collapsed(found, base["per_step_accuracy"][-1] if base["is_finite"] else 0.0)
        is_measured = unit["is_finite"]    # one that diverged is not
        rows.append({"seed": unit["seed"], "accuracy": accuracy_of(unit)._asdict() if is_measured else None,
                     "score_deviation": exact(found.score_deviation)._asdict() if is_measured else None,
                     "collapsed": reason})
    finite = [row["accuracy"]["value"] for row in rows if row["accuracy"] is not None]
    return {"rows": rows, "collapsed": of_share(sum(row["collapsed"] is not None for row in rows), len(rows))._asdict(),
            "accuracy": of_mean(finite)._asdict() if finite else None}


def _conflicts(units: Units, model: str) -> dict[str, Measured]:
    """The mean cosine over a training with the mean of the ranking loss, the start left out; one number a seed."""
    books = [unit["over_training"]["conflict"][1:] for name, unit in units.items() if name.startswith(f"{model}-mean-")]
    means: dict[str, Measured] = {}
    for what in ("relative", "anchoring"):
        rows = [[row[what] for row in book if row[what] is not None] for book in books]
        means[what] = of_mean([sum(row) / len(row) for row in rows if row] or [0.0])
    return means


def _curve(units: Units, model: str) -> dict[str, list[float]]:
    """The first seed's cosines over its training."""
    book: list[Any] = next((unit["over_training"]["conflict"] for name, unit in units.items()
                            if name.startswith(f"{model}-mean-")), [])
    return {key: [row[key] for row in book] for key in ("share", "relative", "anchoring")}
