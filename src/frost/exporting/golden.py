"""Golden inputs, and the answers that PyTorch gives for them: step by step, unfolded, no engine.

A package is checked against them when it is made, and wherever it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from frost.checkpoint import Run
from frost.config import from_dict
from frost.core.inputs import Inputs, Signature, leaves, stacked
from frost.core.trajectory import IterativeModel
from frost.data.addition import sums
from frost.data.digits import load_digits
from frost.data.filelist import Failure, asked_files
from frost.data.images import load_image
from frost.data.mazes import mazes
from frost.data.splits import as_float
from frost.halting.signals import along
from frost.halting.stopping import StoppingRule, depth_under
from frost.runtime.rules import Rules
from frost.zoo.registry import DIMENSIONS, ModelConfig

COUNT = 128
LEAST = 64          # example files are repeated, turned and mirrored, until there are so many
SEED = 20_261_119
GRAIN = 4           # sizes of squares in random inputs: 1, 2, 4, 8 numbers


class Golden(NamedTuple):
    """Inputs and answers; each row is an input."""

    inputs: dict[str, NDArray[np.generic]]    # by the names of the graph
    outputs: NDArray[np.float32]              # where the rule stops
    depths: NDArray[np.int64]
    values: NDArray[np.float32]               # of the signals at each step, (n, t, s)

    def save(self, file: Path) -> None:
        """As `golden.npz`."""
        arrays = {**self.inputs, "outputs": self.outputs, "depths": self.depths, "values": self.values}
        np.savez(file, allow_pickle=False, **arrays)


def golden_of(model: IterativeModel, rules: Rules, rule: StoppingRule, inputs: Inputs, names: Sequence[str]) -> Golden:
    """The answers for golden inputs, by running all steps and picking afterwards."""
    with torch.no_grad():
        trajectory = model(inputs, keep_states=rules.look_at_states or rule.signal.looks_at_states)
    states = trajectory.states
    depths = depth_under(rule, trajectory.outputs, trajectory.score_logits, states, trajectory.mask)
    values = [along(signal, trajectory.outputs, trajectory.score_logits, states, trajectory.mask)
              for signal in rules.signals]
    rows = torch.arange(len(depths))
    held = torch.stack(values, dim=2) if values else torch.zeros(len(depths), model.depth, 0)
    given = {name: np.ascontiguousarray(part.numpy()) for name, part in zip(names, leaves(inputs), strict=True)}
    return Golden(given, trajectory.outputs[rows, depths - 1].float().numpy(), depths.numpy().astype(np.int64),
                  held.float().numpy())


def inputs_of(run: Run, files: Sequence[Path] = ()) -> Inputs | None:
    """Golden inputs of a run: image files, else data that come with the package; None where there are neither."""
    config = from_dict(ModelConfig, run.config["model"], "model") if isinstance(run.config.get("model"), dict) else None
    is_picture = config is not None and config.backbone not in DIMENSIONS
    if files:
        if config is None or not is_picture:
            raise ValueError(f"--examples takes image files, and {run.path} does not; leave it out.")
        return _pictures(files, config)
    if config is None:
        return None
    random, data = np.random.default_rng(SEED), run.config.get("data")
    if data == "digits" and config.input_shape == (1, 8, 8):
        return load_digits().test.images[:COUNT]
    if data == "mazes":
        return mazes(COUNT, config.image_size, random).images
    return sums(COUNT, config.image_size, random).images if data == "addition" else None


def random_inputs(signature: Signature, example: Inputs | None) -> Inputs:
    """Inputs without a meaning: squares of random levels; whole numbers and masks are drawn from the example's."""
    random = np.random.default_rng(SEED)
    given = [None] * len(signature.parts) if example is None else leaves(example)
    made = [_random(tuple(part.shape), part.dtype, value, random)
            for part, value in zip(signature.parts, given, strict=True)]
    if signature.kind == "tensor":
        return made[0]
    return tuple(made) if signature.kind == "tuple" else {
        part.name: tensor for part, tensor in zip(signature.parts, made, strict=True)}


def _random(shape: tuple[int, ...], dtype: torch.dtype, example: Tensor | None, random: np.random.Generator) -> Tensor:
    if dtype.is_floating_point:
        rows = []
        for number in range(COUNT):
            level = random.random(shape, np.float32)
            for axis in range(max(0, len(shape) - 2), len(shape)):    # the last two: a picture's height and width
                size = 2 ** (number % GRAIN)
                level = np.repeat(level, size, axis=axis).take(np.arange(shape[axis]), axis=axis)
            rows.append(level)
        return torch.from_numpy(np.stack(rows)).to(dtype)
    if example is None:
        return torch.full((COUNT, *shape), dtype == torch.bool, dtype=dtype)    # zeros, or a mask that lets all through
    if dtype == torch.bool:
        return example[None].repeat(COUNT, *[1] * len(shape))    # a mask of another kind may mean nothing
    return torch.from_numpy(random.choice(example.flatten().numpy(), (COUNT, *shape))).to(dtype)


def _pictures(files: Sequence[Path], config: ModelConfig) -> Tensor:
    """Image files as inputs, with their mirror images and turns where they are few."""
    found = []
    for file in asked_files(files):
        if isinstance(file, Failure):
            raise ValueError(file.error)
        found.append(as_float(load_image(Path(file), config.image_size, config.image_channels)))
    pictures: Tensor = stacked(found[:COUNT])
    variants = [pictures]
    while sum(map(len, variants)) < LEAST:
        number = len(variants)
        turned = pictures.rot90(number // 2 % 4, (2, 3))
        darker = 1 - 0.1 * (number // 8)
        variants.append((turned.flip(3) if number % 2 else turned) * max(darker, 0.1))
    return torch.cat(variants)[:COUNT].contiguous()
