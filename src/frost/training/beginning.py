"""The model that a training begins with: new, or with the weights of another run (`frost train --from RUN`)."""

from __future__ import annotations

from pathlib import Path

from frost import checkpoint
from frost.core.trajectory import IterativeModel
from frost.recipes import RunConfig
from frost.training.team import Team
from frost.transfer import fill
from frost.zoo.registry import build


def first_model(config: RunConfig, source: Path | str | None, team: Team) -> tuple[IterativeModel, str | None]:
    """The model before the first step, and the hash of the weights that it has from `source`; the same for all.

    The first process reads them: a run that is still being trained may change between two looks.
    """
    model = build(config.model, seed=config.train.seed)
    if source is None:
        return model, None
    found = team.by_first(lambda: checkpoint.weights_hash(fill(model, source)))
    model.load_state_dict(team.tensors_of_first(model.state_dict()))
    return model, found
