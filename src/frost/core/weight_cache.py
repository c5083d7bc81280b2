"""Values that depend on weights alone, computed once per set of weights.

Without gradients, a value is kept until a weight is replaced, moved or changed in place. Writing through
`parameter.data` hides the change from PyTorch's own version counter and so from us, and a plain attribute of a block is
no weight: write under `torch.no_grad()` instead, or call `model.eval()` again afterwards. With gradients, a value is
kept for one unrolling only, during which weights do not change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

_unrolling = threading.local()   # .values: what this thread has computed with gradients since its unrolling began
_optimizer_steps = 0             # that optimisers of this process took since a first value was kept


@cache
def _count_optimizer_steps() -> None:
    """Count them from now on.

    A fused optimiser changes weights and leaves PyTorch's version counter as it is. Any optimiser may hold a weight of
    ours, and comparing the weights themselves would cost as much as what is saved, so all optimisers are counted.
    """
    def count(*_: object) -> None:
        global _optimizer_steps
        _optimizer_steps += 1

    register_optimizer_step_post_hook(count)


class Kept(NamedTuple):
    """A value, and what it was computed from; held together, so that threads never see half of a change."""

    key: tuple[Hashable, ...]
    weights: list[Tensor]    # the tensors themselves: an address alone may be reused by others
    value: Tensor


class FrozenCache:
    """The last value computed, and the weights that it was computed from."""

    def __init__(self) -> None:
        self._kept: Kept | None = None

    def get(self, weights: Iterable[Tensor], context: tuple[Hashable, ...], compute: Callable[[], Tensor]) -> Tensor:
        """The kept value if the weights and the context are those of last time; else compute, keep and return it."""
        if torch.compiler.is_compiling():
            return compute()
        if torch.is_grad_enabled():
            values = getattr(_unrolling, "values", None)
            if values is None:
                return compute()
            if id(self) not in values:
                values[id(self)] = compute()
            return values[id(self)]
        tensors = list(weights)
        if any(tensor.is_inference() for tensor in tensors):
            return compute()    # inference tensors keep no version counter
        _count_optimizer_steps()
        autocast = (torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) for kind in ("cpu", "cuda"))
        key = (context, _optimizer_steps, *autocast,
               *((part.data_ptr(), part._version, part.device, part.dtype) for part in tensors))
        kept = self._kept
        if kept is None or kept.key != key or any(a is not b for a, b in zip(kept.weights, tensors, strict=True)):
            with torch.inference_mode(False), torch.no_grad():
                kept = self._kept = Kept(key, tensors, compute())
        return kept.value

    def clear(self) -> None:
        """Forget the value."""
        self._kept = None

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenCache:
        return FrozenCache()

    def __reduce__(self) -> tuple[type[FrozenCache], tuple[()]]:
        return FrozenCache, ()


def value_at_zero(cache: FrozenCache, module: nn.Module, like: Tensor,
                  call: Callable[[nn.Module, Tensor], Any] = lambda module, state: module(state)) -> Tensor:
    """module(0) for states of this shape: the same for every image, so computed for one and shared by the batch.

    With gradients it is computed anew, also for one image, whose gradient is then the sum over the batch; for all where
    the module may draw at random or look across the batch.
    """
    if torch.is_grad_enabled() or any(part.training for part in module.modules()):
        zero = call(module, like.new_zeros(1, *like.shape[1:]) if treats_images_alike(module) else like)
        return _shared(zero, like)
    zero = cache.get([*module.parameters(), *module.buffers()], (like.shape[1:], like.dtype, like.device),
                     lambda: call(module, like.new_zeros(1, *like.shape[1:])))
    return _shared(zero, like)


def _shared(zero: Tensor, like: Tensor) -> Tensor:
    # what is no tensor, or has another shape, goes back as it is: the caller knows the sentence for it
    return zero.expand_as(like) if isinstance(zero, Tensor) and zero.shape[1:] == like.shape[1:] else zero


def treats_images_alike(module: nn.Module) -> bool:
    """Whether equal images surely get equal values: only parts of PyTorch and of ours, none random or across the batch.

    A class of the user's own may do anything in its forward pass, so it is not counted on.
    """
    random = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd, nn.RReLU)
    return all(type(part).__module__.startswith(("torch.nn.modules.", "frost."))
               and not (isinstance(part, random) and part.training) for part in module.modules())


def forget(module: nn.Module) -> None:
    """Clear every cache in a module and its children; called when weights move or the mode changes."""
    for part in module.modules():
        for value in vars(part).values():
            if isinstance(value, FrozenCache):
                value.clear()


@contextmanager
def one_unrolling(apart: bool = False) -> Iterator[None]:
    """While the block runs, compute what depends on weights alone once, gradients included.

    Args:
        apart: share nothing with an unrolling around this one, for a part that will be run again by itself, as
            gradient checkpointing does.
    """
    outer = getattr(_unrolling, "values", None)
    _unrolling.values = {} if outer is None or apart else outer
    try:
        yield
    finally:
        _unrolling.values = outer
