"""Teach the halting score once more when everything else has come to rest (§4.3, Eqs. 22, 23).

While a model trains, its score runs after states that move, and what is kept in the end may be an average of many
scores. With the weights frozen, what the score looks at is computed once for some training inputs and the score alone
is fitted to it from where it stands, by the right answers that are still to be won (by losses where no quality is
known): seconds, and no other weight changes. The paper has nothing like it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from frost.core.inference import Report, run_batches
from frost.core.inputs import Inputs, batch_of, taken
from frost.core.precision import at_least_float32
from frost.core.task import Task
from frost.core.trajectory import IterativeModel, Trajectory
from frost.data.augment import Augmentation, augmented
from frost.data.splits import Images
from frost.halting.ranking import HaltingConfig, easy_and_hard
from frost.halting.score import LinearScore
from frost.training.losses import anchoring_loss, relative_loss
from frost.training.optim import learning_rate_at

BATCH, RATE, EPOCHS = 64, 3e-3, 6


class Examples(NamedTuple):
    """What a score is fitted to, for many inputs: all that it may look at, and how good the answers were."""

    features: Tensor                  # the state, pooled as for the readout, (n, t, c)
    output_features: Tensor | None    # what the output says of itself, (n, t, f)
    losses: Tensor                    # (n, t)
    quality: Tensor                   # (n, t)


def refit(model: IterativeModel, images: Images, halting: HaltingConfig, augment: Augmentation, seed: int,
          report: Report | None = None) -> None:
    """Fit the score of a model in place to `halting.refit` of the images."""
    rows = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[: halting.refit]
    plain = replace(augment, mix="none")    # mixed images have no rank
    refit_on(model, images_of(images, rows, plain, seed), halting, seed, report=report)


def refit_on(model: IterativeModel, batches: Iterable[tuple[Inputs, Tensor]], halting: HaltingConfig, seed: int,
             task: Task | None = None, report: Report | None = None) -> None:
    """The same for any batches of (inputs, targets), of which the first `halting.refit` inputs are taken."""
    if not model.has_score:
        raise ValueError("halting.refit teaches a halting score, and this model has none; set it to 0.")
    has_quality = (model.task if task is None else task).quality is not None
    examples = collect_examples(model, batches, halting.refit, task, report)
    fit_score(score_part(model), examples, replace(halting, rank_by="wins" if has_quality else "gain"), seed)


def score_part(model: IterativeModel) -> LinearScore:
    """The part of a model that is its halting score."""
    head: Any = getattr(model, "head", None)
    assert isinstance(head.score, LinearScore)
    return head.score


def images_of(images: Images, rows: Tensor, augment: Augmentation | None, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of some rows of a data set, augmented."""
    generator = torch.Generator().manual_seed(seed)
    for some in rows.split(BATCH):
        pictures, labels = images.batch(some), images.labels[some]
        if augment is not None:
            pictures, _ = augmented(pictures, labels, augment, generator)
        yield pictures, labels


def collect_examples(model: IterativeModel, batches: Iterable[tuple[Inputs, Tensor]], most: int,
                     task: Task | None = None, report: Report | None = None) -> Examples:
    """Run the frozen model over the first `most` inputs and keep what its score sees at every step."""
    judge = model.task if task is None else task
    seen: list[tuple[Tensor | None, ...]] = []    # what the score was called with, step by step

    def kept(whole: Trajectory, targets: Tensor) -> tuple[Tensor, ...]:
        arguments = [torch.stack(of_steps, dim=1) for of_steps in zip(*seen, strict=True) if of_steps[0] is not None]
        seen.clear()
        outputs = at_least_float32(whole.outputs)
        targets = targets.to(outputs.device)
        losses = judge.losses(outputs, targets)
        # without a quality nothing can be won by it: then only a ranking by losses is asked for
        quality = torch.zeros_like(losses) if judge.quality is None else judge.qualities(outputs, targets)
        return tuple(part.cpu() for part in (losses, quality, *arguments))

    hook = score_part(model).register_forward_pre_hook(lambda _, arguments: seen.append(arguments))
    try:
        parts = run_batches(model, _first(most, batches), kept, report=report)
    finally:
        hook.remove()
    losses, quality, features, *of_outputs = (torch.cat(column) for column in zip(*parts, strict=True))
    return Examples(features, of_outputs[0] if of_outputs else None, losses, quality)


def _first(most: int, batches: Iterable[tuple[Inputs, Tensor]]) -> Iterator[tuple[Inputs, Tensor]]:
    """Batches with so many inputs in all, the last one shortened; no more are drawn than that takes."""
    for inputs, targets in batches:
        count = min(batch_of(inputs), most)
        yield taken(inputs, slice(count)), targets[:count]
        most -= count
        if most <= 0:
            return


def fit_score(score: LinearScore, examples: Examples, halting: HaltingConfig, seed: int) -> None:
    """Minimise the ranking losses (22), (23) over the score's own weights, in place."""
    place, is_taught = score.linear.weight.device, score.linear.weight.requires_grad
    score.cpu().requires_grad_(True)    # averaged weights are frozen
    optimizer = torch.optim.AdamW(score.parameters(), lr=RATE)
    generator, count = torch.Generator().manual_seed(seed), len(examples.losses)
    steps, step = EPOCHS * math.ceil(count / BATCH), 0
    for _ in range(EPOCHS):
        for rows in torch.randperm(count, generator=generator).split(BATCH):
            step += 1
            for group in optimizer.param_groups:
                group["lr"] = learning_rate_at(step, steps, 0, RATE)
            beside = None if examples.output_features is None else examples.output_features[rows]
            logits = score(examples.features[rows], beside)
            easy, hard = easy_and_hard(examples.losses[rows], halting, examples.quality[rows])
            loss = (halting.relative_weight * relative_loss(logits, easy, hard, halting.margin)
                    + halting.anchoring_weight * anchoring_loss(logits, easy, hard))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    score.to(place).requires_grad_(is_taught).zero_grad(set_to_none=True)
