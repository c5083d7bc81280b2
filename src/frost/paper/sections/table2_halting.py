"""Table 2: depth against accuracy as the quantile of the halting score moves (§6.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from frost.evaluation.calibrating import FRACTIONS
from frost.paper.checks import (
    Check,
    Units,
    above,
    accuracy_of,
    along_steps,
    below,
    measured,
    percent,
    points,
    seeds_of,
    shown,
)
from frost.paper.intervals import NORMAL, Measured, difference
from frost.paper.measurements.equal_depth import AT_EQUAL_DEPTH, LOST_AT_HALF, SHARE_LOST, chosen_row, row_of
from frost.paper.measurements.state_similarity import is_rising
from frost.paper.section import Finding, Section
from frost.paper.sizes import Size
from frost.paper.units import BASE, Unit, base, ours
from frost.report.drawing import CYCLE, MARKS, TITLES, Values, legend_above, panels

DISTINCT = 5             # of eight quantiles: so many must lead to mean depths of their own


class PublishedRow(NamedTuple):
    """One line of Table 2: CIFAR-100, T = 16."""

    quantile: float
    mean_depth: float
    accuracy: float


TABLE_2_DEPTH = 16
TABLE_2 = tuple(PublishedRow(*row) for row in (
    (0.125, 4.37, 0.4539), (0.25, 6.06, 0.5240), (0.375, 7.26, 0.5578), (0.5, 8.30, 0.5772),
    (0.625, 9.43, 0.5947), (0.75, 10.77, 0.6070), (0.875, 12.49, 0.6177), (1.0, 16.00, 0.6199)))


def units(size: Size) -> list[Unit]:
    """FROST in our form, and as the paper prints it."""
    return [ours(size, AT_EQUAL_DEPTH), base(size, AT_EQUAL_DEPTH)]


class Form(NamedTuple):
    """What a form of FROST does when it halts."""

    run: Mapping[str, Any]
    half: Mapping[str, Any]      # at half of its depth
    full: Measured               # accuracy at full depth
    lost: Measured               # accuracy that half of the depth costs
    ranks: Measured              # correlation of score and loss, turned so that above 0 is as it should be

    @classmethod
    def of(cls, run: Mapping[str, Any], half: Mapping[str, Any]) -> Form:
        """From a unit, and its row at half depth."""
        return cls(run, half, accuracy_of(run), measured(half["lost"]), _correlation(run))

    def checks(self) -> dict[str, Check]:
        """Does accuracy rise with the quantile, and does halting gain over fixed depth?"""
        depths = {round(row["mean_depth"]["value"], 1) for row in self.run["rows"]}
        return {
            f"accuracy rises with the quantile, over at least {DISTINCT} different mean depths":
                _accuracy_rises(self.run["rows"]) and len(depths) >= DISTINCT,
            f"half of the depth costs at most the paper's {100 * SHARE_LOST:.1f} % of the accuracy":
                below(self.lost, SHARE_LOST * self.full.value),
            "at half depth it gains over fixed depth": above(measured(self.half["gain"])),
            "at half depth the score ranks images by their loss (rank correlation above 0)": above(self.ranks)}

    def sentence(self) -> str:
        """At half depth."""
        return (f"{percent(self.half['accuracy']['value'])} at {self.half['mean_depth']['value']:.2f} of "
                f"{self.run['depth']} steps, {points(-self.lost.value)} from full depth and "
                f"{points(self.half['gain']['value'])} from fixed depth, rank correlation of score and loss "
                f"{-self.ranks.value:.2f}")


def judge(units: Units) -> Finding:
    """Do depth and accuracy rise with the quantile, and does halting gain over fixed depth?"""
    forms = {"ours": Form.of(units["ours"], chosen_row(units["ours"], 0.5)),
             "as-printed": Form.of(units[BASE], row_of(units[BASE], "rank", 0.5))}
    runs = [form.run for form in forms.values()]
    return Finding(
        _numbers(forms), {f"as printed, {check}": met for check, met in forms["as-printed"].checks().items()},
        "At half depth, " + "; ".join(f"{TITLES[name]}: {form.sentence()}" for name, form in forms.items()) + ".",
        runs, seeds_of(*runs),
        compared=[["accuracy at full depth", f"{100 * TABLE_2[-1].accuracy:.2f} %",
                   _beside({name: form.full for name, form in forms.items()}, " %")],
                  ["points lost at half depth (paper: at 52 %)", f"{100 * LOST_AT_HALF:.2f}",
                   _beside({name: form.lost for name, form in forms.items()})],
                  ["points above fixed depth there", "not shown",
                   _beside({name: measured(form.half["gain"]) for name, form in forms.items()})]],
        beyond={f"in our form, {check}": met for check, met in forms["ours"].checks().items()},
        sanity={"mean depth rises with the quantile, in both forms": all(
            is_rising([row["mean_depth"]["value"] for row in run["rows"]]) for run in runs)})


def _numbers(forms: Mapping[str, Form]) -> dict[str, Any]:
    return {"rows": {name: form.run["rows"] for name, form in forms.items()},
            "each_step": {name: [row_of(form.run, "rank-per-step", fraction) for fraction in FRACTIONS]
                          for name, form in forms.items()},
            "at_half": {name: form.half for name, form in forms.items()},
            "lost_at_half": {name: form.lost._asdict() for name, form in forms.items()},
            "full_depth": {name: form.full._asdict() for name, form in forms.items()},
            "score_and_loss": {name: form.ranks._asdict() for name, form in forms.items()},
            "per_step_accuracy": {name: along_steps(form.run) for name, form in forms.items()}}


def _beside(values: Mapping[str, Measured], unit: str = "") -> str:
    return "; ".join(f"{TITLES[name]} {shown(value, 2, 100)}{unit}" for name, value in values.items())


def _correlation(unit: Mapping[str, Any]) -> Measured:
    """The rank correlation of score and loss at half depth, with Fisher's interval."""
    found = unit["score_and_loss"][max(0, unit["depth"] // 2 - 1)]
    value = 0.0 if found is None else found
    middle = math.atanh(max(-0.999999, min(0.999999, value)))
    half = 1.06 * NORMAL / math.sqrt(max(4, unit["images"]) - 3)
    return Measured(value, math.tanh(middle - half), math.tanh(middle + half), unit["images"])


def _accuracy_rises(rows: list[dict[str, Any]]) -> bool:
    """No fall of more than a standard error, and the largest above the smallest with 95 %."""
    values = [measured(row["accuracy"]) for row in rows]
    error = max((value.high - value.low) / (2 * NORMAL) for value in values)
    return is_rising([value.value for value in values], error) and difference(values[-1], values[0]).low > 0


def draw(paper: Values, ours: Values, _: Values) -> Any:
    """Accuracy over mean depth, adaptive and at fixed depth, in both forms."""
    figure, axes = panels(2)
    for cell, (name, rows) in zip(axes, ours["rows"].items(), strict=True):
        steps = ours["per_step_accuracy"][name]
        cell.plot(range(1, len(steps) + 1), [100 * value["value"] for value in steps], "s--", ms=4, color=CYCLE[1],
                  label="fixed depth")
        for index, some, label in ((0, rows, "adaptive, one threshold, eight quantiles"),
                                   (2, ours["each_step"][name], "adaptive, a threshold for each step")):
            values = [row["accuracy"] for row in some]
            cell.errorbar([row["mean_depth"]["value"] for row in some], [100 * value["value"] for value in values],
                          color=CYCLE[index], fmt=f"{MARKS[index]}-", ms=4, capsize=2, label=label,
                          yerr=[[100 * (value["value"] - value["low"]) for value in values],
                                [100 * (value["high"] - value["value"]) for value in values]])
        share = len(steps) / paper["depth"]
        cell.plot([row["mean_depth"] * share for row in paper["rows"]],
                  [100 * row["accuracy"] for row in paper["rows"]], "k*", ms=5,
                  label="the paper's Table 2, CIFAR-100, depth ÷ 16 × T")
        cell.set(xlabel="mean depth (steps per image)", ylabel="test accuracy (%)")
        cell.set_title(TITLES[name], loc="right")
        legend_above(cell, 1)
    return figure


SECTION = Section(
    name="halting", title="Table 2: halting",
    claim="The quantile of the halting score, which ranks images by their quality, trades depth for accuracy: half of "
          "the depth costs 4.27 of 61.99 points (Table 2).",
    paper={"depth": TABLE_2_DEPTH, "rows": [row._asdict() for row in TABLE_2], "lost_at_half": LOST_AT_HALF},
    units=units, judge=judge, draw=draw)
