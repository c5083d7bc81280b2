"""Table 3: parameters and FLOPs of four models of two backbones, counted; images per second, timed.

Counts are the same on every machine; what the clock says is kept apart.
"""

from __future__ import annotations

from typing import Any

from frost.evaluation.complexity import measure
from frost.evaluation.throughput import bench
from frost.workflows.kit.plan import MODELS
from frost.workflows.kit.scales import Scale
from frost.zoo.registry import build, named


def complexity(scale: Scale) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is counted, and what is timed."""
    counted: dict[str, Any] = {}
    timed: dict[str, Any] = {}
    for backbone in scale.backbones:
        result = bench(f"frost-{backbone}", scale.batches, executors=("refill",), rounds=1)
        timed[backbone] = [{"model": row.model, "executor": row.executor, "batch": row.batch,
                            "images_per_second": row.images_per_second, "versus_vanilla": row.versus_vanilla,
                            "efficiency": row.efficiency} for row in result.rows]
        for model in MODELS:
            name = f"{model}-{backbone}"
            config = named(name)
            ours = measure(build(config, seed=0))
            counted[name] = {"depth": ours.depth, "parameters": ours.parameters_without_head,
                             "flops_once": ours.flops_once, "flops_per_step": ours.flops_per_step}
    return counted, timed
