"""The training loop (§5): order, augment, unroll, step; one record a step.

The order of the images is a function of (seed, epoch), everything random in a step of (seed, step). So a training is
its weights, its optimizer and the number of steps taken, and goes on from any of them as if it had never stopped. The
loop draws nothing on the screen and writes no file: it yields records, and its caller decides what to do with them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from frost.core.inputs import Inputs
from frost.core.model import Frost
from frost.core.precision import Precision, at_least_float32, autocast, device_of, dtype_of, resolve_precision
from frost.core.task import Task
from frost.core.trajectory import IterativeModel, Trajectory
from frost.data.splits import Images
from frost.halting.ranking import HaltingConfig
from frost.halting.score import score_of
from frost.training.distributed import SINGLE, World
from frost.training.losses import Objective, is_finite, objective
from frost.training.memory import explained_memory, unroll
from frost.training.optim import begin_ema, learning_rate_at, make_optimizer, update_ema
from frost.training.settings import RuntimeConfig, TrainConfig, generator_of, mixed_seed
from frost.training.sources import Batch, ImageSource, Source

CLIP = 1.0    # largest gradient norm


class StepRecord(NamedTuple):
    """What happened in one training step."""

    step: int              # from 1
    steps: int             # in the whole run
    epoch: int             # from 1
    loss: float
    task: float
    relative: float
    anchoring: float
    pondering: float
    accuracy: float | None # on the training batch, of the last refinement step that it took: its mean quality
    scale: float | None    # λ
    hurst: float | None    # H
    learning_rate: float
    gradient_norm: float
    easy_score: float | None           # mean score of the easy pairs; None in a step without any
    hard_score: float | None
    median_score: float                # of all pairs: what the threshold at quantile 0.5 would be
    accuracy_per_step: list[float] | None   # on the training batch; None where no quality is known

    def line(self) -> str:
        """What progress shows of a step."""
        scale = "" if self.scale is None else f"  λ {self.scale:.3f}"
        quality = "" if self.accuracy is None else f"  accuracy {self.accuracy:.2f}"
        return f"epoch {self.epoch}  loss {self.loss:.3f}{quality}{scale}"

    def check_finite(self, learning_rate: float) -> None:
        """Refuse to go on with a training whose numbers are infinite or none; the loss may still look sound then."""
        for name, value in self._asdict().items():
            if isinstance(value, float) and not math.isfinite(value):
                raise FloatingPointError(f"{name} is {value} after step {self.step}; lower train.learning_rate, which "
                                         f"is {learning_rate:g}, in a new --out.")


Watcher = Callable[[int, Trajectory], None]   # gets the epoch and the trajectory of each training batch


@dataclass(slots=True)
class Training:
    """A training between two steps."""

    model: IterativeModel
    ema: IterativeModel | None    # the averaged weights
    optimizer: torch.optim.Optimizer
    precision: Precision
    step: int = 0          # steps taken
    world: World = SINGLE  # the processes that share each batch
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)

    @classmethod
    def begin(cls, model: IterativeModel, config: TrainConfig, world: World | None = None,
              runtime: RuntimeConfig | None = None) -> Training:
        """Before the first step."""
        precision = resolve_precision(config.precision, device_of(model))
        ema = begin_ema(model) if config.ema else None
        optimizer = make_optimizer(model, config.learning_rate, config.weight_decay, config.optimizer)
        return cls(model, ema, optimizer, precision, world=world or SINGLE, runtime=runtime or RuntimeConfig())

    @property
    def result(self) -> IterativeModel:
        """The model that is kept in the end: the averaged weights, if there are any."""
        return self.model if self.ema is None else self.ema


def steps_in(data: Images | Source, config: TrainConfig, processes: int = 1) -> tuple[int, int]:
    """Steps in an epoch, and in the whole training; of a data set each process takes `config.batch` images a step."""
    batches = data.batches if isinstance(data, Source) else -(-len(data) // (config.batch * processes))
    return batches, config.epochs * batches


def fit(model: IterativeModel, data: Images | Source, config: TrainConfig, halting: HaltingConfig,
        watch: Watcher | None = None, runtime: RuntimeConfig | None = None) -> Iterator[StepRecord]:
    """Train in place from the first step to the last; a record after every step."""
    return go_on(Training.begin(model, config, runtime=runtime), data, config, halting, watch)


def go_on(training: Training, data: Images | Source, config: TrainConfig, halting: HaltingConfig,
          watch: Watcher | None = None, task: Task | None = None) -> Iterator[StepRecord]:
    """Train from where it stands to the last step; a record after every step, when weights and optimizer are whole.

    Args:
        task: how answers are judged, where not as the model says.
    """
    if not isinstance(data, Source):
        data = ImageSource(data, config, training.world, training.runtime.workers)
    source: Source = data
    task = training.model.task if task is None else task
    steps = config.epochs * source.batches
    training.model.train()
    if training.runtime.compile:
        training.model.compile()
    has_warned = False
    for epoch in range(training.step // source.batches + 1, config.epochs + 1):
        first = training.step - (epoch - 1) * source.batches
        for batch in source.epoch(epoch, first, device_of(training.model), dtype_of(training.model)):
            with explained_memory(len(batch.targets)):
                record, trajectory = _train_step(training, batch, config, halting, task, steps, epoch)
            if watch is not None:
                watch(epoch, trajectory)
            if record.scale is not None and record.scale >= 1.0 and not has_warned:
                has_warned = True
                warnings.warn(f"λ has reached {record.scale:.2f} at step {record.step}; from 1 on a step enlarges "
                              "instead of refines (§6.2)", stacklevel=2)
            yield record


def _train_step(training: Training, batch: Batch, config: TrainConfig, halting: HaltingConfig, task: Task, steps: int,
                epoch: int) -> tuple[StepRecord, Trajectory]:
    """One step on a batch, of which this process computes its part."""
    model, optimizer, world, step = training.model, training.optimizer, training.world, training.step + 1
    device = device_of(model)
    rate = learning_rate_at(step, steps, int(config.warmup * steps), config.learning_rate)
    for group in optimizer.param_groups:
        group["lr"] = rate
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        own = (world.rank,) if world.size > 1 else ()
        torch.manual_seed(mixed_seed(config.seed, 3, step, *own))    # for what a block may draw, such as dropout
        with autocast(training.precision, device):
            mine = _trajectory(model, batch.inputs, _depth_of(model, config, step, steps), halting, training.runtime)
    loss, whole = _loss(world, mine, batch, config, halting, task)
    if not is_finite(loss):
        raise FloatingPointError(f"the loss is {loss.total.item()} at step {step}, {batch.name}; "
                                 "lower train.learning_rate, in a new --out.")
    optimizer.zero_grad(set_to_none=True)
    if not loss.total.requires_grad:
        raise ValueError("there is no weight to train: the loss does not depend on any parameter of the model. Pass "
                         "modules or their methods, and leave no_grad and detach out of them.")
    loss.total.backward()
    world.sum_gradients(model)
    norm = nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    if not torch.isfinite(norm):
        raise FloatingPointError(f"a gradient is not finite at step {step}, {batch.name}; "
                                 "lower train.learning_rate, in a new --out.")
    optimizer.step()
    if training.ema is not None:
        update_ema(training.ema, model, step, config.ema)
    training.step = step
    seen = whole._replace(states=None, outputs=whole.outputs.detach(), score_logits=whole.score_logits.detach())
    return _record(model, loss, seen, batch.targets, task, (step, steps, epoch), rate, norm.item()), seen


def _loss(world: World, mine: Trajectory, batch: Batch, config: TrainConfig, halting: HaltingConfig,
          task: Task) -> tuple[Objective, Trajectory]:
    """The loss of the whole batch, differentiable in this process's samples, and the trajectories of all."""
    targets, part = batch.targets, batch.part
    count, own = len(targets), part.stop - part.start
    whole = mine._replace(outputs=world.gathered(mine.outputs[:own], count, part),
                          score_logits=world.gathered(mine.score_logits[:own], count, part))
    return objective(whole, targets, halting, task=task, label_smoothing=config.label_smoothing,
                     supervision=config.supervision, mixed=batch.mixed), whole


def _trajectory(model: IterativeModel, inputs: Inputs, depth: int, halting: HaltingConfig,
                runtime: RuntimeConfig) -> Trajectory:
    if runtime.checkpointing:
        trajectory = unroll(model, inputs, depth, halting.stop_gradient)
    else:
        trajectory = model(inputs, depth=depth, keep_states=False, isolate_score=halting.stop_gradient)
    return trajectory._replace(outputs=at_least_float32(trajectory.outputs),
                               score_logits=at_least_float32(trajectory.score_logits))


def _depth_of(model: IterativeModel, config: TrainConfig, step: int, steps: int) -> int:
    """T; or a number of refinement steps drawn for this batch; or one that grows to T as the training goes on."""
    if config.depth_schedule == "full":
        return model.depth
    least = min(config.min_depth, model.depth)
    if config.depth_schedule == "growing":
        return least + (step - 1) * (model.depth - least + 1) // steps
    return int(torch.randint(least, model.depth + 1, (), generator=generator_of(config.seed, 4, step)))


def _record(model: IterativeModel, loss: Objective, seen: Trajectory, targets: Tensor, task: Task,
            place: tuple[int, int, int], rate: float, norm: float) -> StepRecord:
    scale, hurst = _scale_of(model)
    quality = None
    if task.quality is not None:
        quality = task.qualities(seen.outputs, targets).double().mean(dim=0).tolist()
    scores = score_of(seen.score_logits)
    return StepRecord(*place, loss.total.item(), loss.task.item(), loss.relative.item(), loss.anchoring.item(),
                      loss.pondering.item(), None if quality is None else quality[-1], scale, hurst, rate, norm,
                      _mean(scores, loss.easy), _mean(scores, loss.hard), scores.median().item(), quality)


def _mean(scores: Tensor, members: Tensor) -> float | None:
    return scores[members].mean().item() if bool(members.any()) else None


def _scale_of(model: IterativeModel) -> tuple[float | None, float | None]:
    if not isinstance(model, Frost):
        return None, None
    return model.scale.value.item(), model.scale.hurst.item()
