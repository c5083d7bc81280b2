"""The training loop (§5): order, augment, unroll, step; one record a step.

The order of the images is a function of (seed, epoch), the augmentation of (seed, step). The loop draws nothing on the
screen and writes no file: it yields records, and whoever calls it decides what to do with them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from frost.config import check_fields
from frost.core.model import Frost
from frost.core.trajectory import IterativeModel, Trajectory
from frost.data.augment import random_shift
from frost.data.splits import Split
from frost.halting.ranking import HaltingConfig
from frost.training.objective import is_finite, objective
from frost.training.optim import learning_rate_at, make_optimizer


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """How a model is trained."""

    epochs: int = 50
    batch: int = 64
    learning_rate: float = 3e-3
    weight_decay: float = 0.05
    warmup: float = 0.1             # share of all steps
    clip: float = 1.0               # largest gradient norm
    label_smoothing: float = 0.0
    deep_supervision: float = 0.0   # weight of the mean loss over all steps; the paper has none (§5.1)
    shift: int = 0                  # pixels an image may be moved by, either way
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        for name in ("learning_rate", "clip"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}.")
        for name in ("weight_decay", "deep_supervision", "shift", "seed"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}.")
        if self.shift > 64:
            raise ValueError(f"shift must be at most 64 pixels, got {self.shift}.")
        if self.seed >= 2**62:
            raise ValueError(f"seed must be below 2^62, got {self.seed}.")
        for name in ("warmup", "label_smoothing"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} must lie in [0, 1), got {getattr(self, name)}.")


class StepRecord(NamedTuple):
    """What happened in one training step."""

    step: int              # from 1
    steps: int             # in the whole run
    epoch: int             # from 1
    loss: float
    task: float
    relative: float
    anchoring: float
    accuracy: float        # of the last refinement step, on the training batch
    scale: float | None    # λ
    hurst: float | None    # H
    learning_rate: float
    gradient_norm: float


Watcher = Callable[[int, Trajectory], None]   # is shown the epoch and the trajectory of each training batch


def fit(model: IterativeModel, data: Split, config: TrainConfig, halting: HaltingConfig,
        watch: Watcher | None = None) -> Iterator[StepRecord]:
    """Train in place; a record after every step."""
    optimizer = make_optimizer(model, config.learning_rate, config.weight_decay)
    batches = -(-len(data) // config.batch)
    steps = config.epochs * batches
    model.train()
    step, has_warned = 0, False
    for epoch in range(1, config.epochs + 1):
        order = torch.randperm(len(data), generator=_generator(config.seed, 1, epoch))
        for rows in order.split(config.batch):
            step += 1
            rate = learning_rate_at(step, steps, int(config.warmup * steps), config.learning_rate)
            for group in optimizer.param_groups:
                group["lr"] = rate
            images = random_shift(data.images[rows], config.shift, _generator(config.seed, 2, step))
            record, trajectory = _train_step(model, optimizer, images, data.labels[rows], rows, config, halting,
                                             (step, steps, epoch, rate))
            if watch is not None:
                watch(epoch, trajectory)
            if record.scale is not None and record.scale >= 1.0 and not has_warned:
                has_warned = True
                warnings.warn(f"λ has reached {record.scale:.2f} at step {step}; from 1 on a step enlarges instead of "
                              "refines (§6.2)", stacklevel=2)
            yield record


def _train_step(model: IterativeModel, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor, rows: Tensor,
                config: TrainConfig, halting: HaltingConfig,
                place: tuple[int, int, int, float]) -> tuple[StepRecord, Trajectory]:
    step, steps, epoch, rate = place
    trajectory = model(images, keep_states=False, isolate_score=halting.stop_gradient)
    loss = objective(trajectory, labels, halting, label_smoothing=config.label_smoothing,
                     deep_supervision=config.deep_supervision)
    if not is_finite(loss):
        raise FloatingPointError(f"the loss is {loss.total.item()} at step {step}, {_which(rows)}; "
                                 "lower train.learning_rate.")
    optimizer.zero_grad(set_to_none=True)
    loss.total.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), config.clip)
    if not torch.isfinite(norm):
        raise FloatingPointError(f"a gradient is not finite at step {step}, {_which(rows)}; "
                                 "lower train.learning_rate.")
    optimizer.step()
    scale, hurst = _scale_of(model)
    hits = (trajectory.outputs[:, -1].argmax(dim=-1) == labels).double().mean()
    record = StepRecord(step, steps, epoch, loss.total.item(), loss.task.item(), loss.relative.item(),
                        loss.anchoring.item(), hits.item(), scale, hurst, rate, norm.item())
    return record, Trajectory(None, trajectory.outputs.detach(), trajectory.score_logits.detach())


def _which(rows: Tensor, most: int = 16) -> str:
    """The images of a batch, in a sentence that stays short."""
    more = f" and {len(rows) - most} more" if len(rows) > most else ""
    return f"images {', '.join(map(str, rows[:most].tolist()))}{more}"


def run_frozen(model: IterativeModel, images: Tensor, batch: int = 256, keep_states: bool = False) -> Trajectory:
    """The trajectories of many images with frozen weights, batch by batch."""
    modes = {part: part.training for part in model.modules()}    # a user may have frozen some parts on purpose
    model.eval()
    with torch.no_grad():
        parts = [model(part, keep_states=keep_states) for part in images.split(batch)]
    for part, mode in modes.items():
        part.training = mode
    states = torch.cat([part.states for part in parts if part.states is not None]) if keep_states else None
    return Trajectory(states, torch.cat([part.outputs for part in parts]),
                      torch.cat([part.score_logits for part in parts]))


def _scale_of(model: IterativeModel) -> tuple[float | None, float | None]:
    if not isinstance(model, Frost):
        return None, None
    return model.scale.value.item(), model.scale.hurst.item()


def _generator(*numbers: int) -> torch.Generator:
    """A generator seeded by a mix of numbers, so that neighbouring seeds, epochs and steps share nothing."""
    mixed = 0
    for number in numbers:
        mixed = (mixed * 6_364_136_223_846_793_005 + number + 1_442_695_040_888_963_407) % 2**63
    return torch.Generator().manual_seed(mixed)
