"""A threshold for each step: the best cut on the images at hand, or a straight line through them?

    python benchmarks/cuts.py --data DIR [--run cifar100-cpu] [--seed 0]        # validation images only; a minute

Thresholds from one half of the validation images, gain over the fixed-depth line on the other half, both ways and three
times. Writes docs/results/cuts.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from shipped import opened

from frost.evaluation.calibrating import FRACTIONS
from frost.evaluation.datasets import labelled
from frost.evaluation.traces import trace
from frost.halting.budget import Cut, best_cut, per_step_at_mean_depth, stops_at, straight_cut

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "cuts.json"
HALVINGS = 3


def gain(values: np.ndarray, hits: np.ndarray, thresholds: tuple[float, ...]) -> float:
    """Points above stopping everybody at the same mean depth."""
    depths = stops_at(values, thresholds)
    line = np.interp(depths.mean(), np.arange(1, hits.shape[1] + 1), hits.mean(axis=0))
    return 100 * float(hits[np.arange(len(hits)), depths - 1].mean() - line)


def main() -> int:
    """Both cuts at three fractions of full depth."""
    options, run, data = opened(__doc__.split("\n")[0])
    assert run.calibration is not None
    rule = run.calibration.rule
    traces = trace(run.model, labelled(data.validation), [rule])
    values, hits = traces.signals[rule].numpy().astype(np.float32), traces.quality.numpy()
    generator = np.random.default_rng(options.seed)
    halves = [generator.permutation(len(values)) % 2 == 0 for _ in range(HALVINGS)]
    cuts: dict[str, Cut] = {"best_cut": best_cut, "straight_cut": straight_cut}
    found = {name: [float(np.mean([gain(values[~half], hits[~half], per_step_at_mean_depth(
        values[half], hits[half], fraction * traces.depth, cut).thresholds) for one in halves for half in (one, ~one)]))
        for fraction in FRACTIONS] for name, cut in cuts.items()}
    for name, gains in found.items():
        print(f"{name:13}" + "".join(f"{number:+8.2f}" for number in gains) + "   points, at "
              + ", ".join(f"{100 * fraction:.0f} %" for fraction in FRACTIONS) + " of full depth")
    results = {"command": "python benchmarks/cuts.py --data DIR", "run": options.run, "seed": options.seed,
               "fractions": list(FRACTIONS), "gains": found}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
