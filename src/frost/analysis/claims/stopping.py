"""What halting buys: Table 2 and beyond."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from frost.analysis.claims.stated import LOST_AT_HALF, SHARE_LOST
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
from frost.analysis.consistency import is_rising
from frost.analysis.intervals import NORMAL, Measured, difference, of_share
from frost.analysis.published import TABLE_2

ENOUGH = -0.005          # of an accuracy: the lower limit that the rank score must keep against the best simple rule
SHARES = (0.35, 0.5, 0.75)    # of full depth
STEADY = 0.1             # of a mean depth: how far it may move and be called robust
DISTINCT = 5             # of eight quantiles: so many must lead to mean depths of their own
FORMS = {"rank": "one old threshold", "rank-per-step": "an old threshold for each step"}
NAMES = {"ours": "our form", "as-printed": "as printed"}


def halting(units: Units) -> Section:
    """Do depth and accuracy rise with the quantile, and does halting gain over stopping everybody at the same step?"""
    runs = {"ours": units["ours"], "as-printed": units["frost-mean-s0"]}
    tables = {name: run["rows"] for name, run in runs.items()}
    half = {"ours": _chosen(runs["ours"], 0.5), "as-printed": _row(runs["as-printed"], "rank", 0.5)}
    full = {name: accuracy_of(run) for name, run in runs.items()}
    lost = {name: measured(row["lost"]) for name, row in half.items()}
    ranks = {name: _correlation(run) for name, run in runs.items()}

    def asked(name: str) -> dict[str, Check]:
        depths = {round(row["mean_depth"]["value"], 1) for row in tables[name]}
        return {
            f"accuracy rises with the quantile, over at least {DISTINCT} different mean depths":
                _accuracy_rises(tables[name]) and len(depths) >= DISTINCT,
            f"half of the depth costs at most the paper's {100 * SHARE_LOST:.1f} % of the accuracy":
                below(lost[name], SHARE_LOST * full[name].value),
            "at half depth it gains over stopping everybody at the same step": above(measured(half[name]["gain"])),
            "at half depth the score ranks images by their loss (rank correlation above 0)": above(ranks[name])}

    checks = {f"as printed, {check}": met for check, met in asked("as-printed").items()}
    beyond = {f"in our form, {check}": met for check, met in asked("ours").items()}
    sanity = {"mean depth rises with the quantile, in both forms": all(
        is_rising([row["mean_depth"]["value"] for row in rows]) for rows in tables.values())}
    each_step = {name: [_row(run, "rank-per-step", fraction) for fraction in SHARES] for name, run in runs.items()}
    ours = {"rows": tables, "each_step": each_step, "at_half": half,
            "lost_at_half": {name: value._asdict() for name, value in lost.items()},
            "full_depth": {name: value._asdict() for name, value in full.items()},
            "score_and_loss": {name: value._asdict() for name, value in ranks.items()},
            "per_step_accuracy": {name: along_steps(run) for name, run in runs.items()}}
    words = [f"{NAMES[name]}: {percent(row['accuracy']['value'])} at {row['mean_depth']['value']:.2f} of "
             f"{runs[name]['depth']} steps, {points(-lost[name].value)} from full depth and "
             f"{points(row['gain']['value'])} from stopping everybody there, rank correlation of score and loss "
             f"{-ranks[name].value:.2f}" for name, row in half.items()]
    return section(
        "halting", ours, checks, "At half depth, " + "; ".join(words) + ".", list(runs.values()),
        seeds_of(*runs.values()),
        compared=[["accuracy at full depth", f"{100 * TABLE_2[-1].accuracy:.2f} %",
                   "; ".join(f"{NAMES[name]} {shown(value, 2, 100)} %" for name, value in full.items())],
                  ["points lost at half depth (paper: at 52 %)", f"{100 * LOST_AT_HALF:.2f}",
                   "; ".join(f"{NAMES[name]} {shown(value, 2, 100)}" for name, value in lost.items())],
                  ["points above fixed depth there", "not shown",
                   "; ".join(f"{NAMES[name]} {shown(measured(row['gain']), 2, 100)}" for name, row in half.items())]],
        beyond=beyond, sanity=sanity)


def rules(units: Units) -> Section:
    """Is the learned score as good as the best simple rule, and early exit as good as a shallower model?"""
    found = units["ours"]["rules"]
    versus = [row for row in found["versus"] if row["fraction"] in SHARES]
    base = units["frost-mean-s0"]
    depths = sorted(int(name.rsplit("-", 1)[1]) for name in units if name.startswith("frost-depth-"))
    smaller: dict[str, Any] = {str(depth): {"trained": accuracy_of(units[f"frost-depth-{depth}"])._asdict(),
                            "stopped": accuracy_of(base, depth - 1)._asdict(),
                            "halted": _chosen(base, depth / base["depth"])["accuracy"]} for depth in depths}
    gains = {fraction: measured(_chosen(units["ours"], fraction)["gain"]) for fraction in SHARES}
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
    return section(
        "rules", {"rows": found["rows"], "versus": versus, "oracle": found["oracle"], "smaller_depths": smaller},
        checks, f"The rank score at {beside}. " + " ".join(
            f"Trained at T = {depth}: {percent(row['trained']['value'])}; the deep model, halted at that mean depth: "
            f"{percent(row['halted']['value'])}." for depth, row in smaller.items()),
        [units["ours"], base], seeds_of(units["ours"], base),
        compared=[[f"{100 * row['fraction']:.0f} % of depth: gain over fixed depth; against {row['simple']}", "–",
                   f"{shown(gains[row['fraction']], 2, 100)}; {shown(measured(row['difference']), 2, 100)} points"]
                  for row in versus] +
                 [[f"oracle ({name}): mean depth, accuracy", "–", f"{row['mean_depth']['value']:.2f}, "
                   f"{percent(row['accuracy']['value'])}"] for name, row in found["oracle"].items()])


def extrapolation(units: Units) -> Section:
    """Do more steps than it was trained for refine the answer, or overthink it?"""
    runs = {"ours": units["ours"], "as-printed": units["frost-mean-s0"]}
    found = {name: {key: of_share(round(value * run["extrapolation"]["images"]), run["extrapolation"]["images"])
                    for key, value in run["extrapolation"]["at"].items()} for name, run in runs.items()}
    gaps = {name: {key: measured(value) for key, value in run["extrapolation"]["against_full"].items()}
            for name, run in runs.items()}

    def asked(name: str) -> dict[str, Check]:
        accuracy = found[name]["full"].value
        return {"T steps are better than T/2": below(gaps[name]["half"]),
                "2T steps are as accurate as T, to a thirtieth": close_to(gaps[name]["double"], accuracy),
                "so are 4T": close_to(gaps[name]["fourfold"], accuracy),
                "2T steps are better than T": above(gaps[name]["double"])}

    words = {name: "refines" if gaps[name]["double"].low > 0 else "overthinks" if gaps[name]["double"].high < 0
             else "does neither" for name in runs}
    return section(
        "extrapolation",
        {name: {"at": {key: value._asdict() for key, value in rows.items()},
                "against_full": {key: value._asdict() for key, value in gaps[name].items()},
                "per_step_accuracy": along_steps(runs[name]["extrapolation"])} for name, rows in found.items()},
        {f"as printed, {check}": met for check, met in asked("as-printed").items()},
        " ".join(f"{NAMES[name].capitalize()}: {percent(rows['half'].value)} at T/2, {percent(rows['full'].value)} at "
                 f"T, {percent(rows['double'].value)} at 2T, {percent(rows['fourfold'].value)} at 4T; beyond T it "
                 f"{words[name]}." for name, rows in found.items()),
        list(runs.values()), seeds_of(*runs.values()),
        compared=[[f"{NAMES[name]}: points from T, at T/2, 2T, 4T", "–",
                   ", ".join(shown(gaps[name][key], 2, 100) for key in ("half", "double", "fourfold"))]
                  for name in found],
        beyond={f"in our form, {check}": met for check, met in asked("ours").items()})


def shift(units: Units) -> Section:
    """Do old thresholds keep the depth under shift, and does a renewed calibration give it back?"""
    found = units["ours"]["shift"]
    rows, clean, wish = found["rows"], measured(found["clean"]["rank"]["mean_depth"]), found["wish"]
    hardest, mildest = ([row for row in rows if row["severity"] == extreme] for extreme in (
        max(row["severity"] for row in rows), min(row["severity"] for row in rows)))
    depths = {id(row): measured(row["old"]["rank"]["mean_depth"]) for row in rows}
    old = {key: difference(depth, clean) for key, depth in depths.items()}
    gains = {policy: [measured(row["old"][policy]["gain"]) for row in rows] for policy in FORMS}
    won, lost = ({policy: sum(is_so(gain) for gain in some) for policy, some in gains.items()}
                 for is_so in (lambda gain: gain.low > 0, lambda gain: gain.high < 0))
    checks: dict[str, Check] = {
        f"old thresholds keep the mean depth within {100 * STEADY:.0f} % at the smallest severity, for every kind":
            every(_within(old[id(row)], STEADY * clean.value) for row in mildest),
        "harder images get more steps: at the largest severity more than clean ones, for every kind":
            every(above(old[id(row)]) for row in hardest),
    }
    beyond: dict[str, Check] = {
        "old thresholds keep the mean depth at the largest severity, too":
            every(_within(old[id(row)], STEADY * clean.value) for row in hardest),
        "a renewed calibration brings the mean depth within 5 % of that of clean images, for every kind and severity":
            every(_within(difference(measured(row["renewed"]["rank"]["mean_depth"]), clean), 0.05 * clean.value)
                  for row in rows),
        **{f"with {name} halting gains over fixed depth in more of the cases than it loses (by 95 % limits)":
           won[policy] > lost[policy] for policy, name in FORMS.items()},
    }
    spread = [(min(values), max(values)) for values in ([depths[id(row)].value for row in some] for some in
                                                        (mildest, hardest))]
    return section(
        "shift", dict(found), checks,
        f"Asked for {wish:.1f} steps: clean images take {clean.value:.2f}, the least corrupted {spread[0][0]:.2f} to "
        f"{spread[0][1]:.2f}, the most corrupted {spread[1][0]:.2f} to {spread[1][1]:.2f} under the old threshold. "
        + " ".join(f"With {name} {won[policy]} of {len(rows)} cases gain over fixed depth, {lost[policy]} lose."
                   for policy, name in FORMS.items()),
        [units["ours"]], seeds_of(units["ours"]),
        compared=[[f"{row['kind']} {row['severity']}: mean depth, accuracy, with the old threshold and a renewed one; "
                   "with thresholds for each step", "–",
                   "; ".join(f"{row[which][policy]['mean_depth']['value']:.2f}, "
                             f"{percent(row[which][policy]['accuracy']['value'])}"
                             for policy in FORMS for which in ("old", "renewed"))] for row in rows], beyond=beyond)


def _within(gap: Measured, limit: float) -> Check:
    """Whether a difference is small, to either side."""
    return every((below(gap, limit), above(gap, -limit)))


def _correlation(unit: Mapping[str, Any]) -> Measured:
    """The rank correlation of score and loss at half depth, turned so that above 0 is as it should be."""
    found = unit["score_and_loss"][max(0, unit["depth"] // 2 - 1)]
    value = 0.0 if found is None else found
    middle, half = math.atanh(max(-0.999999, min(0.999999, value))), 1.06 * NORMAL / math.sqrt(max(4, unit["images"]) -
                                                                                          3)
    return Measured(value, math.tanh(middle - half), math.tanh(middle + half), unit["images"])


def _chosen(unit: Mapping[str, Any], fraction: float) -> dict[str, Any]:
    """The form of the rank score that was right most often on validation, at a fraction of full depth."""
    policy = next(row["policy"] for row in unit["rules"]["versus"] if row["fraction"] == fraction)
    return _row(unit, policy, fraction)


def _row(unit: Mapping[str, Any], policy: str, fraction: float) -> dict[str, Any]:
    return next(row for row in unit["rules"]["rows"] if row["policy"] == policy and row["fraction"] == fraction)


def _accuracy_rises(rows: list[dict[str, Any]]) -> bool:
    """No fall of more than a standard error, and the largest above the smallest with 95 %."""
    values = [measured(row["accuracy"]) for row in rows]
    error = max((value.high - value.low) / (2 * NORMAL) for value in values)
    return is_rising([value.value for value in values], error) and difference(values[-1], values[0]).low > 0
