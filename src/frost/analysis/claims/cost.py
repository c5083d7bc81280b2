"""Table 3: what depth, parameters and FLOPs come to, and what the clock says (§6.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frost.analysis.claims.stated import SHARE_LOST
from frost.analysis.claims.verdict import (
    Check,
    Section,
    Units,
    accuracy_of,
    below,
    measured,
    percent,
    section,
    seeds_of,
)
from frost.analysis.intervals import exact, scaled
from frost.analysis.published import TABLE_3

MODELS = ("vanilla", "recurrent", "basic-ssm", "frost")


def complexity(units: Units) -> Section:
    """At the smallest depth that costs no more accuracy than the paper's, does FROST need fewer FLOPs?"""
    counted, ours_run = units["complexity"]["counted"], units["ours"]
    row = _cheapest(ours_run)
    share = exact(1.0) if row is None else scaled(measured(row["mean_depth"]), 1 / ours_run["depth"])
    lost = 0.0 if row is None else row["lost"]["value"]
    backbones = sorted({name.split("-", 1)[1] for name in counted if name.startswith("frost-")})
    checks: dict[str, Check] = {}
    beyond: dict[str, Check] = {}
    compared, sentence = [], []
    ours: dict[str, Any] = {"share_of_depth": share._asdict(), "share_of_accuracy_lost": exact(
        lost / accuracy_of(ours_run).value)._asdict()}
    for backbone in backbones:
        flops = {}
        for model in MODELS:
            row_of = counted[f"{model}-{backbone}"]
            depth = scaled(share if model == "frost" else exact(1.0), row_of["depth"])
            flops[model] = scaled(depth, row_of["flops_per_step"], row_of["flops_once"])
            ours[f"{model}-{backbone}"] = {"steps_counted": depth._asdict(), "flops": flops[model]._asdict(),
                                           "parameters": exact(row_of["parameters"])._asdict()}
            printed = TABLE_3.get(f"{model}-{backbone}")
            compared.append([f"{model}-{backbone}: steps, parameters, FLOPs",
                             "–" if printed is None else f"{printed.mean_depth:.2f}, {printed.parameters / 1e6:.2f} M, "
                             f"{printed.flops / 1e9:.2f} G", f"{depth.value:.2f}, {row_of['parameters'] / 1e6:.2f} M, "
                             f"{flops[model].value / 1e9:.2f} G"])
        checks[f"{backbone}: FROST needs at most half of BasicSSM's FLOPs"] = \
            below(flops["frost"], flops["basic-ssm"].value / 2)
        vanilla = below(flops["frost"], flops["vanilla"].value)
        fewer = counted[f"frost-{backbone}"]["parameters"] < counted[f"vanilla-{backbone}"]["parameters"]
        if backbone.startswith("vit"):
            checks[f"{backbone}: it needs fewer FLOPs than Vanilla"] = vanilla
            checks[f"{backbone}: it has fewer parameters than Vanilla"] = fewer
        else:
            beyond[f"{backbone}: it needs fewer FLOPs than Vanilla"] = vanilla
        sentence.append(f"{backbone}: BasicSSM needs {flops['basic-ssm'].value / flops['frost'].value:.2f} times and "
                        f"Vanilla {flops['vanilla'].value / flops['frost'].value:.2f} times FROST's FLOPs")
    return section(
        "complexity", ours, checks,
        f"The cheapest setting of our run that loses at most the paper's {100 * SHARE_LOST:.1f} % of its accuracy "
        f"takes {100 * share.value:.0f} % of full depth and loses {percent(lost)} of the images; at this share of each "
        "backbone's depth: " + "; ".join(sentence) + ". Images per second stand under timing.",
        [ours_run], seeds_of(ours_run), compared=compared, beyond=beyond)


def _cheapest(unit: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The setting of the smallest mean depth that loses no larger share of the accuracy than the paper's."""
    most = SHARE_LOST * accuracy_of(unit).value
    rows = [*unit["rows"], *(row for row in unit["rules"]["rows"] if row["policy"].startswith("rank"))]
    good = [row for row in rows if row["lost"]["value"] <= most]
    return min(good, key=lambda row: row["mean_depth"]["value"], default=None)


def speed(unit: Mapping[str, Any]) -> dict[str, Any]:
    """What the clock says at the paper's own depths: images per second ÷ Vanilla's, for each backbone and batch."""
    return {backbone: {str(row["batch"]): {"versus_vanilla": row["versus_vanilla"], "efficiency": row["efficiency"]}
                       for row in rows if row["executor"] == "refill"}
            for backbone, rows in unit["timing"]["rows"].items()}
