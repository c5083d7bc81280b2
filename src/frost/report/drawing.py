"""How every picture of ours looks: colours that colour-blind readers tell apart, one width that fits a phone."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

Values = Mapping[str, Any]    # a section's, as `results.json` keeps them
COLOURS = {"frost": "#0072B2", "ours": "#0072B2", "as-printed": "#D55E00", "vanilla": "#D55E00", "recurrent": "#E69F00",
           "basic-ssm": "#009E73", "basic-ssm-folded": "#CC79A7", "frost-unranked": "#56B4E9",
           "untrained": "#888888", "paper": "#333333"}
CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333", "#888888")
TITLES = {"frost": "FROST", "vanilla": "Vanilla", "basic-ssm": "BasicSSM", "recurrent": "Recurrent",
          "basic-ssm-folded": "BasicSSM from a folded FROST",
          "frost-unranked": "FROST without ranks", "frost-untrained": "FROST untrained",
          "vanilla-untrained": "Vanilla untrained", "basic-ssm-untrained": "BasicSSM untrained",
          "random-walk": "random walk", "ours": "our form", "as-printed": "as printed"}
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
WIDTH = 5.4    # inches: at this width the text of a figure is readable on a phone


def panels(rows: int, height: float = 3.3) -> tuple[Any, Sequence[Any]]:
    """A figure with panels below one another."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.titlesize": 9.5, "legend.fontsize": 7.5, "svg.fonttype": "path"})
    figure, axes = plt.subplots(rows, 1, figsize=(WIDTH, height * rows), squeeze=False, layout="constrained")
    for cell in axes[:, 0]:
        cell.grid(alpha=0.25)
        cell.spines[["top", "right"]].set_visible(False)
    return figure, list(axes[:, 0])


def colour_of(name: str) -> str:
    """A model's colour, the same in every picture; null models are grey."""
    if name in COLOURS:
        return COLOURS[name]
    return {"random-walk": COLOURS["paper"], "frost-untrained": COLOURS["untrained"]}.get(name, "#B0B0B0")


def legend_above(axes: Any, columns: int = 2) -> None:
    """A legend that covers no data: above the panel."""
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=columns, frameon=False, borderaxespad=0.2,
                handlelength=2.2)


def as_files(figure: Any, name: str) -> dict[str, bytes]:
    """The figure as SVG and PNG; the same figure gives the same bytes."""
    import matplotlib
    from matplotlib import pyplot as plt

    files = {}
    with matplotlib.rc_context({"svg.hashsalt": name}):
        for kind in ("svg", "png"):
            buffer = io.BytesIO()
            metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
            figure.savefig(buffer, format=kind, dpi=160, metadata=metadata)
            files[f"{name}.{kind}"] = buffer.getvalue()
    plt.close(figure)
    return files
