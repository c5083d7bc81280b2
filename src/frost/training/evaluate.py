"""Run a model with frozen weights over many images: trajectories, and what validation reports of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from frost.core.inputs import pair_of, to_device
from frost.core.precision import at_least_float32, device_of, dtype_of
from frost.core.task import CLASSES, Task
from frost.core.trajectory import IterativeModel, Trajectory, evaluating
from frost.data.splits import Images
from frost.training.team import Team

Report = Callable[[int, str], None]    # images done, and a text


class Validation(NamedTuple):
    """How a model does on held-out inputs, after each number of refinement steps."""

    accuracy: list[float] | None    # t = 1…T: the mean quality; None where no quality is known
    loss: list[float]


def run_shared(model: IterativeModel, images: Images, batch: int, team: Team,
               report: Report | None = None) -> Trajectory:
    """`run_frozen` by several processes, which take the batches in turn; all get the whole, bit for bit as one would.

    All report equally often, whether they had a batch or not, so that they can agree on something.
    """
    if team.size == 1:
        return run_frozen(model, images, batch, report=report)
    batches = torch.arange(len(images)).split(batch)
    parts: list[Trajectory] = []
    rows: list[Tensor] = []
    for first in range(0, len(batches), team.size):
        if first + team.rank < len(batches):
            rows.append(batches[first + team.rank])
            parts.append(run_frozen(model, images.batch(rows[-1]), batch))
        if report is not None:
            report(min((first + team.size) * batch, len(images)), "")
    if not parts:    # fewer batches than processes
        rows, parts = [batches[0][:0]], [_none_of(run_frozen(model, images.batch(batches[0][:1]), 1))]
    place = torch.cat(rows)
    outputs, score_logits = (team.filled(torch.cat(mine), place, len(images)) for mine in (
        [part.outputs for part in parts], [part.score_logits for part in parts]))
    return Trajectory(None, outputs, score_logits)


def _none_of(trajectory: Trajectory) -> Trajectory:
    return trajectory._replace(outputs=trajectory.outputs[:0], score_logits=trajectory.score_logits[:0])


def run_frozen(model: IterativeModel, images: Tensor | Images, batch: int = 256, keep_states: bool = False,
               report: Report | None = None) -> Trajectory:
    """The trajectories of many images with frozen weights, batch by batch; computed where the model is, kept on CPU."""
    parts: list[Trajectory] = []
    done, device = 0, device_of(model)
    with evaluating(model):
        for part in _batches(images, batch):
            whole = model(part.to(device), keep_states=keep_states)
            parts.append(Trajectory(whole.states if whole.states is None else whole.states.cpu(), whole.outputs.cpu(),
                                    whole.score_logits.cpu()))
            done += len(part)
            if report is not None:
                report(done, "")
    states = torch.cat([part.states for part in parts if part.states is not None]) if keep_states else None
    return Trajectory(states, torch.cat([part.outputs for part in parts]),
                      torch.cat([part.score_logits for part in parts]))


def validated(trajectory: Trajectory, targets: Tensor, task: Task = CLASSES) -> Validation:
    """The depth–accuracy curve, and the loss at each step."""
    quality = None
    if task.quality is not None:
        quality = task.qualities(trajectory.outputs, targets).double().mean(dim=0).tolist()
    return Validation(quality, task.losses(trajectory.outputs, targets).double().mean(dim=0).tolist())


def validate(model: IterativeModel, batches: Iterable[Any], task: Task) -> Validation:
    """The same for any held-out batches of (inputs, targets), without keeping what the model answered."""
    device, quality, losses = device_of(model), [], []
    with evaluating(model):
        for item in batches:
            inputs, targets = pair_of(item)
            outputs = at_least_float32(model(to_device(inputs, device, dtype_of(model)), keep_states=False).outputs)
            losses.append(task.losses(outputs, targets.to(device)).double().cpu())
            if task.quality is not None:
                quality.append(task.qualities(outputs, targets.to(device)).double().cpu())
    if not losses:
        raise ValueError("validation gives no batch at all; it must give pairs of inputs and targets, each time anew.")
    accuracy = torch.cat(quality).mean(dim=0).tolist() if quality else None
    return Validation(accuracy, torch.cat(losses).mean(dim=0).tolist())


def _batches(images: Tensor | Images, batch: int) -> Iterator[Tensor]:
    if isinstance(images, Tensor):
        yield from images.split(batch)
    else:
        for rows in torch.arange(len(images)).split(batch):
            yield images.batch(rows)
