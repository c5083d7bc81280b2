"""Values that depend on weights alone, computed once per set of weights.

With gradients on, a value is kept for one unrolling only, during which weights do not change. Without, a value is
renewed when a weight is replaced or changed in place; writing through `parameter.data` hides the change from PyTorch's
own version counter and so from us: write under `torch.no_grad()` instead, or call `model.eval()` again afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class FrozenCache:
    """The last value computed, and the weights that it was computed from."""

    def __init__(self) -> None:
        self._key: Hashable = None
        self._value: Tensor | None = None
        self._unrolling = False
        self._with_gradient: Tensor | None = None

    def get(self, weights: Iterable[Tensor], context: tuple[Hashable, ...], compute: Callable[[], Tensor]) -> Tensor:
        """The cached value if the weights and the context are those of last time; else compute, keep and return it."""
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            if not self._unrolling:
                return compute()
            if self._with_gradient is None:
                self._with_gradient = compute()
            return self._with_gradient
        tensors = list(weights)
        if any(tensor.is_inference() for tensor in tensors):
            return compute()    # inference tensors keep no version counter
        autocast = (torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) for kind in ("cpu", "cuda"))
        key = (context, *autocast,
               *((tensor.data_ptr(), tensor._version, tensor.device, tensor.dtype) for tensor in tensors))
        if self._value is None or key != self._key:
            with torch.inference_mode(False), torch.no_grad():
                self._key, self._value = key, compute()
        return self._value

    def clear(self) -> None:
        """Forget the value."""
        self._key, self._value = None, None

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenCache:
        return FrozenCache()

    def __reduce__(self) -> tuple[type[FrozenCache], tuple[()]]:
        return FrozenCache, ()


def _caches(module: nn.Module) -> list[FrozenCache]:
    return [value for part in module.modules() for value in vars(part).values() if isinstance(value, FrozenCache)]


def forget(module: nn.Module) -> None:
    """Clear every cache in a module and its children; called when weights move or the mode changes."""
    for cache in _caches(module):
        cache.clear()


@contextmanager
def one_unrolling(module: nn.Module) -> Iterator[None]:
    """While the block runs, compute what depends on weights alone once, gradients included."""
    caches = _caches(module)
    for cache in caches:
        cache._unrolling = True
    try:
        yield
    finally:
        for cache in caches:
            cache._unrolling, cache._with_gradient = False, None
