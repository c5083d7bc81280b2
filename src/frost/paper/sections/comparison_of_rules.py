"""Beyond the paper: the rank score beside other stopping rules, and beside models trained at a smaller depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frost.evaluation.calibrating import FRACTIONS
from frost.paper.checks import (
    Check,
    Units,
    above,
    accuracy_of,
    close_to,
    every,
    measured,
    percent,
    points,
    seeds_of,
    shown,
)
from frost.paper.intervals import Measured, difference
from frost.paper.measurements.equal_depth import AT_EQUAL_DEPTH, chosen_row
from frost.paper.section import Finding, Section
from frost.paper.sizes import Size, with_model
from frost.paper.units import BASE, Unit, base, ours
from frost.report.drawing import CYCLE, MARKS, Values, legend_above, panels

ENOUGH = -0.005    # of an accuracy: the lower limit that the rank score must keep against the best simple rule


def units(size: Size) -> list[Unit]:
    """Both forms of FROST, and models trained at a quarter and at half of T."""
    depth = size.base.model.depth
    smaller = sorted({max(2, depth // 4), max(2, depth // 2)})
    return [ours(size, AT_EQUAL_DEPTH), base(size, AT_EQUAL_DEPTH),
            *(Unit(name=f"frost-depth-{steps}", run=with_model(size.base, depth=steps)) for steps in smaller)]


def judge(units: Units) -> Finding:
    """Is the learned score as good as the best simple rule, and early exit as good as a shallower model?"""
    found, base = units["ours"]["rules"], units[BASE]
    versus = [row for row in found["versus"] if row["fraction"] in FRACTIONS]
    smaller = _smaller_depths(units)
    gains = {fraction: measured(chosen_row(units["ours"], fraction)["gain"]) for fraction in FRACTIONS}
    checks: dict[str, Check] = {
        "at 35, 50 and 75 % of full depth the rank score gains over fixed depth": every(map(above, gains.values())),
        "there it is at most half a point below the best simple rule":
            every(above(measured(row["difference"]), ENOUGH) for row in versus),
        "stopping the model of depth T early, by its score, is as accurate as a model trained at that depth, to a "
        "thirtieth": every(close_to(difference(measured(row["halted"]), measured(row["trained"])),
                                    row["trained"]["value"]) for row in smaller.values()),
    }
    beside = "; ".join(f"{100 * row['fraction']:.0f} %: {points(gains[row['fraction']].value)} over fixed depth, "
                       f"{points(row['difference']['value'])} against {row['simple']}" for row in versus)
    return Finding(
        {"rows": found["rows"], "versus": versus, "oracle": found["oracle"], "smaller_depths": smaller},
        checks, f"The rank score at {beside}. " + " ".join(
            f"Trained at T = {depth}: {percent(row['trained']['value'])}; the deep model, halted at that mean depth: "
            f"{percent(row['halted']['value'])}." for depth, row in smaller.items()),
        [units["ours"], base], seeds_of(units["ours"], base), compared=_compared(versus, gains, found["oracle"]))


def _smaller_depths(units: Units) -> dict[str, Any]:
    """Models trained at smaller depths, beside the deep one at that fixed depth and at that mean depth."""
    base = units[BASE]
    depths = sorted(int(name.rsplit("-", 1)[1]) for name in units if name.startswith("frost-depth-"))
    return {str(depth): {"trained": accuracy_of(units[f"frost-depth-{depth}"])._asdict(),
                         "stopped": accuracy_of(base, depth - 1)._asdict(),
                         "halted": chosen_row(base, depth / base["depth"])["accuracy"]} for depth in depths}


def _compared(versus: Sequence[Mapping[str, Any]], gains: Mapping[float, Measured],
              oracle: Mapping[str, Any]) -> list[list[str]]:
    return [[f"{100 * row['fraction']:.0f} % of depth: gain over fixed depth; against {row['simple']}", "–",
             f"{shown(gains[row['fraction']], 2, 100)}; {shown(measured(row['difference']), 2, 100)} points"]
            for row in versus] + \
           [[f"oracle ({name}): mean depth, accuracy", "–", f"{row['mean_depth']['value']:.2f}, "
             f"{percent(row['accuracy']['value'])}"] for name, row in oracle.items()]


def draw(paper: Values, ours: Values, _: Values) -> Any:
    """What each rule gains over fixed depth, and models trained at smaller T."""
    figure, (here, there) = panels(2, 4.2)
    fractions = sorted({row["fraction"] for row in ours["rows"]})
    names = [name for name in dict.fromkeys(row["policy"] for row in ours["rows"]) if name != "fixed"]
    for index, fraction in enumerate(fractions):
        for place, name in enumerate(names):
            row = next(row["gain"] for row in ours["rows"] if row["policy"] == name and row["fraction"] == fraction)
            here.errorbar(100 * row["value"], place + 0.2 * (index - (len(fractions) - 1) / 2), fmt=MARKS[index], ms=4,
                          capsize=2, color=CYCLE[index], label=f"{100 * fraction:.0f} % of T" if not place else None,
                          xerr=[[100 * (row["value"] - row["low"])], [100 * (row["high"] - row["value"])]])
    here.axvline(0, color="#888888", lw=0.8)
    here.set(yticks=range(len(names)), yticklabels=names, xlabel="our form: points above fixed depth (95 % interval)")
    here.invert_yaxis()
    legend_above(here, 4)
    labels = {"trained": "trained at that depth", "stopped": "the deep model, at that fixed depth",
              "halted": "the deep model, halted at that mean depth"}
    for index, (key, label) in enumerate(labels.items()):
        for place, row in enumerate(ours["smaller_depths"].values()):
            there.bar(place + 0.27 * (index - 1), 100 * row[key]["value"], 0.25, color=CYCLE[index],
                      label=label if not place else None)
    there.set(xticks=range(len(ours["smaller_depths"])), ylabel="test accuracy (%)",
              xticklabels=[f"{depth} steps" for depth in ours["smaller_depths"]], xlabel="as printed")
    legend_above(there, 1)
    return figure


SECTION = Section(
    name="rules", title="Beyond: stopping rules",
    claim="Halting by relative quality needs no auxiliary signal; it is the natural rule (abstract, §4).",
    paper={"statement": "no other rule is compared"}, units=units, judge=judge, draw=draw)
