"""A file of weights: refused before it is read where it is no run's, and put into a model that it fits.

Only sizes and shapes are believed, never a configuration: a small file cannot make a large model.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, load_model

from frost.core.trajectory import IterativeModel
from frost.zoo.registry import ModelConfig, build

LARGEST_HEADER = 4 * 2**20


def built_for(file: Path, config: ModelConfig) -> IterativeModel:
    """The model that a configuration describes, if it is as large as the weights stored; a forged size takes none."""
    check_header(file)
    try:
        with safe_open(file, framework="pt") as stored:
            names = list(stored.keys())
            if config.architecture == "vanilla" and config.depth > len(names):
                raise ValueError(f"{file} does not fit the model: {len(names)} tensors for {config.depth} blocks.")
            with torch.device("meta"):
                expected = {name: tuple(tensor.shape) for name, tensor in build(config).state_dict().items()}
            if len(names) > len(expected):
                raise ValueError(f"{file} does not fit the model: {len(names)} tensors, there {len(expected)}.")
            shapes = {name: tuple(stored.get_slice(name).get_shape()) for name in names}
    except SafetensorError as error:
        raise ValueError(f"{file} is no safetensors file ({error}).") from error
    for name in shapes.keys() & expected.keys():
        if shapes[name] != expected[name]:
            raise ValueError(f"{file} does not fit the model: {name} is {shapes[name]}, there {expected[name]}.")
    if not shapes.keys() & expected.keys():
        raise ValueError(f"{file} does not fit the model: none of its tensors is of this model.")
    return build(config)


def check_header(file: Path) -> None:
    """Refuse a list of tensors longer than any model's before it is parsed."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
    if length > LARGEST_HEADER:
        raise ValueError(f"{file} is no run's: its list of tensors is {length} bytes long.")


def load_weights(file: Path, model: IterativeModel) -> None:
    """Fill a model in the precision that was stored; a model that does not fit is left as it was."""
    try:
        stored = load_file(file)
        expected = {name: tensor.shape for name, tensor in model.state_dict().items()}
        for name, tensor in stored.items():
            if expected.get(name) != tensor.shape:
                ours = tuple(expected[name]) if name in expected else "not there"
                raise ValueError(f"{file} does not fit the model: {name} is {tuple(tensor.shape)}, there {ours}.")
        missing = sorted(expected.keys() - stored.keys() - _tied(model))
        if missing:
            raise ValueError(f"{file} does not fit the model: it has no {missing[0]}.")
        precisions = {tensor.dtype for tensor in stored.values() if tensor.is_floating_point()}
        if len(precisions) == 1:
            model.to(precisions.pop())
        load_model(model, str(file))
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(f"{file} does not fit the model: {' '.join(str(error).split())[:300]}") from error


def _tied(model: IterativeModel) -> set[str]:
    """Names of tensors that share another one's memory: stored once, under one of their names."""
    seen: dict[int, str] = {}
    shared: set[str] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) in seen:
            shared |= {name, seen[id(tensor)]}
        seen.setdefault(id(tensor), name)
    return shared
