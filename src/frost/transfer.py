"""Begin with another run's weights: `frost.create(name, pretrained=True)` and `frost train --from RUN`.

What has the same shape is taken over; the head is made anew where the number of classes differs.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

from frost import checkpoint, hub
from frost.config import from_dict, suggest
from frost.core.trajectory import IterativeModel
from frost.zoo.registry import ModelConfig, build, named, names

FREE = {"depth", "scale_init", "classes"}    # may differ: no other weight's meaning depends on them
HEAD = ("head.readout.", "head.feedthrough.", "head.score.")    # what a number of classes decides, or is taught by them


def create(name: str, classes: int | None = None, pretrained: bool = False, seed: int | None = None) -> IterativeModel:
    """A model by name, new or with the weights of a run.

    Args:
        name: of a model, such as `frost-vit-b16`; or a run: a folder, the name of one that comes with the package,
            such as `cifar100-cpu`, or `hf://user/name@revision`.
        classes: None is as many as the model or run has; another number gives it a new head.
        pretrained: with the run's weights, all but those of a head that is new.
    """
    is_run = Path(name).is_dir() or name in checkpoint.pretrained() or hub.is_address(name)
    if not is_run and name not in names():
        raise ValueError(f"there is no model or run '{name}'. {suggest(name, [*names(), *checkpoint.pretrained()])}")
    if pretrained and not is_run:
        raise ValueError(f"'{name}' is an architecture without weights; pretrained=True takes a run: a folder, or one "
                         f"of {', '.join(checkpoint.pretrained())}.")
    config = config_of(name) if is_run else named(name)
    model = build(config if classes is None else replace(config, classes=classes), seed=seed)
    if pretrained:
        fill(model, name)
    return model


def config_of(source: Path | str) -> ModelConfig:
    """What describes the model of a run."""
    stored = checkpoint.load(source, with_calibration=False)
    return from_dict(ModelConfig, stored.config["model"], "model")


def fill(model: IterativeModel, source: Path | str) -> IterativeModel:
    """Give a zoo model the weights of a run; another kind of model is a ValueError that names the first difference."""
    stored = checkpoint.load(source, with_calibration=False)
    theirs, ours = from_dict(ModelConfig, stored.config["model"], "model"), model.zoo_config
    assert isinstance(ours, ModelConfig)
    free = FREE - {"depth"} if ours.architecture == "vanilla" else FREE    # there a step has weights of its own
    if ours.architecture.startswith("basic-ssm") and theirs.architecture.startswith("basic-ssm"):
        free = free | {"architecture"}    # how it starts does not matter: the weights are the run's
    for name in (field.name for field in fields(ours) if field.name not in free):
        if getattr(theirs, name) != getattr(ours, name):
            raise ValueError(f"--from {source} is another model: its model.{name} is {getattr(theirs, name)}, here it "
                             f"is {getattr(ours, name)}; set it to the same, or leave --from out.")
    weights = stored.model.state_dict()
    if theirs.classes != ours.classes:    # the score was taught with the old answers
        own = model.state_dict()
        weights = {name: own[name] if name.startswith(HEAD) else value for name, value in weights.items()}
    model.load_state_dict(weights)
    return model
