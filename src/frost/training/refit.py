"""Teach the halting score once more when everything else has come to rest (§4.3, Eqs. 22, 23).

While a model trains, its score runs after states that move, and what is kept in the end may be an average of many
scores. With the weights frozen, states and outputs of some training images are computed once and the score alone is
fitted to them from where it stands: seconds, and no other weight changes. The paper has nothing like it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from frost.core.layout import normalised_pool
from frost.core.precision import device_of
from frost.core.trajectory import IterativeModel
from frost.data.augment import Augmentation, augmented
from frost.data.splits import Images
from frost.halting.ranking import HaltingConfig, easy_and_hard
from frost.halting.score import LinearScore
from frost.training.evaluate import frozen
from frost.training.objective import anchoring_loss, relative_loss, right, step_losses
from frost.training.optim import learning_rate_at

BATCH, RATE = 64, 3e-3


class Seen(NamedTuple):
    """What a score may look at, for many images."""

    features: Tensor    # pooled as for the readout, (n, t, c)
    outputs: Tensor     # (n, t, k)
    labels: Tensor      # (n,)


def refit(model: IterativeModel, images: Images, halting: HaltingConfig, augment: Augmentation, seed: int,
          report: Callable[[int, str], None] | None = None) -> None:
    """Fit the score of a model in place to `halting.refit` of the images, by the fields `refit_…` of `halting`."""
    rows = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[: halting.refit]
    plain = replace(augment, mix="none")    # mixed images have no rank
    seen = look(model, images, rows, plain, seed, report)
    score: Any = model.head
    fit_score(score.score, seen, replace(halting, rank_by=halting.refit_by, pairs=halting.refit_pairs), seed)


def look(model: IterativeModel, images: Images, rows: Tensor, augment: Augmentation | None = None, seed: int = 0,
         report: Callable[[int, str], None] | None = None) -> Seen:
    """Run the frozen model and keep pooled states and outputs of every step."""
    generator, device = torch.Generator().manual_seed(seed), device_of(model)
    norm: Any = model.norm
    features, outputs, done = [], [], 0
    with frozen(model):
        for some in rows.split(BATCH):
            pictures = images.batch(some)
            if augment is not None:
                pictures, _ = augmented(pictures, images.labels[some], augment, generator)
            state = model.begin(pictures.to(device))
            pooled, answers = [], []
            for _ in range(model.depth):
                state = model.step(state)
                pooled.append(normalised_pool(norm, state.hidden).cpu())
                answers.append(model.read(state)[0].cpu())
            features.append(torch.stack(pooled, dim=1))
            outputs.append(torch.stack(answers, dim=1))
            done += len(some)
            if report is not None:
                report(done, "")
    return Seen(torch.cat(features), torch.cat(outputs), images.labels[rows])


def fit_score(score: LinearScore, seen: Seen, halting: HaltingConfig, seed: int) -> None:
    """Minimise the ranking losses (22), (23) over the score's own weights, in place."""
    place, is_taught = score.linear.weight.device, score.linear.weight.requires_grad
    score.cpu().requires_grad_(True)    # averaged weights are frozen
    optimizer = torch.optim.AdamW(score.parameters(), lr=RATE)
    generator, count = torch.Generator().manual_seed(seed), len(seen.labels)
    steps, step = halting.refit_epochs * math.ceil(count / BATCH), 0
    for _ in range(halting.refit_epochs):
        for rows in torch.randperm(count, generator=generator).split(BATCH):
            step += 1
            for group in optimizer.param_groups:
                group["lr"] = learning_rate_at(step, steps, 0, RATE)
            logits = score(seen.features[rows], seen.outputs[rows])
            losses = step_losses(seen.outputs[rows], seen.labels[rows])
            easy, hard = easy_and_hard(losses, halting, right(seen.outputs[rows], seen.labels[rows]))
            across: Any = "all" if halting.pairs == "all" else "step"
            loss = (halting.relative_weight * relative_loss(logits, easy, hard, halting.margin, across)
                    + halting.anchoring_weight * anchoring_loss(logits, easy, hard))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    score.to(place).requires_grad_(is_taught).zero_grad(set_to_none=True)
