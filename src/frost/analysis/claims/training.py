"""What the ranking losses do to training: Figure 2 and §6.4, App. D, §5.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frost.analysis.claims.verdict import (
    Check,
    Section,
    Units,
    above,
    accuracy_of,
    along_steps,
    below,
    close_to,
    every,
    measured,
    percent,
    points,
    section,
    seeds_of,
    shown,
)
from frost.analysis.collapse import Outcome, why_collapsed
from frost.analysis.intervals import Measured, difference, exact, of_mean, of_share
from frost.analysis.published import LOSSES

BASELINES = ("vanilla", "recurrent", "basic-ssm")
FOLDED = "basic-ssm-folded"
LESS = 0.8           # of a spread: what is called less
MOVED = 1.05         # mean depth below which everybody stops at the first step


def losses(units: Units) -> Section:
    """Does anchoring alone collapse, and does ranking alone lose early exits?"""
    runs = {"anchoring": units["frost-anchoring"], "both": units["frost-mean-s0"], "relative": units["frost-relative"]}
    full = {name: accuracy_of(run) for name, run in runs.items()}
    quarter = {name: _at_quantile(run, 0.25) for name, run in runs.items()}
    gap = difference(measured(quarter["both"]["accuracy"]), measured(quarter["relative"]["accuracy"]))
    gains = {name: measured(row["gain"]) for name, row in quarter.items()}
    depths = {name: row["mean_depth"]["value"] for name, row in quarter.items()}
    spread = {name: run["score_deviation"] for name, run in runs.items()}
    is_moving = max(depths["both"], depths["relative"]) > MOVED
    checks: dict[str, Check] = {
        "anchoring alone has less than half of the accuracy of both": below(full["anchoring"], full["both"].value / 2),
        "ranking alone is as accurate at full depth, to a thirtieth":
            close_to(difference(full["relative"], full["both"]), full["both"].value),
        "at quantile 0.25 both is above ranking alone (not decided if all images stop at step 1)":
            above(gap) if is_moving else None,
        "ranking alone leaves the scores less spread, by a fifth at least":
            spread["relative"] < LESS * spread["both"],
    }
    beyond: dict[str, Check] = {
        "at quantile 0.25 both gains more over fixed depth than ranking alone, so that it is not depth alone":
            above(difference(gains["both"], gains["relative"])) if is_moving else None}
    keys = ("share", "easy_score", "hard_score", "median_score")
    ours = {"full_depth": {name: value._asdict() for name, value in full.items()},
            "at_quarter": {name: {key: row[key] for key in ("accuracy", "mean_depth", "gain")}
                           for name, row in quarter.items()},
            "gap_at_quarter": gap._asdict(),
            "score_deviation": {name: exact(value)._asdict() for name, value in spread.items()},
            "curves": {name: {key: run["over_training"][key] for key in keys} for name, run in runs.items()}}
    return section(
        "losses", ours, checks,
        f"At full depth: anchoring alone {percent(full['anchoring'].value)}, both {percent(full['both'].value)}, "
        f"ranking alone {percent(full['relative'].value)}. At quantile 0.25 both is {points(gap.value)} from ranking "
        f"alone, at mean depths of {depths['both']:.2f} and {depths['relative']:.2f}; deviation of the scores "
        f"{spread['both']:.3f} and {spread['relative']:.3f}.",
        [runs["both"], runs["relative"]], seeds_of(*runs.values()),
        compared=[[f"{name}: accuracy at full depth", f"{100 * LOSSES[name]:.2f} %", f"{shown(full[name], 2, 100)} %"]
                  for name in runs] +
                 [["both less relative alone at quantile 0.25, points", f"{100 * LOSSES['gap_at_quarter']:.2f}",
                   shown(gap, 2, 100)]], beyond=beyond)


def collapse(units: Units) -> Section:
    """Do the baselines collapse under the ranking loss, and FROST not; and do gradients conflict?"""
    grid: dict[str, Any] = {}
    for model in (*BASELINES, FOLDED, "frost"):
        without = {unit["seed"]: unit for name, unit in units.items() if name.startswith(f"{model}-none-")}
        grid[model] = {reduce: _judged(units, f"{model}-{reduce}-", without) for reduce in ("mean", "sum")}
        finite = [unit["per_step_accuracy"][-1] for unit in without.values() if unit["is_finite"]]
        grid[model]["none"] = {"accuracy": of_mean(finite)._asdict() if finite else None}
    share = {model: {reduce: measured(grid[model][reduce]["collapsed"]) for reduce in ("mean", "sum")}
             for model in grid}
    conflicts = {reduce: {model: _conflicts(units, model, reduce) for model in grid} for reduce in ("sum", "mean")}

    def asked(reduce: str) -> dict[str, Check]:
        found = conflicts[reduce]
        return {"every baseline collapses in more than half of the seeds":
                all(share[model][reduce].value > 0.5 for model in BASELINES),
                "FROST collapses in none, where a baseline does (not decided if nobody does)":
                    _alone_stands({model: rows[reduce].value for model, rows in share.items()}),
                "the relative loss conflicts with the task in every baseline, C < 0":
                    every(_known(below, found[model]["relative"]) for model in BASELINES),
                "it agrees with the task in FROST, C > 0": _known(above, found["frost"]["relative"])}

    beyond = {f"with the mean over steps, {check}": met for check, met in asked("mean").items()}
    beyond["as printed, BasicSSM that starts as a folded FROST does not collapse either (one seed)"] = \
        share[FOLDED]["sum"].value == 0
    ours = {"grid": grid,
            "conflict": {reduce: {model: {name: None if value is None else value._asdict()
                                          for name, value in rows.items()} for model, rows in found.items()}
                         for reduce, found in conflicts.items()},
            "conflict_over_training": {model: _curve(units, model) for model in grid if model != FOLDED}}
    lines = [f"{model} {share[model]['sum'].value * share[model]['sum'].n:.0f} and "
             f"{share[model]['mean'].value * share[model]['mean'].n:.0f} of {share[model]['sum'].n}" for model in grid]
    cosines = {model: rows["relative"] for model, rows in conflicts["sum"].items()}
    return section(
        "collapse", ours, {f"as printed (sum over steps), {check}": met for check, met in asked("sum").items()},
        "Collapsed with the sum and with the mean over steps: " + ", ".join(lines) + ". Mean cosine of the relative "
        "loss's gradient to the task's, with the sum: " + ", ".join(
            f"{model} {'none' if value is None else format(value.value, '+.2f')}" for model, value in cosines.items()) +
        ".", [unit for name, unit in units.items() if "-none-" in name], seeds_of(*units.values()),
        compared=[[f"{model}: collapsed with the sum; C(θ) of the relative loss",
                   "does not; C > 0" if model == "frost" else "–" if model == FOLDED else "collapses; C ≪ 0",
                   f"{share[model]['sum'].value * share[model]['sum'].n:.0f} of {share[model]['sum'].n}; "
                   + ("none" if value is None else shown(value))] for model, value in cosines.items()], beyond=beyond)


def supervision(units: Units) -> Section:
    """Is the last step's loss enough?"""
    runs = {"last": units["frost-mean-s0"], "deep": units["frost-deep"], "random": units["frost-random"]}
    depth = runs["last"]["depth"]
    steps = {"full": depth, "half": max(1, depth // 2), "quarter": max(1, depth // 4)}
    found = {place: {name: accuracy_of(run, step - 1) for name, run in runs.items()} for place, step in steps.items()}

    def is_enough(place: str) -> Check:
        best = max((found[place][name] for name in ("deep", "random")), key=lambda value: value.value)
        return close_to(difference(found[place]["last"], best), best.value)

    checks = {"at full depth the last step's loss alone is as good as the better of the two others, to a thirtieth":
              is_enough("full"),
              "so it is when everybody stops at half depth": is_enough("half"),
              "and at a quarter": is_enough("quarter")}
    ours: dict[str, Any] = {f"{place}_depth": {name: value._asdict() for name, value in rows.items()}
                            for place, rows in found.items()}
    ours["per_step_accuracy"] = {name: along_steps(run) for name, run in runs.items()}
    return section(
        "supervision", ours, checks,
        " ".join(f"At step {steps[place]} of {depth}: last step only {percent(rows['last'].value)}, with deep "
                 f"supervision {percent(rows['deep'].value)}, with random depth {percent(rows['random'].value)}."
                 for place, rows in found.items()), list(runs.values()), seeds_of(*runs.values()),
        compared=[[f"step {steps[place]}: last, deep, random", "sufficient", ", ".join(
            f"{shown(rows[name], 1, 100)} %" for name in runs)] for place, rows in found.items()])


def _alone_stands(collapsed: Mapping[str, float]) -> Check:
    """Whether FROST stands where others fall; where nobody falls, to stand proves nothing."""
    if collapsed["frost"] > 0:
        return False
    return True if any(collapsed[model] > 0 for model in BASELINES) else None


def _known(check: Any, value: Measured | None) -> Check:
    return None if value is None else check(value)


def _at_quantile(unit: Mapping[str, Any], quantile: float) -> dict[str, Any]:
    return next(dict(row) for row in unit["rows"] if row["quantile"] == quantile)


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


def _conflicts(units: Units, model: str, reduce: str) -> dict[str, Measured | None]:
    """The mean cosine over a training with the ranking loss, the start left out; one number a seed."""
    books = [unit["over_training"]["conflict"][1:] for name, unit in units.items()
             if name.startswith(f"{model}-{reduce}-")]
    means: dict[str, Measured | None] = {}
    for what in ("relative", "anchoring"):
        rows = [[row[what] for row in book if row[what] is not None] for book in books]
        known = [sum(row) / len(row) for row in rows if row]
        means[what] = of_mean(known) if known else None
    return means


def _curve(units: Units, model: str) -> dict[str, list[float]]:
    """The first seed's cosines over its training as printed."""
    book: list[Any] = next((unit["over_training"]["conflict"] for name, unit in units.items()
                            if name.startswith(f"{model}-sum-")), [])
    return {key: [row[key] for row in book] for key in ("share", "relative", "anchoring")}
