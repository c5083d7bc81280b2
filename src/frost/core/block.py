"""A block as a transition: called with its context, checked for what it gives back.

One check for FROST and every baseline, and one for the context that a stem brings.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from frost.core.inputs import Inputs, batch_of, described
from frost.core.layout import Layout, channel_axis, default_layout, positions_of

FAILURES = (RuntimeError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, AssertionError,
            NotImplementedError)    # what a module may raise about what it was given


class Branch(nn.Module):
    """A block without its skip connection: the A of (14) for a block that adds its own input."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, hidden: Tensor, **context: Tensor) -> Tensor:
        """A(h) = block(h) − h, so that (14) with λ = 1 and no input is the block itself."""
        moved: Tensor = self.block(hidden, **context)
        return moved - hidden


def branch(block: nn.Module) -> Branch:
    """Turn a block that adds its own input into an update direction A(h) = block(h) − h."""
    return Branch(block)


def changed(transition: nn.Module, hidden: Tensor, context: Mapping[str, Tensor]) -> Tensor:
    """A(h), checked: one tensor of the state's shape, and the state itself untouched."""
    version = version_of(hidden)
    change = called(transition, hidden, **context)
    check_change(transition, hidden, change)
    if version_of(hidden) != version:
        raise ValueError(f"transition must not change its input in place, as {type(transition).__name__} does; use "
                         "inplace=False, or h = h + f(h) instead of h += f(h).")
    return change


def called(module: nn.Module, state: Tensor, **context: Tensor) -> Any:
    """A block or head of the user's on a state; what it says about a state that does not fit becomes one sentence."""
    if torch.compiler.is_compiling():
        return module(state, **context)
    try:
        return module(state, **context)
    except (RuntimeError, TypeError) as error:
        if isinstance(error, torch.OutOfMemoryError) or "memory" in str(error).lower():
            raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        beside = f" and context {', '.join(context)}" if context else ""
        raise ValueError(f"{type(module).__name__} does not take a state of shape {tuple(state.shape)}{beside}: "
                         f"{reason}") from error


def check_change(transition: nn.Module, hidden: Tensor, change: object) -> None:
    """Refuse what is not one tensor of the state's shape."""
    if not isinstance(change, Tensor):
        raise ValueError(f"transition must return one tensor, but {type(transition).__name__} returns a "
                         f"{type(change).__name__}; wrap it in a module that picks the state.")
    if change.shape != hidden.shape:
        raise ValueError(shape_changed(transition, tuple(hidden.shape), tuple(change.shape)))


def features_of(stem: nn.Module, inputs: Inputs, channels: int, layout: Layout) -> tuple[Tensor, dict[str, Tensor]]:
    """x and the context that a stem gives, checked: a state with `channels`, and one row a sample everywhere."""
    count = batch_of(inputs)
    try:
        given = stem(inputs)
    except FAILURES as error:
        if isinstance(error, torch.OutOfMemoryError) or "memory" in str(error).lower():
            raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ValueError(f"the stem does not take {described(inputs)}: {reason}") from error
    x, context = _parted(given)
    x = default_layout(x)
    if x.ndim < 2 or x.shape[0] != count:
        raise ValueError(f"the stem must give a state with the batch of {count} in front and channels, got shape "
                         f"{tuple(x.shape)}.")
    axis = channel_axis(x.shape, channels, layout)
    for name, part in context.items():
        if part.ndim < 1 or part.shape[0] != count:
            raise ValueError(f"context '{name}' must have the batch of {count} in front, got shape "
                             f"{tuple(part.shape)}; expand it, so that it can follow its row.")
    if "mask" in context:
        check_mask(context["mask"], (count, *positions_of(x, axis)))
    return x, context


def check_mask(mask: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse a mask that is not bool, has another shape than the positions, or leaves a sample without any."""
    if mask.dtype != torch.bool or tuple(mask.shape) != shape:
        raise ValueError(f"the context 'mask' is true where a position counts and must be bool of shape {shape}, got "
                         f"{mask.dtype} of shape {tuple(mask.shape)}; use another name for masks of another kind.")
    if mask.device.type == "meta" or torch.compiler.is_compiling():
        return
    empty = ~mask.flatten(1).any(dim=1)
    if bool(empty.any()):
        raise ValueError(f"a mask must leave at least one position, but that of sample {int(empty.int().argmax())} has "
                         "no true element; leave empty samples out.")


def check_keeps_shape(transition: nn.Module, channels: int) -> None:
    """Refuse a transition that changes the shape of maps, tokens and vectors alike.

    A copy without data is tried on one state of each layout. A module that fits none of them is left to the first step,
    which checks the real state.
    """
    if not isinstance(transition, nn.Module):
        raise ValueError(f"transition must be a torch.nn.Module, got {type(transition).__name__}.")
    maps = ((1, channels, size, size) for size in (8, 14, 16, 32, 56))
    others = ((1, 16, channels), (1, channels), (1, channels, 24), (1, channels, 8, 8, 8))
    tried = {shape: _shape_after(transition, shape) for shape in (*maps, *others)}
    fitting = {before: after for before, after in tried.items() if after is not None}
    if fitting and not any(before == after for before, after in fitting.items()):
        raise ValueError(shape_changed(transition, *next(iter(fitting.items()))))


def _shape_after(transition: nn.Module, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that a state without data would get; None if the module does not take this layout."""
    try:
        with torch.no_grad(), warnings.catch_warnings(action="ignore"):
            twin = copy.deepcopy(transition).to("meta").eval()
            return tuple(twin(torch.empty(shape, device="meta")).shape)
    except FAILURES:
        return None


def shape_changed(transition: nn.Module, before: tuple[int, ...], after: tuple[int, ...]) -> str:
    """A sentence for a block that does not keep the shape."""
    return (f"transition must keep the state's shape, but {type(transition).__name__} maps {before} to {after}. "
            "Remove pooling and strides, pad convolutions, and give as many channels as it takes; "
            "use dilation to widen the receptive field (App. C).")


def _parted(given: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """x, or x and a dict of named context tensors."""
    if isinstance(given, Tensor):
        return given, {}
    if isinstance(given, (tuple, list)) and len(given) == 2 and isinstance(given[0], Tensor) and isinstance(
            given[1], Mapping) and all(isinstance(part, Tensor) for part in given[1].values()):
        return given[0], dict(given[1])
    raise ValueError(f"a stem must return x, or x and a dict of named tensors for the block, got a "
                     f"{type(given).__name__}.")


def version_of(tensor: Tensor) -> int | None:
    """How often a tensor was written to in place; None where PyTorch does not count."""
    return None if torch.compiler.is_compiling() or tensor.is_inference() else tensor._version
