"""A dozen inputs inside the page, as exact values: from data that come with the package, drawn, or the user's own.

    input = value / divisor      values are bytes, so that a browser computes with the same numbers as Python
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from frost.checkpoint import Run
from frost.data.addition import sums
from frost.data.digits import load_digits
from frost.data.images import SUFFIXES, load_image
from frost.data.mazes import mazes
from frost.halting.stopping import StoppingRule, depth_under
from frost.page.pictures import pictures
from frost.zoo.registry import DIMENSIONS, ModelConfig

COUNT = 12
CANDIDATES = 240       # inputs among which those inside the page are spread by the steps that they take
MOST_OWN = 24
SEED = 20_261_118


class Example(NamedTuple):
    """One input: whole numbers, what they are divided by, and a name."""

    values: NDArray[np.int16]
    divisor: int
    name: str

    @property
    def inputs(self) -> Tensor:
        """What the model gets, without the batch."""
        return torch.from_numpy(self.values.astype(np.float32)) / self.divisor

    def to_json(self) -> dict[str, Any]:
        """Values as signed or unsigned bytes, in base64."""
        is_signed = bool((self.values < 0).any())
        content = self.values.astype(np.int8 if is_signed else np.uint8).tobytes()
        return {"name": self.name, "divisor": self.divisor, "is_signed": is_signed,
                "values": base64.b64encode(content).decode("ascii")}


def view_of(config: ModelConfig, data: str | None) -> str:
    """How inputs and answers are drawn: `picture`, `maze`, `sum`, or `cells`, which is any other problem."""
    if config.backbone not in DIMENSIONS:
        return "picture"
    return {"mazes": "maze", "addition": "sum"}.get(str(data), "cells")


def examples_of(run: Run, config: ModelConfig, view: str, rule: StoppingRule, own: Path | None) -> list[Example]:
    """The examples of a page: the user's own pictures if there is a folder of them."""
    if own is not None:
        if view != "picture":
            raise ValueError(f"--examples takes pictures, and {run.path} takes problems of shape "
                             f"{config.input_shape}; leave it out.")
        return own_pictures(own, config.image_size, config.image_channels)
    if view == "picture" and run.config.get("data") != "digits":
        return drawn_pictures(config.image_size, config.image_channels)
    return spread(run, candidates(config, view), rule)


def candidates(config: ModelConfig, view: str) -> list[Example]:
    """Inputs from data that come with the package; of unknown problems, inputs at random."""
    random = np.random.default_rng(SEED)
    if view == "picture":
        split = load_digits().test
        values, divisor = np.asarray(split.images[:CANDIDATES] * 16), 16
        names = [f"a {label}" for label in split.labels[:CANDIDATES].tolist()]
    elif view == "maze":
        values, divisor = mazes(CANDIDATES, config.image_size, random).images.numpy(), 1
        names = ["maze"] * CANDIDATES
    elif view == "sum":
        values, divisor = sums(CANDIDATES, config.image_size, random).images.numpy(), 1
        names = ["sum"] * CANDIDATES
    else:
        values, divisor = random.integers(0, 2, (COUNT, *config.input_shape)), 1
        names = ["at random"] * COUNT
    return [Example(np.round(value).astype(np.int16), divisor, name)
            for value, name in zip(values, names, strict=True)]


def spread(run: Run, found: list[Example], rule: StoppingRule) -> list[Example]:
    """Those that stand at even distances when all are put in the order of the steps that they take."""
    with torch.no_grad():
        trajectory = run.model(torch.stack([example.inputs for example in found]))
    depths = depth_under(rule, trajectory.outputs, trajectory.score_logits, trajectory.states, trajectory.mask)
    order = sorted(range(len(found)), key=lambda place: (int(depths[place]), found[place].name))
    return [found[order[place]] for place in np.linspace(0, len(found) - 1, COUNT).round().astype(int)]


def drawn_pictures(size: int, channels: int) -> list[Example]:
    """Simple pictures made by code, since pictures of data sets may not be given away."""
    found = []
    for name, picture in pictures(size):
        levels = picture if channels == 3 else (picture @ np.array([0.299, 0.587, 0.114])).round()[..., None]
        if channels not in (1, 3):
            levels = np.repeat(levels[..., :1], channels, axis=2)
        found.append(Example(np.ascontiguousarray(levels.transpose(2, 0, 1)).astype(np.int16), 255, name))
    return found


def own_pictures(folder: Path, size: int, channels: int) -> list[Example]:
    """The pictures of a folder, read as `frost predict` reads them."""
    if not folder.is_dir():
        raise ValueError(f"--examples takes a folder of pictures; {folder} is none.")
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
    if not 1 <= len(files) <= MOST_OWN:
        raise ValueError(f"{folder} holds {len(files)} pictures ({', '.join(SUFFIXES)}); a page takes 1 to "
                         f"{MOST_OWN}.")
    return [Example(load_image(file, size, channels).numpy().astype(np.int16), 255, file.stem) for file in files]
