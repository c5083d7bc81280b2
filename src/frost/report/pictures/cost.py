"""What it costs: Table 3."""

from __future__ import annotations

from typing import Any

from frost.report.drawing import CYCLE, Values, legend_above, panels


def complexity(paper: Values, ours: Values, timing: Values) -> Any:
    """Images per second beside Vanilla of the same block."""
    rows = timing["throughput"]
    figure, axes = panels(len(rows), 2.9)
    for cell, (backbone, lines) in zip(axes, rows.items(), strict=True):
        models = [("vanilla", "full"), ("recurrent", "full"), ("basic-ssm", "full"), (f"frost-{backbone}", "full"),
                  (f"frost-{backbone}", "refill")]
        batches = sorted({line["batch"] for line in lines})
        for index, batch in enumerate(batches):
            base = next(line["images_per_second"] for line in lines if line["model"] == "vanilla"
                        and line["batch"] == batch)
            values = [next((line["images_per_second"] / base for line in lines if (line["model"], line["executor"])
                            == key and line["batch"] == batch), 0.0) for key in models]
            wide = 0.8 / len(batches)
            cell.bar([place + wide * (index - (len(batches) - 1) / 2) for place in range(len(models))], values,
                     0.95 * wide, color=CYCLE[index],
                     label=f"batch {batch}")
        cell.set(xticks=range(len(models)), ylabel="images/s ÷ Vanilla",
                 xticklabels=["Vanilla", "Recurrent", "BasicSSM", "FROST,\nfull depth", "FROST,\nadaptive"])
        cell.axhline(1, color="#888888", lw=0.8)
        cell.set_title(f"{backbone}, adaptive: at the paper's depths", loc="right", fontsize=8)
        legend_above(cell, 3)
    return figure
