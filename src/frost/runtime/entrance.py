"""What may come in: a copy of one input as a model takes it, or a ValueError that says what is wrong with it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from frost.core.inputs import Inputs, Signature, as_inputs, leaves, mapped
from frost.core.precision import dtype_of
from frost.core.trajectory import IterativeModel


class Entrance:
    """Of a model whose inputs all look like this; any thread may ask."""

    def __init__(self, model: IterativeModel, signature: Signature) -> None:
        self.model, self.signature, self.dtype = model, signature, dtype_of(model)
        self.dtypes = [self.dtype if part.dtype.is_floating_point else part.dtype for part in signature.parts]

    @torch.inference_mode(mode=False)
    def __call__(self, inputs: Any) -> Inputs:
        """The input, fitted."""
        if not (self.model.zoo_config is not None and self.signature.is_met_by(inputs, self.dtype)):
            inputs = as_inputs(inputs)
            self.model.check(mapped(lambda part: part[None], inputs))    # a stem of the zoo looks at shapes only
        return self.signature.fitted(inputs, self.dtype)


class Packing(Entrance):
    """The same as the bytes of its tensors, for another process."""

    def __call__(self, inputs: Any) -> list[bytes]:
        """One for each part of the signature."""
        if self.model.zoo_config is not None and self.signature.is_met_by(inputs, self.dtype):
            values = inputs.numpy()    # by NumPy: torch takes three times as long for so little
            if math.isfinite(values.sum()):
                return [values.tobytes()]
        fitted = leaves(super().__call__(inputs))
        return [plain(part) for part in fitted]


def plain(tensor: Tensor) -> bytes:
    """The numbers of a tensor on the CPU, of any type."""
    if tensor.dtype == torch.bfloat16:    # which NumPy has not
        tensor = tensor.contiguous().view(torch.int16)
    return tensor.numpy().tobytes()
