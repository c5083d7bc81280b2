"""How a model is trained: every setting, its default and its limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch

from frost.config import check_fields
from frost.core.precision import Device
from frost.data.augment import Augmentation

Supervision = Literal["last", "all"]
LARGEST_BATCH = 2**16    # images: beyond it a typing mistake is likelier than a machine


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """How a model is trained."""

    RETIRED: ClassVar[dict[str, object]] = {"deep_supervision": 0.0, "supervision_growth": 0.0,
                                            "ranked_supervision": False, "ranked_among": "all"}

    epochs: int = 50
    batch: int = 64
    optimizer: Literal["adamw", "muon"] = "adamw"   # muon: for kernels whose length does not matter
    learning_rate: float = 3e-3     # of AdamW; Muon's is a fixed multiple of it
    weight_decay: float = 0.05
    warmup: float = 0.1             # share of all steps
    clip: float = 1.0               # largest gradient norm
    label_smoothing: float = 0.0
    supervision: Supervision = "last"   # the last step's loss (§5.1), or that of all steps, step t weighing t
    random_depth: int = 0           # least number of refinement steps, drawn anew for each batch up to T; 0 is always T
    growing_depth: int = 0          # steps at first, growing to T in equal parts of the training; 0 is always T
    average: float = 0.0            # decay of the averaged weights, which are what is kept in the end; 0 keeps the last
    augment: Augmentation = field(default_factory=Augmentation)
    device: Device = "auto"         # auto is a GPU if there is one
    precision: Literal["auto", "float32", "bf16"] = "auto"   # auto is bf16 where the hardware multiplies it
    checkpointing: bool = False     # recompute states in the backward pass: memory hardly grows with T
    compile: bool = False           # torch.compile the model; then a resume is not bit for bit
    validate_every: int = 1         # epochs
    save_every: int = 0             # steps between checkpoints; 0 is one every five minutes
    workers: int = 0                # threads that read images ahead; changes no result, helps where images are decoded
    timeout: float = 300.0          # seconds that one process waits for another before it gives up
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("epochs", "batch", "validate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.batch > LARGEST_BATCH:
            raise ValueError(f"batch must be at most {LARGEST_BATCH:,}, got {self.batch}.")
        for name in ("learning_rate", "clip", "timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}.")
        for name in ("weight_decay", "random_depth", "growing_depth", "save_every", "seed", "workers"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}.")
        if self.seed >= 2**62:
            raise ValueError(f"seed must be below 2^62, got {self.seed}.")
        if self.random_depth and self.growing_depth:
            raise ValueError("random_depth and growing_depth exclude one another; set one of them to 0.")
        if self.compile and self.checkpointing:
            raise ValueError("compile and checkpointing exclude one another; set one of them to false.")
        for name in ("warmup", "label_smoothing", "average"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} must lie in [0, 1), got {getattr(self, name)}.")

    @property
    def least_depth(self) -> int:
        """The fewest steps that a batch may take; 0 where all take T."""
        return self.random_depth or self.growing_depth


def generator_of(*numbers: int) -> torch.Generator:
    """A generator seeded by a mix of numbers."""
    return torch.Generator().manual_seed(mixed_seed(*numbers))


def mixed_seed(*numbers: int) -> int:
    """One number from several, so that neighbouring seeds, epochs and steps share nothing."""
    mixed = 0
    for number in numbers:
        mixed = (mixed * 6_364_136_223_846_793_005 + number + 1_442_695_040_888_963_407) % 2**63
    return mixed
