"""The model that a training begins with: new, or with the weights of another run (`frost train --from RUN`)."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from frost import checkpoint
from frost.config import from_dict
from frost.core.trajectory import IterativeModel
from frost.recipes import RunConfig
from frost.training.team import Team
from frost.zoo.registry import ModelConfig, build

FREE = {"depth", "scale_init", "folded_start"}    # may differ: no weight's meaning depends on them


def first_model(config: RunConfig, source: Path | str | None, team: Team) -> tuple[IterativeModel, str | None]:
    """The model before the first step, and the hash of the weights that it has from `source`; the same for all.

    The first process reads them: a run that is still being trained may change between two looks.
    """
    model = build(config.model, seed=config.train.seed)
    if source is None:
        return model, None
    found = team.by_first(lambda: checkpoint.weights_hash(_filled(model, config.model, source)))
    model.load_state_dict(team.tensors_of_first(model.state_dict()))
    return model, found


def _filled(model: IterativeModel, config: ModelConfig, source: Path | str) -> IterativeModel:
    """The model with the run's weights; another kind of model is a ValueError that names the first difference."""
    stored = checkpoint.load(source, with_calibration=False)
    theirs = from_dict(ModelConfig, stored.config["model"], "model")
    free = FREE - {"depth"} if config.architecture == "vanilla" else FREE    # there a step has weights of its own
    for name in (field.name for field in fields(config) if field.name not in free):
        if getattr(theirs, name) != getattr(config, name):
            raise ValueError(f"--from {source} is another model: its model.{name} is {getattr(theirs, name)}, here it "
                             f"is {getattr(config, name)}; set it to the same, or leave --from out.")
    model.load_state_dict(stored.model.state_dict())
    return model
