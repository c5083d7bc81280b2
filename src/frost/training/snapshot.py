"""Resume points: a directory for each, from which a training goes on bit for bit.

    RUN/checkpoints/step-00001200/   weights.safetensors config.json     the model that `frost.load` would give
                                     training.safetensors training.json  weights in training, optimizer, place
                                     MANIFEST.json

Every save is a new directory, so that no save can harm an older one; the newest that verifies wins.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from frost import directory
from frost.checkpoint import newest, write_files
from frost.core.precision import device_of
from frost.training.loop import Training

TENSORS, PLACE = "training.safetensors", "training.json"
KEPT = 2   # older checkpoints are removed


def save_snapshot(checkpoints: Path, training: Training, config: Mapping[str, Any], place: Mapping[str, Any],
                  scores: Tensor | None = None) -> Path:
    """Write a resume point, then remove those that are no longer needed.

    Args:
        place: further facts, plain values, such as the seconds spent.
        scores: score logits seen in this epoch, where the calibration will need them.
    """
    path = checkpoints / f"step-{training.step:08d}"
    if path.exists():
        if newest(checkpoints, (TENSORS, PLACE)) == path:
            return path
        shutil.rmtree(path)    # of the same step, and damaged
    facts = {"step": training.step, "precision": training.precision, "threads": torch.get_num_threads(),
             "device": str(device_of(training.model).type), "world_size": training.world.size, **place}
    with directory.explained(path):
        with directory.built_aside(path) as building:
            extras = {TENSORS: save(_tensors_of(training, scores)), PLACE: json.dumps(facts, indent=2).encode()}
            write_files(building, training.result, config, extras=extras)
            building.rename(path)
        directory.fsync(checkpoints)
        directory.fsync(checkpoints.parent)
    older = sorted((other for other in checkpoints.glob("step-*") if other.name < path.name), reverse=True)
    for old in older[KEPT - 1:]:
        shutil.rmtree(old, ignore_errors=True)
    return path


def restore_newest(checkpoints: Path, training: Training) -> tuple[dict[str, Any], Tensor | None] | None:
    """Set a fresh training back to the newest whole resume point; its place and scores, or None if there is none."""
    for half in checkpoints.glob(".step-*.tmp"):
        shutil.rmtree(half, ignore_errors=True)    # a save that was cut short
    path = newest(checkpoints, (TENSORS, PLACE))
    damaged = sorted(other for other in checkpoints.glob("step-*") if path is None or other.name > path.name)
    if damaged:
        found = f"going on from {path.name}" if path else "starting anew"
        names = ", ".join(other.name for other in damaged)
        warnings.warn(f"{names} in {checkpoints} is damaged and set aside; {found}", stacklevel=2)
    for other in damaged:
        aside = other.with_name(f"damaged-{other.name}")
        shutil.rmtree(aside, ignore_errors=True)
        other.rename(aside)    # so that it is not counted, nor found again
    if path is None:
        return None
    place = directory.read_json(path / PLACE)
    now = {"precision": training.precision, "threads": torch.get_num_threads(),
           "device": device_of(training.model).type, "world_size": training.world.size}
    for name, value in now.items():
        if place.get(name) != value:
            warnings.warn(f"the run used {name} {place.get(name)} so far and now uses {value}: it goes on, but not bit "
                          "for bit", stacklevel=2)
    with safe_open(path / TENSORS, framework="pt") as file:
        scores = _fill(training, {name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118 - not a dict
    training.step = place["step"]
    return place, scores


def restore_all(checkpoints: Path, training: Training) -> tuple[dict[str, Any], Tensor | None] | None:
    """`restore_newest` for every process: rank 0 reads, the others get what it read."""
    world = training.world
    found: tuple[dict[str, Any], Tensor | None] | None = None

    def read() -> dict[str, Any] | None:
        nonlocal found
        found = restore_newest(checkpoints, training)
        return None if found is None else found[0]

    place = world.on_rank0(read)
    if place is None or world.size == 1:
        return found
    tensors = world.tensors_of_rank0(_tensors_of(training, found[1] if found else None) if world.is_rank0 else {})
    if not world.is_rank0:
        found = place, _fill(training, tensors)
        training.step = place["step"]
    return found


def _tensors_of(training: Training, scores: Tensor | None) -> dict[str, Tensor]:
    """Everything that changes from step to step, by name; copies, since tied weights may not be stored twice."""
    tensors = {f"model.{name}": tensor for name, tensor in training.model.state_dict().items()}
    if training.ema is not None:
        tensors |= {f"average.{name}": tensor for name, tensor in training.ema.state_dict().items()}
    for name, parameter in training.model.named_parameters():
        for key, value in training.optimizer.state[parameter].items():
            tensors[f"optimizer.{key}.{name}"] = value
    if scores is not None:
        tensors["scores"] = scores
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}


def _fill(training: Training, tensors: dict[str, Tensor]) -> Tensor | None:
    """Put stored tensors back to where `_tensors_of` took them from."""
    groups: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        group, _, rest = name.partition(".")
        groups.setdefault(group, {})[rest] = tensor
    training.model.load_state_dict(groups["model"])
    if training.ema is not None:
        training.ema.load_state_dict(groups["average"])
    parameters = dict(training.model.named_parameters())
    for name, tensor in groups.get("optimizer", {}).items():
        key, _, rest = name.partition(".")
        parameter = parameters[rest]
        home = tensor if key == "step" else tensor.to(parameter.device)   # AdamW counts its steps on the CPU
        training.optimizer.state[parameter][key] = home
    return tensors.get("scores")
