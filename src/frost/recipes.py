"""Complete runs as functions; each docstring gives the command, the time and the number to expect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from frost.config import suggest
from frost.data.augment import Augmentation
from frost.halting.ranking import HaltingConfig
from frost.training.settings import TrainConfig
from frost.zoo.registry import SIZES, ModelConfig


Name = Literal["digits", "fashion-mnist", "cifar100-short", "cifar100-cpu", "cifar100", "imagenet100-resnet50",
               "imagenet100-vit-b16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Everything that decides a run: `--set data=…`, `--set model.…`, `--set halting.…`, `--set train.…`."""

    recipe: Name
    data: Literal["digits", "mnist", "fashion-mnist", "cifar10", "cifar100", "imagenet100", "folder"]
    model: ModelConfig
    halting: HaltingConfig = field(default_factory=HaltingConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


def digits() -> RunConfig:
    """A small FROST on scikit-learn's digits.

    `frost demo`; 50 seconds on two cores; 98.5, 98.7 and 98.5 % at full depth with seeds 0, 1 and 2.
    """
    return RunConfig(
        recipe="digits", data="digits",
        model=SIZES["resnet-8px"],
        halting=HaltingConfig(rank_by="gain"),
        train=TrainConfig(epochs=40, batch=64, learning_rate=1.2e-2, deep_supervision=0.5,
                          augment=Augmentation(shift=1), precision="float32"),
    )


RECIPES: dict[str, Callable[[], RunConfig]] = {"digits": digits}


def recipe(name: str) -> RunConfig:
    """The run behind a name; an unknown name is a ValueError with the nearest known one."""
    if name not in RECIPES:
        raise ValueError(f"there is no recipe '{name}'. {suggest(name, RECIPES)}")
    return RECIPES[name]()

