"""What a halting score should see, and what it should be ranked by: every form on the frozen weights of one run.

    python benchmarks/score_forms.py --data DIR            about three minutes; docs/results/score-forms.json

The backbone stays as it is. Each form of the score is fitted to augmented training images with the losses (22), (23),
its thresholds come from one half of the validation images and its accuracy from the other, both ways round, three
splits. Rules that need no fitting stand beside. No test image is read.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from frost.analysis.rules import PER_STEP, depths_of
from frost.analysis.traces import Traces
from frost.checkpoint import load
from frost.core.layout import normalised_pool
from frost.core.model import Frost
from frost.data.augment import augmented
from frost.data.splits import Images
from frost.halting.ranking import HaltingConfig, easy_and_hard
from frost.halting.score import LinearScore, decidedness, make_score
from frost.recipes import recipe
from frost.training.objective import anchoring_loss, relative_loss, step_losses
from frost.training.optim import learning_rate_at
from frost.workflows.dataset import data_of
from frost.workflows.progress import progress

ROOT = Path(__file__).resolve().parent.parent
FRACTIONS = (0.35, 0.5, 0.75)
TRAINING, EPOCHS, BATCH, RATE = 20_000, 6, 64, 3e-3
SPLITS = 3


class Seen(NamedTuple):
    """What a score may look at, for many images."""

    features: Tensor    # (n, t, c)
    outputs: Tensor     # (n, t, k)
    labels: Tensor      # (n,)


def seen(model: Frost, images: Images, rows: Tensor, what: str, augment: bool, seed: int) -> Seen:
    """Run the frozen model and keep pooled states and outputs of every step."""
    generator = torch.Generator().manual_seed(seed)
    how = recipe("cifar100-cpu").train.augment
    features, outputs = [], []
    with progress(what, len(rows)) as report, torch.no_grad():
        for number, some in enumerate(rows.split(100)):
            pictures = images.batch(some)
            if augment:
                pictures, _ = augmented(pictures, images.labels[some], how, generator)
            state = model.begin(pictures)
            pooled, answers = [], []
            for _ in range(model.depth):
                state = model.step(state)
                pooled.append(normalised_pool(model.norm, state.hidden))
                answers.append(model.read(state)[0])
            features.append(torch.stack(pooled, dim=1))
            outputs.append(torch.stack(answers, dim=1))
            report(min(100 * (number + 1), len(rows)), "")
    return Seen(torch.cat(features), torch.cat(outputs), images.labels[rows])


def fitted(score: LinearScore, train: Seen, how: HaltingConfig, seed: int) -> LinearScore:
    """Fit a score with the backbone frozen."""
    optimizer = torch.optim.AdamW(score.parameters(), lr=RATE)
    generator, count = torch.Generator().manual_seed(seed), len(train.labels)
    steps, step = EPOCHS * -(-count // BATCH), 0
    for _ in range(EPOCHS):
        for rows in torch.randperm(count, generator=generator).split(BATCH):
            step += 1
            for group in optimizer.param_groups:
                group["lr"] = learning_rate_at(step, steps, 0, RATE)
            logits = score(train.features[rows], train.outputs[rows])
            easy, hard = easy_and_hard(step_losses(train.outputs[rows], train.labels[rows]), how)
            across = "all" if how.pairs == "all" else "step"
            loss = (how.relative_weight * relative_loss(logits, easy, hard, how.margin, across)
                    + how.anchoring_weight * anchoring_loss(logits, easy, hard))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return score


def gains(policy: str, traces: Traces) -> list[float]:
    """Points above the fixed-depth line at each fraction, each half of the images judged by the other's thresholds."""
    hits, total = traces.hits.numpy(), np.zeros(len(FRACTIONS))
    for split in range(SPLITS):
        half = torch.from_numpy(np.random.default_rng(split).permutation(len(hits)) % 2 == 0)
        for then, now in ((half, ~half), (~half, half)):
            for place, fraction in enumerate(FRACTIONS):
                depths = depths_of(policy, _part(traces, then), _part(traces, now), max(1.0, fraction * traces.depth))
                ours = hits[now.numpy()]
                line = np.interp(depths.mean(), np.arange(1, traces.depth + 1), ours.mean(axis=0))
                total[place] += ours[np.arange(len(ours)), depths - 1].mean() - line
    return (100 * total / (2 * SPLITS)).round(2).tolist()


def _part(traces: Traces, rows: Tensor) -> Traces:
    return Traces(traces.outputs[rows], traces.labels[rows],
                  {name: values[rows] for name, values in traces.signals.items()})


def main() -> None:
    """Fit every form, print and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--run", default="cifar100-cpu")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    run = load(options.run)
    assert isinstance(run.model, Frost)
    model, data = run.model, data_of(run, options.data, False)
    order = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(options.seed))[:TRAINING]
    train = seen(model, data.train, order, "training images", True, options.seed)
    held_out = seen(model, data.validation, torch.arange(len(data.validation)), "validation images", False, 0)
    simple = decidedness(held_out.outputs)
    traces = Traces(held_out.outputs, held_out.labels,
                    {"margin": simple[..., 0], "confidence": simple[..., 1], "entropy": simple[..., 2]})
    rows = [{"score": name, "thresholds": form, "gain": gains(name + suffix, traces)}
            for name in traces.signals for form, suffix in (("pooled", ""), ("per step", PER_STEP))]
    for sees, rank_by, pairs in product(("state", "output"), ("loss", "gain"), ("step", "all")):
        torch.manual_seed(options.seed)
        score = fitted(make_score(train.features.shape[-1], sees), train, HaltingConfig(rank_by=rank_by, pairs=pairs),
                       options.seed)
        with torch.no_grad():
            traces.signals["rank"] = score(held_out.features, held_out.outputs)
        for form, suffix in (("pooled", ""), ("per step", PER_STEP)):
            rows.append({"score": f"sees {sees}, by {rank_by}, pairs of {'a' if pairs == 'step' else 'any'} step",
                         "thresholds": form, "gain": gains(f"rank{suffix}", traces)})
            print(rows[-1], flush=True)
    result = {"command": "python benchmarks/score_forms.py --data DIR", "run": options.run, "seed": options.seed,
              "depth": model.depth, "fractions": FRACTIONS, "per_step": held_out_curve(traces), "rows": rows}
    path = ROOT / "docs" / "results" / "score-forms.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    for row in rows:
        print(f"{row['score']:45} {row['thresholds']:9} " + "  ".join(f"{gain:+6.2f}" for gain in row["gain"]))


def held_out_curve(traces: Traces) -> list[float]:
    """Accuracy at every step, in per cent."""
    return (100 * traces.hits.double().mean(dim=0)).round(decimals=2).tolist()


if __name__ == "__main__":
    main()
