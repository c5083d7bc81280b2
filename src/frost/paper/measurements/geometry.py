"""What the path of a model's states looks like: measured once, for Table 1 and for the dimension (§6.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from frost.core.layout import channel_axis, normalised_pool
from frost.core.precision import device_of
from frost.core.trajectory import IterativeModel, Trajectory, evaluating
from frost.data.splits import Images, batches_of
from frost.paper.checks import Units
from frost.paper.intervals import of_bootstrap, of_mean
from frost.paper.measurements.dimension_and_exponent import box_dimension, increments_exponent
from frost.paper.measurements.state_similarity import consistency, cosine_to_final, flattened
from frost.paper.sizes import Size, with_model
from frost.paper.units import FOLDED, Measurement, Unit, grid

GROUPS = {"vanilla": "vanilla-none-", "basic-ssm": "basic-ssm-none-", "basic-ssm-folded": "basic-ssm-folded-none-",
          "frost-unranked": "frost-none-", "frost": "frost-mean-"}
UNTRAINED = ("vanilla-untrained", "basic-ssm-untrained", "frost-untrained")


def geometry(model: IterativeModel, test: Images, paths: int) -> dict[str, Any]:
    """Cosines to the last state, pooled as the readout sees them and flattened; dimension and exponent of the path."""
    pooled, flat, kept = [], [], []
    with evaluating(model):
        for features, states in _along(model, batches_of(test, 128)):
            pooled.append(cosine_to_final(features))
            flat.append(cosine_to_final(flattened(states)))
            kept.append(features)
    features = torch.cat(kept)[:paths]
    found = box_dimension(features)
    return {"pooled": consistency(torch.cat(pooled))._asdict(), "flattened": consistency(torch.cat(flat))._asdict(),
            "dimension": of_bootstrap(found.value.numpy())._asdict(),
            "r_squared": of_mean(found.r_squared.numpy())._asdict(),
            "smallest_box": found.smallest.mean().item(),
            "exponent": of_mean(increments_exponent(features).numpy())._asdict()}


GEOMETRY = Measurement(name="geometry", take=lambda model, data, size: geometry(model, data.test, size.paths),
                       settings=lambda size: {"paths": size.paths})


def path_units(size: Size) -> list[Unit]:
    """Models whose paths are compared: every seed of FROST, BasicSSM and Vanilla, and each as it starts."""
    units = [grid(size, model, "none", seed, GEOMETRY) for model in ("vanilla", "basic-ssm", "frost")
             for seed in size.seeds]
    units += [grid(size, "frost", "mean", seed, GEOMETRY) for seed in size.seeds]
    units.append(grid(size, FOLDED, "none", size.seeds[0], GEOMETRY))
    return units + [Unit(name=f"{model}-untrained", run=with_model(size.base, architecture=model), is_trained=False,
                         wants=(GEOMETRY,)) for model in ("vanilla", "basic-ssm", "frost")]


def groups_of(units: Units) -> dict[str, list[Any]]:
    """Runs by what they are; those that diverged have no geometry."""
    found = {name: [unit for key, unit in units.items() if key.startswith(prefix) and "geometry" in unit]
             for name, prefix in GROUPS.items()}
    return found | {name: [units[name]] for name in UNTRAINED}


def depth_of(runs: list[Any]) -> int:
    """T of some runs."""
    return len(runs[0]["geometry"]["pooled"]["mean"])


def _along(model: IterativeModel, batches: Iterator[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """The features that the readout sees, (b, t, c), and the states, (b, t, …), one batch at a time."""
    norm: Any = model.norm
    head: Any = model.head
    for images in batches:
        trajectory: Trajectory = model(images.to(device_of(model)))
        assert trajectory.states is not None
        axis = channel_axis(trajectory.states[:, 0].shape, head.channels, model.layout)    # type: ignore[arg-type]
        features = [normalised_pool(norm, hidden, axis) for hidden in trajectory.states.unbind(dim=1)]
        yield torch.stack(features, dim=1), trajectory.states
