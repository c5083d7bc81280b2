"""Table 3: what depth, parameters and FLOPs come to, counted, and what the clock says (§6.5).

Counts are the same on every machine; what the clock says is kept apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from frost.evaluation.complexity import measure
from frost.evaluation.throughput import bench
from frost.paper.checks import Check, Units, accuracy_of, below, measured, percent, seeds_of
from frost.paper.intervals import Measured, exact, scaled
from frost.paper.measurements.equal_depth import AT_EQUAL_DEPTH, SHARE_LOST
from frost.paper.section import Finding, Section
from frost.paper.sizes import Size
from frost.paper.units import Unit, ours
from frost.report.drawing import CYCLE, Values, legend_above, panels
from frost.zoo.registry import build, named

MODELS = ("vanilla", "recurrent", "basic-ssm", "frost")


class PublishedComplexity(NamedTuple):
    """One line of Table 3; FROST at its mean depth under quantile 0.5."""

    mean_depth: float
    parameters: float
    flops: float
    images_per_second: float    # NVIDIA GeForce RTX 3090, batch unstated


TABLE_3 = {
    "vanilla-resnet50": PublishedComplexity(16.0, 1.24e6, 8.37e9, 33.077),
    "recurrent-resnet50": PublishedComplexity(16.0, 0.11e6, 8.37e9, 32.898),
    "basic-ssm-resnet50": PublishedComplexity(16.0, 1.49e6, 82.77e9, 23.334),
    "frost-resnet50": PublishedComplexity(7.56, 1.49e6, 39.11e9, 47.183),
    "vanilla-vit-b16": PublishedComplexity(12.0, 85.80e6, 35.13e9, 21.484),
    "recurrent-vit-b16": PublishedComplexity(12.0, 7.83e6, 35.13e9, 21.976),
    "basic-ssm-vit-b16": PublishedComplexity(12.0, 20.81e6, 65.45e9, 15.986),
    "frost-vit-b16": PublishedComplexity(4.53, 20.81e6, 24.71e9, 42.292),
}


def units(size: Size) -> list[Unit]:
    """The counts, and the run of ours whose mean depth they are taken at."""
    return [Unit(name="complexity", table=complexity), ours(size, AT_EQUAL_DEPTH)]


def complexity(size: Size) -> dict[str, Any]:
    """Parameters and FLOPs of four models of each backbone, counted; images per second, timed."""
    counted: dict[str, Any] = {}
    timed: dict[str, Any] = {}
    for backbone in size.backbones:
        result = bench(f"frost-{backbone}", size.batches, executors=("refill",), rounds=1)
        timed[backbone] = [{"model": row.model, "executor": row.executor, "batch": row.batch,
                            "images_per_second": row.images_per_second, "versus_vanilla": row.versus_vanilla,
                            "efficiency": row.efficiency} for row in result.rows]
        for model in MODELS:
            name = f"{model}-{backbone}"
            found = measure(build(named(name), seed=0))
            counted[name] = {"depth": found.depth, "parameters": found.parameters_without_head,
                             "flops_once": found.flops_once, "flops_per_step": found.flops_per_step}
    return {"counted": counted, "timing": {"rows": timed}}


class Cost(NamedTuple):
    """What one model costs at the depth that is counted."""

    depth: Measured
    parameters: int
    flops: Measured

    @classmethod
    def of(cls, counted: Mapping[str, Any], share: Measured) -> Cost:
        """At a share of its depth."""
        depth = scaled(share, counted["depth"])
        return cls(depth, counted["parameters"], scaled(depth, counted["flops_per_step"], counted["flops_once"]))


def judge(units: Units) -> Finding:
    """At the smallest depth that costs no more accuracy than the paper's, does FROST need fewer FLOPs?"""
    counted, run = units["complexity"]["counted"], units["ours"]
    row = _cheapest(run)
    share = exact(1.0) if row is None else scaled(measured(row["mean_depth"]), 1 / run["depth"])
    lost = 0.0 if row is None else row["lost"]["value"]
    backbones = sorted({name.split("-", 1)[1] for name in counted if name.startswith("frost-")})
    costs = {backbone: {model: Cost.of(counted[f"{model}-{backbone}"], share if model == "frost" else exact(1.0))
                        for model in MODELS} for backbone in backbones}
    flat = {f"{model}-{backbone}": cost for backbone, rows in costs.items() for model, cost in rows.items()}
    numbers = {"share_of_depth": share._asdict(),
               "share_of_accuracy_lost": exact(lost / accuracy_of(run).value)._asdict(),
               **{name: {"steps_counted": cost.depth._asdict(), "flops": cost.flops._asdict(),
                         "parameters": exact(cost.parameters)._asdict()} for name, cost in flat.items()}}
    checks, beyond = _checks(costs)
    return Finding(
        numbers, checks,
        f"The cheapest setting of our run that loses at most the paper's {100 * SHARE_LOST:.1f} % of its accuracy "
        f"takes {100 * share.value:.0f} % of full depth and loses {percent(lost)} of the images; at this share of each "
        "backbone's depth: " + "; ".join(
            f"{backbone}: BasicSSM needs {rows['basic-ssm'].flops.value / rows['frost'].flops.value:.2f} times and "
            f"Vanilla {rows['vanilla'].flops.value / rows['frost'].flops.value:.2f} times FROST's FLOPs"
            for backbone, rows in costs.items()) + ". Images per second stand under timing.",
        [run], seeds_of(run), compared=[_compared(name, cost) for name, cost in flat.items()], beyond=beyond)


def _checks(costs: Mapping[str, Mapping[str, Cost]]) -> tuple[dict[str, Check], dict[str, Check]]:
    """What the paper says of each backbone, and what it does not say of a ResNet."""
    checks: dict[str, Check] = {}
    beyond: dict[str, Check] = {}
    for backbone, rows in costs.items():
        ours, vanilla = rows["frost"], rows["vanilla"]
        checks[f"{backbone}: FROST needs at most half of BasicSSM's FLOPs"] = \
            below(ours.flops, rows["basic-ssm"].flops.value / 2)
        said = checks if backbone.startswith("vit") else beyond
        said[f"{backbone}: it needs fewer FLOPs than Vanilla"] = below(ours.flops, vanilla.flops.value)
        if backbone.startswith("vit"):
            checks[f"{backbone}: it has fewer parameters than Vanilla"] = ours.parameters < vanilla.parameters
    return checks, beyond


def _compared(name: str, cost: Cost) -> list[str]:
    printed = TABLE_3.get(name)
    return [f"{name}: steps, parameters, FLOPs",
            "–" if printed is None else _line(printed.mean_depth, printed.parameters, printed.flops),
            _line(cost.depth.value, cost.parameters, cost.flops.value)]


def _line(depth: float, parameters: float, flops: float) -> str:
    return f"{depth:.2f}, {parameters / 1e6:.2f} M, {flops / 1e9:.2f} G"


def _cheapest(unit: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The setting of the smallest mean depth that loses no larger share of the accuracy than the paper's."""
    most = SHARE_LOST * accuracy_of(unit).value
    rows = [*unit["rows"], *(row for row in unit["rules"]["rows"] if row["policy"].startswith("rank"))]
    good = [row for row in rows if row["lost"]["value"] <= most]
    return min(good, key=lambda row: row["mean_depth"]["value"], default=None)


def timed(units: Units) -> dict[str, Any]:
    """What the clock says at the paper's own depths: images per second, and ÷ Vanilla's by backbone and batch."""
    throughput = units["complexity"]["timing"]["rows"]
    speed = {backbone: {str(row["batch"]): {"versus_vanilla": row["versus_vanilla"], "efficiency": row["efficiency"]}
                        for row in rows if row["executor"] == "refill"} for backbone, rows in throughput.items()}
    return {"throughput": throughput, "speed": speed}


def remark(timing: Values) -> str:
    """What the clock says, in a sentence."""
    words = "; ".join(f"{backbone}, batch {batch}: {row['versus_vanilla']:.2f} × Vanilla"
                      for backbone, rows in timing["speed"].items() for batch, row in rows.items())
    return f"On the clock, at the paper's depths, executed by refill: {words}."


def speedup(backbone: str) -> float:
    """Images per second of FROST ÷ Vanilla's, as printed."""
    return TABLE_3[f"frost-{backbone}"].images_per_second / TABLE_3[f"vanilla-{backbone}"].images_per_second


def draw(paper: Values, ours: Values, timing: Values) -> Any:
    """Images per second beside Vanilla of the same block."""
    rows = timing["throughput"]
    figure, axes = panels(len(rows), 2.9)
    for cell, (backbone, lines) in zip(axes, rows.items(), strict=True):
        rates = {(line["model"], line["executor"], line["batch"]): line["images_per_second"] for line in lines}
        models = [("vanilla", "full"), ("recurrent", "full"), ("basic-ssm", "full"), (f"frost-{backbone}", "full"),
                  (f"frost-{backbone}", "refill")]
        batches = sorted({line["batch"] for line in lines})
        wide = 0.8 / len(batches)
        for index, batch in enumerate(batches):
            values = [rates.get((*key, batch), 0.0) / rates["vanilla", "full", batch] for key in models]
            cell.bar([place + wide * (index - (len(batches) - 1) / 2) for place in range(len(models))], values,
                     0.95 * wide, color=CYCLE[index], label=f"batch {batch}")
        cell.set(xticks=range(len(models)), ylabel="images/s ÷ Vanilla",
                 xticklabels=["Vanilla", "Recurrent", "BasicSSM", "FROST,\nfull depth", "FROST,\nadaptive"])
        cell.axhline(1, color="#888888", lw=0.8)
        cell.set_title(f"{backbone}, adaptive: at the paper's depths", loc="right", fontsize=8)
        legend_above(cell, 3)
    return figure


SECTION = Section(
    name="complexity", title="Table 3: complexity",
    claim="At a mean depth of about half, FROST needs less than half of BasicSSM's FLOPs; with ViT-B/16 it needs fewer "
          "than Vanilla too, and is 1.97 times as fast (Table 3).",
    paper={"rows": {name: row._asdict() for name, row in TABLE_3.items()},
           "speedup": {name: speedup(name) for name in ("resnet50", "vit-b16")}},
    units=units, judge=judge, draw=draw, timed=timed, remark=remark)
