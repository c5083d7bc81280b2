"""What a step costs: FROST's rules and the baselines, both backbones of the paper, counted by running them.

    python benchmarks/costs.py            # seconds

Prints the table of docs/decisions/dynamics.md.
"""

from __future__ import annotations

from frost.commands.describe import describe
from frost.report.tables import si, table

MODELS = (("vanilla", []), ("recurrent", []), ("basic-ssm", []), ("frost", []), ("frost", ["update=gated"]),
          ("frost", ["update=contractive"]), ("frost", ["update=theorem"]))


def cost_table() -> str:
    """One line a model; `once`, `per step` and `full depth` are FLOPs, the last two columns are the paper's."""
    rows = []
    for size in ("vit-b16", "resnet50"):
        recurrent, _, _ = describe(f"recurrent-{size}", [])
        for architecture, changes in MODELS:
            ours, paper, config = describe(f"{architecture}-{size}", list(changes))
            rule = f", {config.update}" if architecture == "frost" else ""
            ratio = ours.flops_per_step / recurrent.flops_per_step
            theirs = ["", ""] if paper is None or changes else [
                si(paper.parameters), si(paper.flops * ours.depth / paper.mean_depth)]
            rows.append([f"{architecture}-{size}{rule}", si(ours.parameters), si(ours.parameters_without_head),
                         si(ours.flops_once), si(ours.flops_per_step), f"{ratio:.3f}", si(ours.flops_full_depth),
                         *theirs])
    header = ["model", "parameters", "no head", "once", "per step", "ratio", "full depth", "paper's", "FLOPs"]
    return table(header, rows)


if __name__ == "__main__":
    print(cost_table())
