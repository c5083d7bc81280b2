"""What decides a run: how a model is trained and on what; beside it, how the work is done, which decides no result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from frost.config import check_fields, described, setting, to_dict
from frost.core.precision import Device
from frost.data.augment import Augmentation
from frost.data.catalogue import PROBLEMS
from frost.halting.ranking import HaltingConfig
from frost.zoo.registry import ModelConfig

Supervision = Literal["last", "all"]
LARGEST_BATCH = 2**16    # images: beyond it a typing mistake is likelier than a machine
RUNTIME = "runtime"      # the group of a run that is no part of its identity


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """How a model is trained."""

    epochs: int = setting(50, "passes over the training data", least=1)
    batch: int = setting(64, "inputs in a step, of each process", least=1, most=LARGEST_BATCH)
    optimizer: Literal["adamw", "muon"] = setting("adamw", "muon is for kernels whose length does not matter")
    learning_rate: float = setting(3e-3, "of AdamW at its highest; Muon's is a fixed multiple of it", above=0)
    weight_decay: float = setting(0.05, "of matrices and kernels", least=0)
    warmup: float = setting(0.1, "share of all steps in which the learning rate rises", least=0, below=1)
    label_smoothing: float = setting(0.0, "share of a label that goes to all classes alike", least=0, below=1)
    supervision: Supervision = setting("last", "the last step's loss (§5.1), or that of all steps, step t weighing t")
    depth_schedule: Literal["full", "random", "growing"] = setting(
        "full", "steps of a batch: T; drawn from min_depth to T; or growing from min_depth to T",
        formerly=("random_depth", "growing_depth"))
    min_depth: int = setting(0, "fewest steps of a batch where depth_schedule is random or growing", least=0)
    ema: float = setting(0.0, "decay of the averaged weights, which are what is kept; 0 keeps the last", least=0,
                         below=1, formerly=("average",))
    augment: Augmentation = setting(Augmentation(), "what is done to training images")
    precision: Literal["auto", "float32", "bf16"] = setting("auto", "auto is bf16 where the hardware multiplies it")
    seed: int = setting(0, "of the first weights, the order and everything random", least=0, below=2**62)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.depth_schedule == "full" and self.min_depth:
            raise ValueError(f"min_depth is for depth_schedule random or growing, which is full; got {self.min_depth}.")
        if self.depth_schedule != "full" and not self.min_depth:
            raise ValueError(f"depth_schedule={self.depth_schedule} needs min_depth, the fewest steps of a batch; got "
                             "0.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeConfig:
    """How a run is worked on, not what it is: it may be resumed under others."""

    device: Device = setting("auto", "auto is a GPU if there is one; another device rounds differently")
    workers: int = setting(0, "threads that read images ahead, for images that are decoded from files", least=0)
    timeout: float = setting(300.0, "seconds that one process waits for another before it gives up", above=0)
    save_every: int = setting(0, "steps between checkpoints; 0 is one every five minutes", least=0)
    validate_every: int = setting(1, "epochs between validations", least=1)
    checkpointing: bool = setting(False, "compute states again in the backward pass: less memory, other rounding")
    compile: bool = setting(False, "torch.compile the model: other rounding, and a resume is not bit for bit")

    def __post_init__(self) -> None:
        check_fields(self)
        if self.compile and self.checkpointing:
            raise ValueError("compile and checkpointing exclude one another; set one of them to false.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """A complete run: `--set data=…`, `--set model.…`, `--set halting.…`, `--set train.…`, `--set runtime.…`."""

    recipe: str = field(metadata=described("the recipe that it began as"))
    data: Literal["addition", "mazes", "digits", "mnist", "fashion-mnist", "cifar10", "cifar100", "imagenet100",
                  "folder"] = field(metadata=described("the data set"))
    model: ModelConfig = field(metadata=described("what is trained"))
    halting: HaltingConfig = setting(HaltingConfig(), "how the halting score is taught")
    train: TrainConfig = setting(TrainConfig(), "how the model is trained")
    runtime: RuntimeConfig = setting(RuntimeConfig(), "how the work is done; decides no result, at most its rounding")

    def __post_init__(self) -> None:
        check_fields(self)
        fewest, depth = self.train.min_depth, self.model.depth
        if self.data in PROBLEMS and self.train.augment != Augmentation():
            raise ValueError(f"train.augment changes images and not answers at each position, so {self.data} cannot be "
                             "augmented; leave its fields as they are.")
        if fewest > depth:
            raise ValueError(f"train.min_depth must be at most model.depth, which is {depth}; got {fewest}.")
        if fewest and self.halting.calibrate == "last-epoch":
            raise ValueError(f"train.depth_schedule={self.train.depth_schedule} gives batches different numbers of "
                             "scores; halting.calibrate must be held-out then, got last-epoch.")
        compared = [depth] if self.halting.refit else []
        compared += [fewest or depth] if self.halting.rank_by != "loss" else []
        if min(compared, default=2) < 2:
            raise ValueError(f"halting.rank_by={self.halting.rank_by} and refit={self.halting.refit} compare a step "
                             "with the last one: model.depth, and train.min_depth unless it is 0, must be at least 2; "
                             f"got {depth} and {fewest}.")

    @property
    def identity(self) -> dict[str, Any]:
        """What decides a result, as plain values: all but the runtime."""
        return {name: value for name, value in to_dict(self).items() if name != RUNTIME}


def generator_of(*numbers: int) -> torch.Generator:
    """A generator seeded by a mix of numbers."""
    return torch.Generator().manual_seed(mixed_seed(*numbers))


def mixed_seed(*numbers: int) -> int:
    """One number from several, so that neighbouring seeds, epochs and steps share nothing."""
    mixed = 0
    for number in numbers:
        mixed = (mixed * 6_364_136_223_846_793_005 + number + 1_442_695_040_888_963_407) % 2**63
    return mixed
