"""Does `at_accuracy_loss(1.0, 0.95)` hold on fresh data, and what does it cost in depth?

    python benchmarks/guarantee.py --data DIR [--run cifar100-cpu]

The pool is validation and test together, and stands for all images there are. 200 times, 5,000 are drawn from it, with
repetition, to calibrate with; the loss of the rule found is then measured on the whole pool, where it may exceed one
point in 5 % of the draws, and its mean depth is compared with that of the best rule in hindsight, of any form. Writes
docs/results/guarantee.json.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
from shipped import opened

from frost.data.splits import labelled
from frost.evaluation.traces import trace
from frost.halting.guarantee import certified_threshold, per_step_ladder, pooled_ladder
from frost.halting.threshold_fit import best_threshold, fitted_threshold, stops_at
from frost.report.progress import progress

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "guarantee.json"
SPLITS, DRAWN, POINTS, CONFIDENCE = 200, 5000, 1.0, 0.95


def _loss(values: np.ndarray, correct: np.ndarray, thresholds: tuple[float, ...]) -> float:
    return float(correct[:, -1].mean() - correct[np.arange(len(correct)), stops_at(values, thresholds) - 1].mean())


def main() -> int:
    """Draw, certify, count; status 1 if the promise is broken too often or is too dear."""
    options, run, data = opened(__doc__.split("\n")[0])
    assert run.calibration is not None
    rule = run.calibration.rule
    parts = [trace(run.model, labelled(part), [rule]) for part in (data.validation, data.test)]
    values = np.concatenate([part.signals[rule].numpy() for part in parts]).astype(np.float32)
    correct = np.concatenate([part.quality.numpy() for part in parts])
    ladder = pooled_ladder(values) + [thresholds for fit in (best_threshold, fitted_threshold)
                                      for thresholds in per_step_ladder(values, correct, fit)]
    best = min(stops_at(values, tried).mean() for tried in ladder if _loss(values, correct, tried) <= POINTS / 100)
    generator = np.random.default_rng(options.seed)
    broken, taken = 0, []
    with progress("drawing", SPLITS) as report:
        for split in range(SPLITS):
            rows = generator.integers(0, len(values), DRAWN)      # the pool is the population
            _, found = certified_threshold({"rank": values[rows]}, correct[rows], POINTS / 100, CONFIDENCE, split)
            broken += _loss(values, correct, found) > POINTS / 100
            taken.append(stops_at(values, found).mean())
            report(split + 1, "")
    allowed = 1 - CONFIDENCE + 2 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / SPLITS)
    ratio = float(np.mean(taken)) / float(best)
    print(f"{SPLITS} draws of {DRAWN} images: the loss exceeds {POINTS:g} point in {100 * broken / SPLITS:.1f} % "
          f"(allowed {100 * allowed:.1f} %); mean depth {np.mean(taken):.3f}, best in hindsight {best:.3f}, "
          f"ratio {ratio:.3f}")
    RESULTS.write_text(json.dumps({
        "command": "python benchmarks/guarantee.py --data DIR", "run": options.run, "seed": options.seed,
        "draws": SPLITS, "images": DRAWN, "points": POINTS, "confidence": CONFIDENCE, "share_broken": broken / SPLITS,
        "allowed": allowed, "mean_depth": float(np.mean(taken)), "best_in_hindsight": float(best), "ratio": ratio,
    }, indent=1) + "\n")
    return 0 if broken / SPLITS <= allowed and ratio <= 1.15 else 1


if __name__ == "__main__":
    sys.exit(main())
