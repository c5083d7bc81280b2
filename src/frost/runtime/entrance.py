"""What may come in: a copy of one input as a model takes it, or a ValueError that says what is wrong with it."""

from __future__ import annotations

from typing import Any

import torch

from frost.core.inputs import Inputs, Signature, as_inputs, mapped
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
