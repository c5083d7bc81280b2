"""At what size the paper is reproduced: smoke on digits, cpu on CIFAR-100, paper with the original settings.

Paper choice: FROST here is what the paper prints, the residual update with H = 0.8 and λ from 0.5, ranks by loss, the
linear score and the last step's loss; what we ship stands beside it where the two differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from frost.config import suggest
from frost.halting.ranking import HaltingConfig
from frost.recipes import recipe
from frost.training.settings import RunConfig, TrainConfig
from frost.zoo.registry import ModelConfig

Name = Literal["smoke", "cpu", "paper"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One size of the reproduction."""

    name: Name
    base: RunConfig                    # FROST as the paper prints it
    ours: RunConfig | str              # the form that we ship: to be trained, or the name of a run that comes with us
    seeds: tuple[int, ...]             # of FROST, BasicSSM and the collapse grid
    backbones: tuple[str, ...]         # of the complexity table
    batches: tuple[int, ...] = (1, 16)
    paths: int = 512                   # images whose path is measured for its dimension
    probes: int = 4                    # images whose step is searched for its contraction
    bounded: int | None = None         # channels of the rules that contract, whose full 3×3 is dear; None is the base's


def size_of(name: str) -> Size:
    """The size of a name; an unknown one is a ValueError."""
    if name not in get_args(Name):
        raise ValueError(f"there is no size '{name}'. {suggest(name, get_args(Name))}")
    return {"smoke": _smoke, "cpu": _cpu, "paper": _paper}[name]()


def as_printed(run: RunConfig) -> RunConfig:
    """A recipe with the paper's choices in place of ours."""
    model = replace(run.model, scale_init=0.5, hurst=0.8, update="residual", leaky=False, score_sees="state")
    train = replace(run.train, supervision="last", depth_schedule="full", min_depth=0)
    return replace(run, model=model, halting=HaltingConfig(), train=train)


def _smoke() -> Size:
    run = recipe("digits")
    small = replace(run, model=replace(run.model, channels=32, bottleneck=16),
                    train=replace(run.train, epochs=7), runtime=replace(run.runtime, validate_every=7))
    return Size(name="smoke", base=as_printed(small), ours=small, seeds=(0, 1, 2, 3, 4),
                 backbones=("resnet-8px", "vit-8px"), paths=256, probes=2)


def _cpu() -> Size:
    run = recipe("cifar100-short")
    return Size(name="cpu", base=as_printed(replace(run, train=replace(run.train, epochs=1))), ours="cifar100-cpu",
                 seeds=(0, 1, 2), backbones=("resnet50", "vit-b16"), bounded=128)


def _paper() -> Size:
    run = recipe("cifar100")
    ours = replace(run, halting=HaltingConfig(rank_by="gain"), model=replace(run.model, score_sees="output"),
                   train=replace(run.train, supervision="all"))
    return Size(name="paper", base=run, ours=ours, seeds=(0, 1, 2), backbones=("resnet50", "vit-b16"),
                 batches=(1, 16, 64))


def with_model(run: RunConfig, **changes: object) -> RunConfig:
    """The same run with another model."""
    model: ModelConfig = replace(run.model, **changes)    # type: ignore[arg-type]
    return replace(run, model=model)


def with_halting(run: RunConfig, **changes: object) -> RunConfig:
    """The same run with another supervision of the score."""
    halting: HaltingConfig = replace(run.halting, **changes)    # type: ignore[arg-type]
    return replace(run, halting=halting)


def with_training(run: RunConfig, **changes: object) -> RunConfig:
    """The same run, trained in another way."""
    train: TrainConfig = replace(run.train, **changes)    # type: ignore[arg-type]
    return replace(run, train=train)
