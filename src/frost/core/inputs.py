"""What a model is given: a tensor of any rank, or a tuple or dict of tensors, the batch in front.

A signature is what one input must look like, so that a stream can be checked input by input and put into batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from frost.rowwise import flat_rows

Inputs = Any    # Tensor | tuple[Tensor, …] | dict[str, Tensor]


def leaves(inputs: Inputs) -> list[Tensor]:
    """The tensors of an input, in order."""
    if isinstance(inputs, Mapping):
        return [inputs[name] for name in sorted(inputs)]
    return list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]


def mapped(change: Callable[[Tensor], Tensor], inputs: Inputs) -> Inputs:
    """The same input with every tensor changed."""
    if isinstance(inputs, Mapping):
        return {name: change(inputs[name]) for name in sorted(inputs)}
    return tuple(change(part) for part in inputs) if isinstance(inputs, (tuple, list)) else change(inputs)


def as_inputs(value: Any) -> Inputs:
    """Tensors from tensors, arrays of any strides, or numbers, alone or in a tuple or dict."""
    if isinstance(value, Mapping):
        return {str(name): _as_tensor(value[name]) for name in sorted(value)}
    if isinstance(value, (tuple, list)) and any(isinstance(part, (Tensor, np.ndarray)) for part in value):
        return tuple(_as_tensor(part) for part in value)
    return _as_tensor(value)


def _as_tensor(value: Any) -> Tensor:
    if isinstance(value, np.ndarray) and any(stride < 0 for stride in value.strides):
        value = np.ascontiguousarray(value)    # PyTorch takes no negative strides
    return torch.as_tensor(value)


def batch_of(inputs: Inputs) -> int:
    """The number of rows; what is no batch is a ValueError."""
    parts = leaves(inputs)
    if not parts:
        raise ValueError("inputs must hold at least one tensor, got an empty tuple or dict.")
    for part in parts:
        if not isinstance(part, Tensor):
            raise ValueError(f"inputs must be a tensor, or a tuple or dict of tensors, got {type(part).__name__}; see "
                             "torch.from_numpy.")
        if part.ndim < 1:
            raise ValueError("inputs must have the batch in front, got a single number; add it with x[None].")
    count: int = parts[0].shape[0]    # not len(), which would make an exported graph's batch a constant
    if any(part.shape[0] != count for part in parts[1:]):
        raise ValueError(f"all tensors of a batch must have as many rows, got {sorted({len(part) for part in parts})}.")
    return count


def pair_of(item: Any) -> tuple[Inputs, Tensor]:
    """Inputs and targets of a batch that a loader gave; anything else is a ValueError."""
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        came = f"{len(item)} parts" if isinstance(item, (tuple, list)) else f"a {type(item).__name__}"
        raise ValueError(f"a loader must give pairs (inputs, targets), got {came}; several inputs go into a tuple or "
                         "dict of their own.")
    inputs, targets = as_inputs(item[0]), torch.as_tensor(item[1])
    if targets.ndim == 0:
        raise ValueError("a loader must give batches, and this one gives single samples; wrap a data set in "
                         "torch.utils.data.DataLoader(data, batch_size=64).")
    count = batch_of(inputs)
    if not count or targets.ndim < 1 or len(targets) != count:
        raise ValueError(f"a batch must have as many targets as inputs, at least one, got {count} inputs and targets "
                         f"of shape {tuple(targets.shape)}.")
    return inputs, targets


def row(inputs: Inputs, index: int) -> Inputs:
    """One input of a batch."""
    return mapped(lambda part: part[index], inputs)


def taken(inputs: Inputs, rows: Tensor | slice) -> Inputs:
    """Some rows of a batch."""
    return mapped(lambda part: part[rows], inputs)


def stacked(items: Sequence[Inputs], rows: int | None = None) -> Inputs:
    """A batch of single inputs; with `rows`, the last one is repeated until there are that many.

    Repeated, not filled with zeros: a mask of zeros would make an attention divide by zero.
    """
    count = len(items) if rows is None else rows
    lists = [leaves(item) for item in items]

    def batch(number: int) -> Tensor:
        first = lists[0][number]
        out = first.new_empty(count, *first.shape)
        torch.stack([parts[number] for parts in lists], out=out[:len(items)])
        out[len(items):] = lists[-1][number]
        return out

    numbers = iter(range(len(lists[0])))
    return mapped(lambda _: batch(next(numbers)), items[0])


def to_device(inputs: Inputs, device: torch.device, dtype: torch.dtype | None = None) -> Inputs:
    """The same input where a model is, floats in its precision if that is given."""
    return mapped(lambda part: part.to(device, dtype if part.is_floating_point() else None), inputs)


def check_finite(inputs: Inputs) -> None:
    """Refuse a batch that holds NaN or infinity."""
    for part in leaves(inputs):
        if part.device.type == "meta" or torch.compiler.is_compiling() or not part.is_floating_point():
            continue    # there are no values to look at, or none that could be bad
        if not bool(torch.isfinite(part).all()):
            bad = flat_rows(~torch.isfinite(part)).any(dim=1).nonzero().flatten().tolist()
            raise ValueError(f"inputs must be finite, but {len(bad)} of {len(part)} hold NaN or infinity "
                             f"(first: number {bad[0]}).")


class Part(NamedTuple):
    """What one tensor of an input must look like."""

    name: str              # its key or place; empty where the input is one tensor
    shape: tuple[int, ...]
    dtype: torch.dtype

    def __str__(self) -> str:
        where = f"'{self.name}' of " if self.name else ""
        return f"{where}shape {self.shape}"


class Signature(NamedTuple):
    """What one input must look like: its tensors, without the batch."""

    kind: str              # tensor, tuple or dict
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, example: Inputs) -> Signature:
        """That of one input, without the batch axis."""
        kind, names = _kind_of(example), _names_of(example)
        return cls(kind, tuple(Part(name, tuple(part.shape), part.dtype)
                               for name, part in zip(names, leaves(example), strict=True)))

    def is_met_by(self, value: Any, dtype: torch.dtype) -> bool:
        """Whether a value is one tensor of just this shape, in the model's precision: then nothing has to be asked."""
        return (type(value) is Tensor and self.kind == "tensor" and value.dtype == dtype
                and self.parts[0].dtype.is_floating_point and tuple(value.shape) == self.parts[0].shape)

    def fitted(self, value: Any, dtype: torch.dtype) -> Inputs:
        """An input of this signature, copied, floats in the model's precision; another one is a ValueError.

        A copy, because the caller may use the memory again while the input waits.
        """
        if self.is_met_by(value, dtype) and math.isfinite(float(value.sum())):    # a sum may overflow; then look closer
            copied: Tensor = value.detach().clone(memory_format=torch.contiguous_format)
            return copied
        inputs = as_inputs(value)
        if (_kind_of(inputs), _names_of(inputs)) != (self.kind, [part.name for part in self.parts]):
            raise ValueError(f"the model takes a {self.described()}; got {described(inputs)}{self._hint(inputs)}.")
        for part, tensor in zip(self.parts, leaves(inputs), strict=True):
            if tuple(tensor.shape) != part.shape:
                what = ("this is a batch, which predict takes; a stream is of single inputs" if
                        tuple(tensor.shape[1:]) == part.shape else
                        "resize or pad them, or make an engine with another example=")
                raise ValueError(f"the model takes inputs of {part}, got {tuple(tensor.shape)}; {what}.")
            if _family(tensor.dtype) != _family(part.dtype):
                raise ValueError(f"the model takes inputs of {part.dtype}, got {tensor.dtype}.")
            if not tensor.is_floating_point() and not torch.equal(tensor.to(part.dtype).to(tensor.dtype), tensor):
                raise ValueError(f"the model takes inputs of {part.dtype}, and this one holds numbers beyond it: "
                                 f"{tensor.min()} to {tensor.max()}.")
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                raise ValueError("the input holds NaN or infinity.")
        types = iter(dtype if part.dtype.is_floating_point else part.dtype for part in self.parts)
        return mapped(lambda tensor: tensor.detach().to(next(types), copy=True), inputs)

    def _hint(self, inputs: Inputs) -> str:
        """What a user may have meant by giving a pair to a model of one tensor."""
        parts = leaves(inputs)
        if self.kind != "tensor" or len(parts) != 2:
            return ""
        if tuple(parts[0].shape) == self.parts[0].shape:
            return " that looks like (input, target): leave the target out"
        is_second = tuple(parts[1].shape) == self.parts[0].shape
        return " that looks like (key, input): a key must not be a tensor, int(key) will do" if is_second else ""

    def described(self) -> str:
        """In a sentence: a tensor of shape (3, 32, 32)."""
        if self.kind == "tensor":
            return f"tensor of {self.parts[0]}"
        return f"{self.kind} of {' and '.join(map(str, self.parts))}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"kind": self.kind, "parts": [{"name": part.name, "shape": list(part.shape),
                                              "dtype": str(part.dtype).removeprefix("torch.")} for part in self.parts]}

    @classmethod
    def from_json(cls, values: Any) -> Signature | None:
        """What `to_json` wrote; None for anything else."""
        try:
            parts = tuple(Part(str(part["name"]), tuple(int(size) for size in part["shape"]), _dtype(part["dtype"]))
                          for part in values["parts"])
            return cls(str(values["kind"]), parts) if parts else None
        except (KeyError, TypeError, ValueError, AttributeError):
            return None

    def zeros(self, rows: int, device: torch.device | str = "cpu") -> Inputs:
        """A batch of this signature without meaning, for counting what a model does to it."""
        made = [torch.zeros(rows, *part.shape, dtype=part.dtype, device=device) for part in self.parts]
        if self.kind == "tensor":
            return made[0]
        return tuple(made) if self.kind == "tuple" else {
            part.name: tensor for part, tensor in zip(self.parts, made, strict=True)}


def described(inputs: Inputs) -> str:
    """What came, in a sentence."""
    return f"a {Signature.of(inputs).described()}"


def _family(dtype: torch.dtype) -> str:
    """Floats may stand for floats and whole numbers for whole numbers."""
    if dtype == torch.bool or dtype.is_complex:
        return str(dtype)
    return "float" if dtype.is_floating_point else "whole"


def _kind_of(inputs: Inputs) -> str:
    return "dict" if isinstance(inputs, Mapping) else "tuple" if isinstance(inputs, (tuple, list)) else "tensor"


def _names_of(inputs: Inputs) -> list[str]:
    if isinstance(inputs, Mapping):
        return sorted(map(str, inputs))
    return [str(number) for number in range(len(inputs))] if isinstance(inputs, (tuple, list)) else [""]


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{name} is no data type")
    return found
