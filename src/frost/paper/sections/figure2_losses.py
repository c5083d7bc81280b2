"""Figure 2: what each of the two ranking losses does (§6.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frost.paper.checks import (
    Check,
    Units,
    above,
    accuracy_of,
    below,
    close_to,
    measured,
    percent,
    points,
    seeds_of,
    shown,
)
from frost.paper.intervals import Measured, difference, exact
from frost.paper.section import Finding, Section
from frost.paper.sizes import Size, with_halting
from frost.paper.units import BASE, Unit, base
from frost.report.drawing import CYCLE, Values, legend_above, panels

PAPER = {"anchoring": 0.2979, "both": 0.6196, "relative": 0.6168, "gap_at_quarter": 0.1120}    # (Table 2: 61.99)
LESS = 0.8           # of a spread: what is called less
MOVED = 1.05         # mean depth below which every image stops at the first step
Runs = Mapping[str, Mapping[str, Any]]


def units(size: Size) -> list[Unit]:
    """FROST with both losses, and with each alone."""
    return [base(size), Unit(name="frost-anchoring", run=with_halting(size.base, relative_weight=0.0)),
            Unit(name="frost-relative", run=with_halting(size.base, anchoring_weight=0.0))]


def judge(units: Units) -> Finding:
    """Does anchoring alone collapse, and does ranking alone lose early exits?"""
    runs = {"anchoring": units["frost-anchoring"], "both": units[BASE], "relative": units["frost-relative"]}
    full = {name: accuracy_of(run) for name, run in runs.items()}
    quarter = {name: next(row for row in run["rows"] if row["quantile"] == 0.25) for name, run in runs.items()}
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
    return Finding(
        _numbers(runs, full, quarter, gap), checks,
        f"At full depth: anchoring alone {percent(full['anchoring'].value)}, both {percent(full['both'].value)}, "
        f"ranking alone {percent(full['relative'].value)}. At quantile 0.25 both is {points(gap.value)} from ranking "
        f"alone, at mean depths of {depths['both']:.2f} and {depths['relative']:.2f}; deviation of the scores "
        f"{spread['both']:.3f} and {spread['relative']:.3f}.",
        [runs["both"], runs["relative"]], seeds_of(*runs.values()),
        compared=[[f"{name}: accuracy at full depth", f"{100 * PAPER[name]:.2f} %", f"{shown(full[name], 2, 100)} %"]
                  for name in runs] +
                 [["both less relative alone at quantile 0.25, points", f"{100 * PAPER['gap_at_quarter']:.2f}",
                   shown(gap, 2, 100)]],
        beyond={"at quantile 0.25 both gains more over fixed depth than ranking alone, so that it is not depth alone":
                above(difference(gains["both"], gains["relative"])) if is_moving else None})


def _numbers(runs: Runs, full: Mapping[str, Measured], quarter: Runs, gap: Measured) -> dict[str, Any]:
    keys = ("share", "easy_score", "hard_score", "median_score")
    return {"full_depth": {name: value._asdict() for name, value in full.items()},
            "at_quarter": {name: {key: row[key] for key in ("accuracy", "mean_depth", "gain")}
                           for name, row in quarter.items()},
            "gap_at_quarter": gap._asdict(),
            "score_deviation": {name: exact(run["score_deviation"])._asdict() for name, run in runs.items()},
            "curves": {name: {key: run["over_training"][key] for key in keys} for name, run in runs.items()}}


def draw(paper: Values, ours: Values, _: Values) -> Any:
    """Scores of easy, hard and median images over training."""
    figure, axes = panels(3, 2.6)
    titles = {"anchoring": "anchoring only", "both": "both", "relative": "relative only"}
    for cell, (name, title) in zip(axes, titles.items(), strict=True):
        curve = ours["curves"][name]
        for index, (key, label) in enumerate((("easy_score", "easy"), ("hard_score", "hard"),
                                              ("median_score", "median"))):
            known = [(x, y) for x, y in zip(curve["share"], curve[key], strict=True) if y is not None]
            cell.plot(*zip(*known, strict=True), ("-", "--", ":")[index], color=CYCLE[index], label=label)
        cell.set(ylim=(-0.03, 1.03), ylabel="score")
        cell.set_title(f"{title}: {100 * ours['full_depth'][name]['value']:.1f} % at full depth (paper "
                       f"{100 * paper[name]:.1f} %)", loc="right", fontsize=8)
    legend_above(axes[0], 3)
    axes[0].get_legend().set_bbox_to_anchor((0.0, 1.12))
    axes[-1].set_xlabel("share of the training")
    return figure


SECTION = Section(
    name="losses", title="Figure 2: the ranking losses",
    claim="Anchoring alone collapses (29.79 %), ranking alone keeps full-depth accuracy (61.68 against 61.96 %) and "
          "loses 11.20 points at quantile 0.25, where its scores differ less (§6.4, Figure 2).",
    paper=PAPER, units=units, judge=judge, draw=draw)
