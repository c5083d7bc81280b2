"""Table 3: what depth, parameters and FLOPs come to, and what the clock says (§6.5)."""

from __future__ import annotations

from typing import Any

from frost.analysis.claims.verdict import Section, Units, verdict_of
from frost.analysis.intervals import exact
from frost.analysis.published import TABLE_3

PAPER_SPEEDUP = {"resnet": 47.183 / 33.077, "vit": 42.292 / 21.484}    # FROST ÷ Vanilla, images per second


def complexity(units: Units) -> Section:
    """Does FROST at its mean depth need fewer FLOPs and run faster than Vanilla of the same block?"""
    counted, timed = units["complexity"]["counted"], units["complexity"]["timing"]["rows"]
    checks: dict[str, bool] = {}
    sentence = []
    for backbone, rows in timed.items():
        frost, vanilla = counted[f"frost-{backbone}"], counted[f"vanilla-{backbone}"]
        speed = {row["batch"]: row["versus_vanilla"] for row in rows if row["executor"] == "refill"}
        checks[f"{backbone}: FROST at its mean depth needs fewer FLOPs than Vanilla"] = \
            frost["flops"] < vanilla["flops"]
        checks[f"{backbone}: FROST has fewer parameters than Vanilla"] = frost["parameters"] < vanilla["parameters"]
        checks[f"{backbone}: at the largest batch FROST answers more images a second than Vanilla"] = \
            speed[max(speed)] > 1
        sentence.append(f"{backbone}: {vanilla['flops'] / frost['flops']:.2f} × fewer FLOPs than Vanilla at a mean "
                        f"depth of {frost['mean_depth']:.2f}")
    ours: dict[str, Any] = {name: {key: exact(row[key])._asdict() for key in ("mean_depth", "parameters", "flops")}
                            for name, row in counted.items()}
    return Section(
        "At its mean depth FROST needs fewer FLOPs and runs 1.97 × as fast as Vanilla with ViT-B/16, 1.43 × with "
        "ResNet (Table 3).",
        {"rows": {name: row._asdict() for name, row in TABLE_3.items()}, "speedup": PAPER_SPEEDUP},
        ours, verdict_of(checks), "; ".join(checks),
        "; ".join(sentence) + ". Depths are drawn from the paper's distribution and executed; images per second stand "
        "under timing.", checks, [0])
