"""AdamW with warm-up and cosine, and who is exempt from weight decay.

λ, H, norms, biases, positions and tokens are not decayed: decay would pull log λ to 0, and so λ to 1 (decision 5).
"""

from __future__ import annotations

import math

import torch
from torch import nn

UNDECAYED = ("positions", "class_token")


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Matrices and kernels with decay, everything else without."""
    decayed: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        is_free = parameter.ndim < 2 or name.rpartition(".")[2] in UNDECAYED
        (free if is_free else decayed).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": free, "weight_decay": 0.0}]


def make_optimizer(model: nn.Module, learning_rate: float, weight_decay: float) -> torch.optim.AdamW:
    """AdamW over the two groups."""
    return torch.optim.AdamW(parameter_groups(model, weight_decay), lr=learning_rate)


def learning_rate_at(step: int, steps: int, warmup: int, peak: float) -> float:
    """Linear warm-up to `peak`, then a cosine that would reach 0 one step after the last; steps count from 1."""
    if step <= warmup:
        return peak * step / warmup
    progress = (step - warmup - 1) / (steps - warmup)
    return peak * 0.5 * (1 + math.cos(math.pi * progress))
