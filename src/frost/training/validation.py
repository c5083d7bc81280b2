"""Run a model with frozen weights over many images: trajectories, and what validation reports of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from frost.core.inference import Report, run_batches
from frost.core.inputs import pair_of
from frost.core.precision import at_least_float32
from frost.core.task import CLASSES, Task
from frost.core.trajectory import IterativeModel, Trajectory
from frost.data.splits import Images, batches_of
from frost.training.distributed import World


class Validation(NamedTuple):
    """How a model does on held-out inputs, after each number of refinement steps."""

    accuracy: list[float] | None    # t = 1…T: the mean quality; None where no quality is known
    loss: list[float]


def run_frozen(model: IterativeModel, images: Tensor | Images, batch: int = 256, keep_states: bool = False,
               report: Report | None = None) -> Trajectory:
    """The trajectories of many images with frozen weights, batch by batch; computed where the model is, kept on CPU."""
    def on_cpu(whole: Trajectory, _: None) -> Trajectory:
        return Trajectory(whole.states if whole.states is None else whole.states.cpu(), whole.outputs.cpu(),
                          whole.score_logits.cpu())

    batches = images.split(batch) if isinstance(images, Tensor) else batches_of(images, batch)
    parts = run_batches(model, ((some, None) for some in batches), on_cpu, keep_states=keep_states, report=report)
    states = torch.cat([part.states for part in parts if part.states is not None]) if keep_states else None
    return Trajectory(states, torch.cat([part.outputs for part in parts]),
                      torch.cat([part.score_logits for part in parts]))


def run_shared(model: IterativeModel, images: Images, batch: int, world: World,
               report: Report | None = None) -> Trajectory:
    """`run_frozen` by several processes, which take the batches in turn; all get the whole, bit for bit as one would.

    All report equally often, whether they had a batch or not, so that they can agree on something.
    """
    if world.size == 1:
        return run_frozen(model, images, batch, report=report)
    batches = torch.arange(len(images)).split(batch)
    parts: list[Trajectory] = []
    rows: list[Tensor] = []
    for first in range(0, len(batches), world.size):
        if first + world.rank < len(batches):
            rows.append(batches[first + world.rank])
            parts.append(run_frozen(model, images.batch(rows[-1]), batch))
        if report is not None:
            report(min((first + world.size) * batch, len(images)), "")
    if not parts:    # fewer batches than processes
        rows, parts = [batches[0][:0]], [_none_of(run_frozen(model, images.batch(batches[0][:1]), 1))]
    place = torch.cat(rows)
    outputs, score_logits = (world.gathered_at(place, torch.cat(mine), len(images)) for mine in (
        [part.outputs for part in parts], [part.score_logits for part in parts]))
    return Trajectory(None, outputs, score_logits)


def _none_of(trajectory: Trajectory) -> Trajectory:
    return trajectory._replace(outputs=trajectory.outputs[:0], score_logits=trajectory.score_logits[:0])


def validated(trajectory: Trajectory, targets: Tensor, task: Task = CLASSES) -> Validation:
    """The depth–accuracy curve, and the loss at each step."""
    return _mean_of([_judged(trajectory.outputs, targets, task)])


def validate(model: IterativeModel, batches: Iterable[Any], task: Task) -> Validation:
    """The same for any held-out batches of (inputs, targets), without keeping what the model answered."""
    parts = run_batches(model, map(pair_of, batches), lambda whole, targets: _judged(
        at_least_float32(whole.outputs), targets.to(whole.outputs.device), task))
    if not parts:
        raise ValueError("validation gives no batch at all; it must give pairs of inputs and targets, each time anew.")
    return _mean_of(parts)


def _judged(outputs: Tensor, targets: Tensor, task: Task) -> tuple[Tensor, Tensor | None]:
    """The loss and, where it is known, the quality of each answer, (b, t) each, double, on the CPU."""
    quality = None if task.quality is None else task.qualities(outputs, targets).double().cpu()
    return task.losses(outputs, targets).double().cpu(), quality


def _mean_of(parts: list[tuple[Tensor, Tensor | None]]) -> Validation:
    quality = [part for _, part in parts if part is not None]
    accuracy = torch.cat(quality).mean(dim=0).tolist() if quality else None
    return Validation(accuracy, torch.cat([losses for losses, _ in parts]).mean(dim=0).tolist())
