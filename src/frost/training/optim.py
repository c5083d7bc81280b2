"""How weights move: AdamW, or Muon for the kernels beside it, with warm-up and cosine; and the average of the weights.

λ, H, norms, biases, positions and tokens are not decayed: decay would pull log λ to 0, and so λ to 1 (decision 5).

The exponential moving average (EMA) generalises better than the last step's weights. Ours, not
`torch.optim.swa_utils.AveragedModel`: that one copies the weights at its first update, where we average from the
beginning, and keeps its model and its count under names of its own, which a checkpoint would have to translate.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from frost.core.trajectory import IterativeModel

UNDECAYED = ("positions", "class_token")
MUON_RATE = 30.0        # times the rate of AdamW: a move of each kernel relative to its own length
MUON_MOMENTUM = 0.6
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)    # of a polynomial that pulls singular values to 1 (Jordan et al., 2024)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Matrices and kernels with decay, everything else without."""
    decayed: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        is_free = parameter.ndim < 2 or name.rpartition(".")[2] in UNDECAYED
        (free if is_free else decayed).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": free, "weight_decay": 0.0}]


def make_optimizer(model: nn.Module, learning_rate: float, weight_decay: float,
                   kind: Literal["adamw", "muon"] = "adamw") -> torch.optim.AdamW:
    """AdamW over the two groups; with `muon`, all kernels of convolutions but the first are taken out of them."""
    groups = parameter_groups(model, weight_decay)
    if kind == "adamw":
        return torch.optim.AdamW(groups, lr=learning_rate)
    kernels = [parameter for parameter in model.parameters() if parameter.ndim == 4][1:]
    taken = {id(kernel) for kernel in kernels}
    for group in groups:
        group["params"] = [part for part in group["params"] if id(part) not in taken]    # type: ignore[attr-defined]
    return Muon([*groups, {"params": kernels, "is_muon": True, "weight_decay": 0.0}], lr=learning_rate)


class Muon(torch.optim.AdamW):
    """Muon for the groups marked `is_muon`, AdamW for all others (Jordan et al., 2024).

        M ← μ M + G,   W ← √out · W / ‖W‖ − η Q,   Q ≈ the nearest orthogonal matrix to G + μ M

    W is a kernel as a matrix (out, rest). Its length is set anew before each step, which is for kernels whose length
    does not matter: standardised ones, and those behind a normalisation. The rate η is `MUON_RATE` times AdamW's.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of both."""
        groups = self.param_groups
        for group in (group for group in groups if group.get("is_muon")):
            for kernel in (part for part in group["params"] if part.grad is not None):
                state = self.state[kernel]
                if not state:
                    state["momentum"] = torch.zeros_like(kernel)
                momentum = state["momentum"].mul_(MUON_MOMENTUM).add_(kernel.grad)
                towards = kernel.grad.add(momentum, alpha=MUON_MOMENTUM).flatten(1)
                kernel.mul_(len(kernel) ** 0.5 / kernel.norm().clamp_min(1e-12))
                kernel.sub_(orthogonalised(towards).view_as(kernel), alpha=MUON_RATE * group["lr"])
        self.param_groups = [group for group in groups if not group.get("is_muon")]
        try:
            return super().step(closure)
        finally:
            self.param_groups = groups


def orthogonalised(matrix: Tensor, steps: int = 5) -> Tensor:
    """About the nearest matrix with singular values of 1, by Newton–Schulz iterations; a zero matrix stays zero."""
    first, third, fifth = NEWTON_SCHULZ
    is_tall = matrix.shape[0] > matrix.shape[1]
    values = matrix.t() if is_tall else matrix
    values = values / values.norm().clamp_min(1e-12)
    for _ in range(steps):
        square = values @ values.t()
        values = first * values + (third * square + fifth * square @ square) @ values
    return values.t() if is_tall else values


def learning_rate_at(step: int, steps: int, warmup: int, peak: float) -> float:
    """Linear warm-up to `peak`, then a cosine that would reach 0 one step after the last; steps count from 1."""
    if step <= warmup:
        return peak * step / warmup
    progress = (step - warmup - 1) / (steps - warmup)
    return peak * 0.5 * (1 + math.cos(math.pi * progress))


def begin_ema(model: IterativeModel) -> IterativeModel:
    """A copy of the model to hold the averaged weights, frozen."""
    return copy.deepcopy(model).requires_grad_(False).eval()


@torch.no_grad()
def update_ema(ema: IterativeModel, model: IterativeModel, step: int, decay: float) -> None:
    """Move the average towards the model, after step 1, 2, …; counts that the model keeps are copied.

    a ← d a + (1 − d) w  with  d = min(decay, (1 + step) / (10 + step)),  so that early steps are soon forgotten.
    """
    share = 1 - min(decay, (1 + step) / (10 + step))
    theirs, ours = ema.state_dict(), model.state_dict()
    moving = [name for name, tensor in ours.items() if tensor.is_floating_point()]
    torch._foreach_lerp_([theirs[name] for name in moving], [ours[name] for name in moving], share)
    for name in ours.keys() - set(moving):
        theirs[name].copy_(ours[name])
