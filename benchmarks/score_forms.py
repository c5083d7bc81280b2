"""What a halting score should see, and what it should be ranked by: every form on the frozen weights of one run.

    python benchmarks/score_forms.py --data DIR            about three minutes; docs/results/score-forms.json

The backbone stays as it is. Each form of the score is fitted to augmented training images with the losses (22), (23),
its thresholds come from one half of the validation images and its accuracy from the other, both ways round, three
splits. Rules that need no fitting stand beside. No test image is read. The rows with pairs of any step in the committed
file were made at commit 965851e, which could rank them.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import torch
from shipped import opened
from torch import Tensor

from frost.data.splits import labelled
from frost.evaluation.stopping_rules import depths_of
from frost.evaluation.traces import Traces, trace
from frost.halting.ranking import HaltingConfig, RankBy
from frost.halting.rule_choice import PER_STEP
from frost.halting.score import Sees, make_score
from frost.recipes import recipe
from frost.report.progress import progress
from frost.training.refit import collect_examples, fit_score, images_of

ROOT = Path(__file__).resolve().parent.parent
FRACTIONS = (0.35, 0.5, 0.75)
TRAINING = 20_000
SPLITS = 3


def gains(policy: str, traces: Traces) -> list[float]:
    """Points above the fixed-depth line at each fraction, each half of the images judged by the other's thresholds."""
    correct, total = traces.quality.numpy(), np.zeros(len(FRACTIONS))
    for split in range(SPLITS):
        half = torch.from_numpy(np.random.default_rng(split).permutation(len(correct)) % 2 == 0)
        for then, now in ((half, ~half), (~half, half)):
            for place, fraction in enumerate(FRACTIONS):
                depths = depths_of(policy, _part(traces, then), _part(traces, now), max(1.0, fraction * traces.depth))
                ours = correct[now.numpy()]
                line = np.interp(depths.mean(), np.arange(1, traces.depth + 1), ours.mean(axis=0))
                total[place] += ours[np.arange(len(ours)), depths - 1].mean() - line
    return (100 * total / (2 * SPLITS)).round(2).tolist()


def _part(traces: Traces, rows: Tensor) -> Traces:
    return Traces(traces.quality[rows], {name: values[rows] for name, values in traces.signals.items()},
                  traces.settles[rows])


def main() -> None:
    """Fit every form, print and keep the table."""
    options, run, data = opened(__doc__.split("\n")[0])
    model = run.model
    order = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(options.seed))[:TRAINING]
    with progress("training images", len(order)) as report:
        images = images_of(data.train, order, recipe("cifar100-cpu").train.augment, options.seed)
        train = collect_examples(model, images, len(order), report=report)
    held_out = collect_examples(model, images_of(data.validation, torch.arange(len(data.validation)), None, 0),
                                len(data.validation))
    traces = trace(model, labelled(data.validation), ["margin", "confidence", "entropy"])
    rows = [{"score": name, "thresholds": form, "gain": gains(name + suffix, traces)}
            for name in traces.signals for form, suffix in (("pooled", ""), ("per step", PER_STEP))]
    forms: tuple[tuple[Sees, RankBy], ...] = tuple(product(("state", "output"), ("loss", "gain", "wins")))
    for sees, rank_by in forms:
        torch.manual_seed(options.seed)
        score = make_score(train.features.shape[-1], sees, 3)
        fit_score(score, train, HaltingConfig(rank_by=rank_by), options.seed)
        with torch.no_grad():
            traces.signals["rank"] = score(held_out.features, held_out.output_features)
        for form, suffix in (("pooled", ""), ("per step", PER_STEP)):
            rows.append({"score": f"sees {sees}, by {rank_by}, pairs of a step", "thresholds": form,
                         "gain": gains(f"rank{suffix}", traces)})
            print(rows[-1], flush=True)
    result = {"command": "python benchmarks/score_forms.py --data DIR", "run": options.run, "seed": options.seed,
              "depth": model.depth, "fractions": FRACTIONS, "per_step": held_out_curve(traces), "rows": rows}
    path = ROOT / "docs" / "results" / "score-forms.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    for row in rows:
        print(f"{row['score']:45} {row['thresholds']:9} " + "  ".join(f"{gain:+6.2f}" for gain in row["gain"]))


def held_out_curve(traces: Traces) -> list[float]:
    """Accuracy at every step, in per cent."""
    return (100 * traces.quality.mean(dim=0)).round(decimals=2).tolist()


if __name__ == "__main__":
    main()
