"""λ over training for several H, fixed and learned (Figure 1 of the paper): short runs, λ read from their logbooks.

    python benchmarks/lambda_curves.py [--recipe digits] [--data DIR] [--seed 0] [--runs DIR]

Each run is an ordinary `frost train`; docs/results/lambda.json keeps a hundred points of each curve, ready to plot, and
the command that made it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from frost.config import override
from frost.recipes import recipe
from frost.training.logbook import read
from frost.training.records import LOGBOOK
from frost.training.run import train

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "lambda.json"
SETTINGS = {"H = 0.2": ("model.hurst=0.2",), "H = 0.5": ("model.hurst=0.5",), "H = 0.8": ("model.hurst=0.8",),
            "H learned from 0.8": ("model.hurst=0.8", "model.learn_hurst=true")}
POINTS = 100


def curve(name: str, settings: tuple[str, ...], out: Path, data: Path | None) -> dict[str, Any]:
    """Train once and thin the logbook: steps, λ, H and the validation accuracy in the end."""
    command = ["frost", "train", name, "--out", str(out), "--set", *settings]
    result = train(override(recipe(name), settings), out, data_folder=data, resume=True, command=command)
    entries = read(out / LOGBOOK)
    chosen = entries[::max(1, len(entries) // POINTS)] + entries[-1:]
    return {"settings": list(settings), "step": [entry["step"] for entry in chosen],
            "scale": [round(entry["scale"], 5) for entry in chosen],
            "hurst": [round(entry["hurst"], 5) for entry in chosen],
            "largest_scale": max(entry["scale"] for entry in entries),
            "validation_accuracy": result.origin["validation_accuracy"][-1]}


def main() -> int:
    """Run all settings, print the table, keep the curves."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--recipe", default="digits")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=Path, help="keep the runs here, to go on with them later")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        runs = options.runs or Path(scratch)
        curves = {name: curve(options.recipe, (*settings, f"train.seed={options.seed}"),
                              runs / name.replace(" ", ""), options.data) for name, settings in SETTINGS.items()}
    print(f"{'':20} {'λ in the end':>14} {'largest λ':>10} {'H in the end':>13} {'validation':>11}")
    for name, found in curves.items():
        print(f"{name:20} {found['scale'][-1]:14.3f} {found['largest_scale']:10.3f} {found['hurst'][-1]:13.3f} "
              f"{100 * found['validation_accuracy']:10.2f} %")
    RESULTS.write_text(json.dumps({"command": f"python benchmarks/lambda_curves.py --recipe {options.recipe}",
                                   "recipe": options.recipe, "seed": options.seed, "curves": curves}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
