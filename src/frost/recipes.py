"""Complete runs as functions; each docstring gives the command, the time and the number to expect.

`--set model.architecture=vanilla`, `recurrent` or `basic-ssm` trains a baseline with everything else unchanged. The
recipes named after the paper (`cifar100`, `imagenet100-…`) rank by loss and supervise the last step only, as it does;
ours rank by the gain that is left, and supervise every step as well or draw the last one at random.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from frost.config import suggest
from frost.data.augment import Augmentation
from frost.halting.ranking import HaltingConfig
from frost.training.settings import TrainConfig
from frost.zoo.registry import SIZES, ModelConfig

Name = Literal["digits", "fashion-mnist", "cifar100-short", "cifar100-cpu", "cifar100-cpu-tuned", "cifar100",
               "imagenet100-resnet50", "imagenet100-vit-b16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Everything that decides a run: `--set data=…`, `--set model.…`, `--set halting.…`, `--set train.…`."""

    recipe: Name
    data: Literal["digits", "mnist", "fashion-mnist", "cifar10", "cifar100", "imagenet100", "folder"]
    model: ModelConfig
    halting: HaltingConfig = field(default_factory=HaltingConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        least, depth = self.train.random_depth, self.model.depth
        if least > depth:
            raise ValueError(f"train.random_depth must be at most model.depth, which is {depth}; got {least}.")
        if least and self.halting.calibrate == "last-epoch":
            raise ValueError("train.random_depth gives images different numbers of scores; halting.calibrate must be "
                             "held-out then, got last-epoch.")
        if self.halting.objective != "rank" and self.halting.calibrate == "last-epoch":
            raise ValueError(f"halting.objective={self.halting.objective} is calibrated on held-out images; "
                             "halting.calibrate must be held-out then, got last-epoch.")
        rank_by = self.halting.rank_by
        if (rank_by != "loss" or self.halting.refit) and depth < 2:
            raise ValueError(f"halting.rank_by={rank_by} compares a step with the last one and needs model.depth of at "
                             f"least 2, got {depth}.")
        if rank_by != "loss" and least == 1:
            raise ValueError(f"train.random_depth must be 0 or at least 2 where halting.rank_by is {rank_by}, which "
                             "compares a step with the last one; got 1.")
        if self.halting.refit and self.halting.calibrate == "last-epoch":
            raise ValueError("halting.refit teaches the score after the last epoch; halting.calibrate must be held-out "
                             "then, got last-epoch. Or set halting.refit=0.")


def digits() -> RunConfig:
    """A small FROST on scikit-learn's digits, which need no download.

    `frost train digits --out RUN`; about a minute on two cores; 98.7, 98.9 and 98.9 % at full depth with seeds 0, 1 and
    2, and 98.3, 98.9 and 98.9 % at quantile 0.25, a third of the steps.
    """
    return RunConfig(
        recipe="digits", data="digits",
        model=replace(SIZES["resnet-8px"], score_sees="output"),
        halting=HaltingConfig(rank_by="gain", refit=2_000),
        train=TrainConfig(epochs=40, batch=64, learning_rate=1.2e-2, deep_supervision=0.5,
                          augment=Augmentation(shift=1), precision="float32"),
    )


def fashion_mnist() -> RunConfig:
    """A small FROST on Fashion-MNIST, 28 × 28 grey images of clothes.

    `frost train fashion-mnist --out RUN --data DIR` (or `--download`); its files are not on our machines, so neither
    time nor accuracy was measured.
    """
    return RunConfig(
        recipe="fashion-mnist", data="fashion-mnist",
        model=replace(SIZES["resnet-8px"], image_size=28, channels=96, bottleneck=48, patch=4),
        halting=HaltingConfig(rank_by="gain"),
        train=TrainConfig(epochs=15, batch=128, learning_rate=4e-3, deep_supervision=0.5, average=0.998,
                          augment=Augmentation(shift=2, flip=True)),
    )


def cifar100() -> RunConfig:
    """The paper's CIFAR-100 run: a ResNet transition, T = 16.

    `frost train cifar100 --out RUN --data DIR`; written for a GPU and not run by us. The paper reports 61.96 % at full
    depth (its batch, epochs and augmentation are not printed; ours are in docs/decisions.md).
    """
    return RunConfig(
        recipe="cifar100", data="cifar100",
        model=replace(SIZES["resnet-32px"], depth=16, channels=256, bottleneck=64),
        train=TrainConfig(epochs=200, batch=128, learning_rate=2e-3, label_smoothing=0.1, average=0.9995,
                          augment=Augmentation(shift=4, flip=True)),
    )


def imagenet100_resnet50() -> RunConfig:
    """The paper's ImageNet-100 run with the ResNet transition, T = 16.

    `frost train imagenet100-resnet50 --out RUN --data DIR`; written for GPUs and not run by us.
    """
    return RunConfig(
        recipe="imagenet100-resnet50", data="imagenet100",
        model=SIZES["resnet50"],
        train=TrainConfig(epochs=100, batch=128, learning_rate=2e-3, label_smoothing=0.1, average=0.9995,
                          checkpointing=True, augment=Augmentation(shift=16, flip=True)),
    )


def imagenet100_vit_b16() -> RunConfig:
    """The paper's ImageNet-100 run with the ViT-B/16 transition, T = 12.

    `frost train imagenet100-vit-b16 --out RUN --data DIR`; needs the extra `train` for RandAugment; written for GPUs
    and not run by us.
    """
    return RunConfig(
        recipe="imagenet100-vit-b16", data="imagenet100",
        model=SIZES["vit-b16"],
        train=TrainConfig(epochs=300, batch=128, learning_rate=1e-3, label_smoothing=0.1, average=0.9998,
                          checkpointing=True,
                          augment=Augmentation(shift=16, flip=True, rand_augment=2, erase=0.25, mix="cutmix")),
    )


def cifar100_cpu() -> RunConfig:
    """CIFAR-100 for two CPU cores: a leaky bottleneck on maps of 8 × 8, T = 8, 0.27 M parameters.

    `frost train cifar100-cpu --out RUN --data DIR`; 67 minutes on one core with AVX512-BF16; 58.29 % of the test images
    at full depth with seed 0, 52.64 % at half of it where stopping everybody gives 50.77 %.
    """
    run = cifar100_short()
    return replace(
        run, recipe="cifar100-cpu",
        model=replace(run.model, channels=192, bottleneck=96, light_stem=False, deep_stem=True),
        halting=replace(run.halting, refit_pairs="all", refit_epochs=15),
        train=replace(run.train, epochs=22, validate_every=2),
    )


def cifar100_cpu_tuned() -> RunConfig:
    """The run that comes with us: `cifar100-cpu` for eight more epochs, ranked among the images that are right.

    `frost train cifar100-cpu-tuned --out RUN --data DIR --from FIRST`, FIRST being a run of `cifar100-cpu`; 42 minutes
    on one core in float32; 59.54 % of the test images at full depth with seed 0, 56.23 % at half of it where stopping
    everybody gives 54.12 %.
    """
    run = cifar100_cpu()
    return replace(run, recipe="cifar100-cpu-tuned",
                   train=replace(run.train, epochs=8, learning_rate=1e-3, supervision_growth=4.0, ranked_among="right"))


def cifar100_short() -> RunConfig:
    """CIFAR-100 in minutes: a narrower bottleneck behind a light stem, 0.22 M parameters, two epochs.

    `frost train cifar100-short --out RUN --data DIR`; about 4 minutes on one core with AVX512-BF16.
    """
    return RunConfig(
        recipe="cifar100-short", data="cifar100",
        model=replace(SIZES["resnet-32px"], depth=8, scale_init=0.2, channels=256, bottleneck=64, patch=4,
                      light_stem=True, leaky=True, rectify=True, standardise=True, standardise_weights=True,
                      score_sees="output"),
        halting=HaltingConfig(rank_by="gain", relative_weight=0.35, anchoring_weight=0.15, refit=20_000),
        train=TrainConfig(epochs=2, batch=64, learning_rate=2e-3, warmup=0.05, label_smoothing=0.05,
                          deep_supervision=2.0, supervision_growth=8.0, ranked_supervision=True, average=0.998,
                          augment=Augmentation(shift=4, flip=True)),
    )


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "digits": digits, "fashion-mnist": fashion_mnist, "cifar100-short": cifar100_short, "cifar100-cpu": cifar100_cpu,
    "cifar100-cpu-tuned": cifar100_cpu_tuned,
    "cifar100": cifar100, "imagenet100-resnet50": imagenet100_resnet50, "imagenet100-vit-b16": imagenet100_vit_b16}


def recipe(name: str) -> RunConfig:
    """The run behind a name; an unknown name is a ValueError with the nearest known one."""
    if name not in RECIPES:
        raise ValueError(f"there is no recipe '{name}'. {suggest(name, RECIPES)}")
    return RECIPES[name]()
