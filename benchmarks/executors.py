"""The three executors on the 10,000 test images of `cifar100-cpu`: the same depths, the same logits.

    python benchmarks/executors.py --data DIR [--run cifar100-cpu]

Compares `compact` and `refill` with `masked` at half of full depth. Depths may differ where a score lies within 1e-5
of its threshold. Writes docs/results/executors.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch

from frost.checkpoint import load
from frost.core.trajectory import Prediction
from frost.evaluation.datasets import data_of
from frost.runtime.engine import Engine
from frost.training.evaluate import run_frozen

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "executors.json"


def main() -> int:
    """Run all three; status 1 if they disagree."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--run", default="cifar100-cpu")
    options = parser.parse_args()
    run = load(options.run)
    assert run.calibration is not None
    rule = run.calibration.at_mean_depth(run.model.depth / 2)
    test = data_of(run, options.data, download=False).test
    images = test.batch(torch.arange(len(test)))
    scores = run_frozen(run.model, images).score_logits.double()
    thresholds = torch.tensor(rule.thresholds, dtype=torch.float64).expand(run.model.depth)
    is_near = ((scores - thresholds).abs() < 1e-5).any(dim=1)
    answers: dict[str, Prediction] = {name: Engine(run.model, rule, name).predict(images)
                                      for name in ("masked", "compact", "refill")}
    reference = answers["masked"]
    size = reference.outputs.abs().amax(dim=1)
    rows = []
    for name, ours in answers.items():
        differs = ours.depth != reference.depth
        error = ((ours.outputs - reference.outputs).abs().amax(dim=1) / size)[~differs].max().item()
        accuracy = (ours.outputs.argmax(dim=1) == test.labels).double().mean().item()
        rows.append({"executor": name, "mean_depth": ours.depth.double().mean().item(), "accuracy": accuracy,
                     "depths_that_differ": int(differs.sum()), "of_these_near": int((differs & is_near).sum()),
                     "largest_relative_error": error})
        print(f"{name:8} mean depth {rows[-1]['mean_depth']:.4f}  accuracy {100 * accuracy:.2f} %  depths that differ "
              f"{int(differs.sum())} (near the threshold: {int((differs & is_near).sum())})  largest relative error "
              f"{error:.1e}")
    RESULTS.write_text(json.dumps({"command": "python benchmarks/executors.py --data DIR", "run": options.run,
                                   "images": len(test), "rows": rows}, indent=1) + "\n")
    is_sound = all(row["depths_that_differ"] == row["of_these_near"] and row["largest_relative_error"] <= 1e-5
                   for row in rows)
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
