"""Table 3: what depth, parameters and FLOPs come to, and what the clock says (§6.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frost.analysis.claims.verdict import Section, Units, measured, seeds_of, verdict_of
from frost.analysis.intervals import exact, scaled
from frost.analysis.published import TABLE_3


def complexity(units: Units) -> Section:
    """At our own mean depth under quantile 0.5, does FROST need fewer FLOPs?"""
    counted, ours_run = units["complexity"]["counted"], units["ours"]
    half = next(row for row in ours_run["rows"] if row["quantile"] == 0.5)
    share = scaled(measured(half["mean_depth"]), 1 / ours_run["depth"])
    backbones = sorted({name.split("-", 1)[1] for name in counted if name.startswith("frost-")})
    checks: dict[str, bool] = {}
    ours: dict[str, Any] = {"share_of_depth": share._asdict()}
    sentence = []
    for backbone in backbones:
        for model in ("vanilla", "recurrent", "basic-ssm", "frost"):
            row = counted[f"{model}-{backbone}"]
            depth = scaled(share if model == "frost" else exact(1.0), row["depth"])
            flops = scaled(depth, row["flops_per_step"], row["flops_once"])
            ours[f"{model}-{backbone}"] = {"mean_depth": depth._asdict(), "flops": flops._asdict(),
                                           "parameters": exact(row["parameters"])._asdict()}
        frost, vanilla, ssm = (ours[f"{model}-{backbone}"] for model in ("frost", "vanilla", "basic-ssm"))
        saved = ssm["flops"]["value"] / frost["flops"]["value"]
        checks[f"{backbone}: adaptive depth saves at least the paper's half of BasicSSM's FLOPs"] = saved >= 2
        if backbone.startswith("vit"):
            checks[f"{backbone}: FROST needs fewer FLOPs than Vanilla"] = \
                frost["flops"]["value"] < vanilla["flops"]["value"]
            checks[f"{backbone}: FROST has fewer parameters than Vanilla"] = \
                frost["parameters"]["value"] < vanilla["parameters"]["value"]
        sentence.append(f"{backbone}: {saved:.2f} × fewer FLOPs than at full depth, "
                        f"{vanilla['flops']['value'] / frost['flops']['value']:.2f} × fewer than Vanilla")
    return Section(
        "Halting brings FROST's FLOPs to half of BasicSSM's or less; with ViT-B/16 it is better than Vanilla in depth, "
        "FLOPs and parameters, and 1.97 × as fast (Table 3).",
        {"rows": {name: row._asdict() for name, row in TABLE_3.items()},
         "speedup": {"resnet50": _speedup("resnet50"), "vit-b16": _speedup("vit-b16")}},
        ours, verdict_of(checks, ours_run), "; ".join(checks),
        f"At our own mean depth under quantile 0.5, {100 * share.value:.0f} % of full depth: " + "; ".join(sentence) +
        ". Images per second stand under timing.", checks, seeds_of(ours_run))


def speed(unit: Mapping[str, Any]) -> dict[str, Any]:
    """What the clock says at the paper's own depths: images per second ÷ Vanilla's, for each backbone and batch."""
    return {backbone: {str(row["batch"]): {"versus_vanilla": row["versus_vanilla"], "efficiency": row["efficiency"]}
                       for row in rows if row["executor"] == "refill"}
            for backbone, rows in unit["timing"]["rows"].items()}


def _speedup(backbone: str) -> float:
    return TABLE_3[f"frost-{backbone}"].images_per_second / TABLE_3[f"vanilla-{backbone}"].images_per_second
