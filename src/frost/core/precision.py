"""Where a model runs, and in which precision."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import Tensor, nn

Precision = Literal["float32", "bf16"]


def resolve_device(wish: Literal["auto", "cpu", "cuda"]) -> torch.device:
    """A GPU if there is one, unless the user says otherwise."""
    if wish == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is cuda, but torch sees no GPU here; set it to auto or cpu.")
    return torch.device("cuda" if wish != "cpu" and torch.cuda.is_available() else "cpu")


def resolve_precision(wish: Literal["auto", "float32", "bf16"], device: torch.device) -> Precision:
    """bf16 where the hardware multiplies it: emulated, it is far slower than float32."""
    if wish != "auto":
        return wish
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    return "bf16" if torch.cpu._is_avx512_bf16_supported() else "float32"


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Forward passes inside run in this precision; weights, optimizer and losses stay in float32."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()


def device_of(model: nn.Module) -> torch.device:
    """Where a model is."""
    return next(model.parameters()).device


def at_least_float32(values: Tensor) -> Tensor:
    """What losses and scores are computed in: half precisions go up, double stays."""
    return values.to(torch.promote_types(values.dtype, torch.float32))
