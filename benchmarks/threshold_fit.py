"""A threshold for each step: the best one on the images at hand, or a straight line fitted to them?

    python benchmarks/threshold_fit.py --data DIR [--run cifar100-cpu] [--seed 0]    # validation only; a minute

Thresholds from one half of the validation images, gain over the fixed-depth line on the other half, both ways and three
times. Writes docs/results/threshold-fit.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from shipped import opened

from frost.data.splits import labelled
from frost.evaluation.calibrating import FRACTIONS
from frost.evaluation.traces import trace
from frost.halting.threshold_fit import ThresholdFit, best_threshold, fitted_threshold, per_step_at_mean_depth, stops_at

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "threshold-fit.json"
HALVINGS = 3


def gain(values: np.ndarray, correct: np.ndarray, thresholds: tuple[float, ...]) -> float:
    """Points above stopping every image at the same mean depth."""
    depths = stops_at(values, thresholds)
    line = np.interp(depths.mean(), np.arange(1, correct.shape[1] + 1), correct.mean(axis=0))
    return 100 * float(correct[np.arange(len(correct)), depths - 1].mean() - line)


def main() -> int:
    """Both fits at three fractions of full depth."""
    options, run, data = opened(__doc__.split("\n")[0])
    assert run.calibration is not None
    rule = run.calibration.rule
    traces = trace(run.model, labelled(data.validation), [rule])
    values, correct = traces.signals[rule].numpy().astype(np.float32), traces.quality.numpy()
    generator = np.random.default_rng(options.seed)
    halves = [generator.permutation(len(values)) % 2 == 0 for _ in range(HALVINGS)]
    fits: dict[str, ThresholdFit] = {"best_threshold": best_threshold, "fitted_threshold": fitted_threshold}

    def gained(fit: ThresholdFit, fraction: float, half: np.ndarray) -> float:
        reached = per_step_at_mean_depth(values[half], correct[half], fraction * traces.depth, fit)
        return gain(values[~half], correct[~half], reached.thresholds)

    found = {name: [float(np.mean([gained(fit, fraction, half) for one in halves for half in (one, ~one)]))
                    for fraction in FRACTIONS] for name, fit in fits.items()}
    for name, gains in found.items():
        print(f"{name:17}" + "".join(f"{number:+8.2f}" for number in gains) + "   points, at "
              + ", ".join(f"{100 * fraction:.0f} %" for fraction in FRACTIONS) + " of full depth")
    results = {"command": "python benchmarks/threshold_fit.py --data DIR", "run": options.run, "seed": options.seed,
               "fractions": list(FRACTIONS), "gains": found}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
