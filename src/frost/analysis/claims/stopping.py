"""What halting buys: Table 2 and beyond."""

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
from frost.analysis.consistency import is_rising
from frost.analysis.intervals import NORMAL, difference, of_mean, of_share
from frost.analysis.published import TABLE_2, TABLE_2_DEPTH

PAPER_LOSS = TABLE_2[-1].accuracy - TABLE_2[3].accuracy    # at 52 % of full depth
ENOUGH = -0.005          # of an accuracy: the lower limit that the rank score must keep against the best simple rule
NEAR = 0.01
SHARES = (0.35, 0.5, 0.75)    # of full depth


def halting(units: Units) -> Section:
    """Do depth and accuracy rise with the quantile, and does halting gain over stopping everybody at the same step?"""
    runs = {"ours": units["ours"], "as-printed": units["frost-mean-s0"]}
    tables = {name: run["rows"] for name, run in runs.items()}
    gains = {"ours": _chosen(runs["ours"], 0.5), "as-printed": _row(runs["as-printed"], "rank", 0.5)}
    full = accuracy_of(runs["ours"])
    lost = measured(gains["ours"]["lost"])
    sanity = {"mean depth rises with the quantile, in both forms": all(
        is_rising([row["mean_depth"]["value"] for row in rows]) for rows in tables.values())}
    checks = {
        "as printed, accuracy rises with the quantile (no fall of more than a standard error, and the largest above "
        "the smallest with 95 %)": _accuracy_rises(tables["as-printed"]),
        "so it does in our form": _accuracy_rises(tables["ours"]),
        "at half depth our form gains over stopping everybody at the same step (95 % lower limit > 0)":
            gains["ours"]["gain"]["low"] > 0,
        "so does the form as printed": gains["as-printed"]["gain"]["low"] > 0,
        "at half depth our form loses at most the paper's 4.27 points (95 % upper limit)": lost.high <= PAPER_LOSS,
    }
    ours = {"rows": tables, "at_half": gains, "lost_at_half": lost._asdict(), "full_depth": full._asdict(),
            "per_step_accuracy": {name: along_steps(run) for name, run in runs.items()}}
    return Section(
        "The quantile of the halting score trades depth for accuracy: half of the depth costs 4.27 points (Table 2).",
        {"depth": TABLE_2_DEPTH, "rows": [row._asdict() for row in TABLE_2], "lost_at_half": PAPER_LOSS},
        ours, verdict_of(checks, *runs.values()), "; ".join(checks),
        f"At half depth: ours {percent(gains['ours']['accuracy']['value'])}, {points(-lost.value)} from full depth and "
        f"{points(gains['ours']['gain']['value'])} from stopping everybody there; as printed "
        f"{points(gains['as-printed']['gain']['value'])} from its own fixed-depth line.",
        checks, seeds_of(*runs.values()), sanity)


def rules(units: Units) -> Section:
    """Is the learned score as good as the best simple rule, and early exit as good as a shallower model?"""
    found = units["ours"]["rules"]
    versus = [row for row in found["versus"] if row["fraction"] in SHARES]
    base = units["frost-mean-s0"]
    depths = sorted(int(name.rsplit("-", 1)[1]) for name in units if name.startswith("frost-depth-"))
    smaller: dict[str, Any] = {str(depth): {"trained": accuracy_of(units[f"frost-depth-{depth}"])._asdict(),
                            "stopped": accuracy_of(base, depth - 1)._asdict(),
                            "halted": _chosen(base, depth / base["depth"])["accuracy"]} for depth in depths}
    checks = {
        "at 35, 50 and 75 % of full depth the rank score gains over fixed depth (95 % lower limit > 0)":
            all(_chosen(units["ours"], fraction)["gain"]["low"] > 0 for fraction in SHARES),
        "there it is at most half a point below the best simple rule (95 % lower limit)":
            all(row["difference"]["low"] >= ENOUGH for row in versus),
        "stopping the model of depth T early, by its score, is within 1 point of a model trained at that depth":
            all(row["halted"]["value"] >= row["trained"]["value"] - NEAR for row in smaller.values()),
    }
    beside = "; ".join(f"{row['fraction']:.0%}: {points(row['difference']['value'])} against {row['simple']}"
                       for row in versus)
    return Section(
        "Halting by relative quality needs no auxiliary signal; it is the natural rule (abstract, §4).",
        {"statement": "no other rule is compared"},
        {"rows": found["rows"], "versus": versus, "oracle": found["oracle"], "smaller_depths": smaller},
        verdict_of(checks, units["ours"], base), "; ".join(checks),
        f"The rank score beside the best simple rule at {beside}. " + " ".join(
            f"Trained at T = {depth}: {percent(row['trained']['value'])}; the deep model stopped at that step: "
            f"{percent(row['stopped']['value'])}." for depth, row in smaller.items()),
        checks, seeds_of(units["ours"], base))


def extrapolation(units: Units) -> Section:
    """Do more steps than it was trained for refine the answer, or overthink it?"""
    runs = {"ours": units["ours"], "as-printed": units["frost-mean-s0"]}
    found = {name: {key: of_share(round(value * run["extrapolation"]["images"]), run["extrapolation"]["images"])
                    for key, value in run["extrapolation"]["at"].items()} for name, run in runs.items()}
    checks = {f"{name}: {times} steps are at most 1 point below T":
              found[name][key].value >= found[name]["full"].value - NEAR
              for name in runs for key, times in (("double", "2T"), ("fourfold", "4T"))}
    checks |= {f"{name}: 2T steps are better than T (95 % lower limit of the difference > 0)":
               difference(rows["double"], rows["full"]).low > 0 for name, rows in found.items()}
    return Section(
        "A stationary, contractive step may be iterated without limit: more steps sharpen the same representation "
        "(§1, App. A).",
        {"statement": "theoretically unbounded depth"},
        {name: {"at": {key: value._asdict() for key, value in rows.items()},
                "per_step_accuracy": along_steps(runs[name]["extrapolation"])} for name, rows in found.items()},
        verdict_of(checks, *runs.values()), "; ".join(checks),
        " ".join(f"{name}: {percent(rows['half'].value)} at T/2, {percent(rows['full'].value)} at T, "
                 f"{percent(rows['double'].value)} at 2T, {percent(rows['fourfold'].value)} at 4T."
                 for name, rows in found.items()),
        checks, seeds_of(*runs.values()))


def shift(units: Units) -> Section:
    """Do harder images get more steps under the old thresholds, and does a renewed calibration give the depth back?"""
    found = units["ours"]["shift"]
    rows, clean, wish = found["rows"], found["clean"], found["wish"]
    hardest = [row for row in rows if row["severity"] == max(row["severity"] for row in rows)]
    checks = {
        "at the largest severity corrupted images take more steps than clean ones, for every kind":
            all(row["old"]["mean_depth"]["value"] > clean["mean_depth"]["value"] for row in hardest),
        "a renewed calibration brings the mean depth within 5 % of what was asked for, for every kind and severity":
            all(abs(row["renewed"]["mean_depth"]["value"] - wish) <= 0.05 * wish for row in rows),
        "with the old threshold halting still gains over fixed depth (95 % lower limit of the mean over all "
        "corruptions > 0)": of_mean([row["old"]["gain"]["value"] for row in rows]).low > 0,
    }
    deeper = [row["old"]["mean_depth"]["value"] for row in hardest]
    gap = difference(measured(clean["accuracy"]), measured(hardest[0]["old"]["accuracy"]))
    return Section(
        "Thresholds from a quantile sketch of the scores are robust to drift, and harder images get more steps (§4.4, "
        "§6.3).",
        {"statement": "not measured under shift"}, dict(found), verdict_of(checks, units["ours"]), "; ".join(checks),
        f"Asked for {wish:.1f} steps: clean images take {clean['mean_depth']['value']:.2f}, the most corrupted "
        f"{min(deeper):.2f} to {max(deeper):.2f} under the old thresholds; the largest noise costs "
        f"{100 * gap.value:.1f} points.",
        checks, seeds_of(units["ours"]))


def _chosen(unit: Mapping[str, Any], fraction: float) -> dict[str, Any]:
    """The form of the rank score that was right most often on validation, at a fraction of full depth."""
    policy = next(row["policy"] for row in unit["rules"]["versus"] if row["fraction"] == fraction)
    return _row(unit, policy, fraction)


def _row(unit: Mapping[str, Any], policy: str, fraction: float) -> dict[str, Any]:
    return next(row for row in unit["rules"]["rows"] if row["policy"] == policy and row["fraction"] == fraction)


def _accuracy_rises(rows: list[dict[str, Any]]) -> bool:
    values = [measured(row["accuracy"]) for row in rows]
    error = max((value.high - value.low) / (2 * NORMAL) for value in values)
    return is_rising([value.value for value in values], error) and difference(values[-1], values[0]).low > 0
