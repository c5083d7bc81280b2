"""Values that depend on weights alone, computed once per set of weights.

Used only where no gradient is wanted. A value is renewed when a weight is replaced or changed in place; writing through
`parameter.data` hides the change from PyTorch's own version counter and so from us: call `model.train()` afterwards, or
assign through `torch.no_grad()`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import torch
from torch import Tensor, nn


class FrozenCache:
    """The last value computed, and the weights that it was computed from."""

    def __init__(self) -> None:
        self._key: Hashable = None
        self._value: Tensor | None = None

    def get(self, weights: Iterable[Tensor], context: tuple[Hashable, ...], compute: Callable[[], Tensor]) -> Tensor:
        """The cached value if the weights and the context are those of last time; else compute, keep and return it."""
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return compute()
        tensors = list(weights)
        if any(tensor.is_inference() for tensor in tensors):
            return compute()    # inference tensors keep no version counter
        autocast = {kind: torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) for kind in ("cpu", "cuda")}
        key = (context, *autocast.values(),
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

    def __getstate__(self) -> dict[str, Any]:
        return {"_key": None, "_value": None}


def forget(module: nn.Module) -> None:
    """Clear every cache in a module and its children; called when weights move or the mode changes."""
    for part in module.modules():
        for value in vars(part).values():
            if isinstance(value, FrozenCache):
                value.clear()
