"""λ, H, and the scaled operators A_λ, B_λ, C_λ, D_λ (§3.3, Eqs. 9–13, 16, 17).

The operators and processes are stated here for any A, B, C, D, as the paper derives them. The model itself takes the
short forms that hold for linear B and D, B_λ(x) = λ^{1+H} B(x) and D_λ(x) = D(x); the general ones are what tests
compare them with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LARGEST_LOG = math.log1p(-(2.0**-20))   # the sigmoid form stays below 1 where float32 would round it up
Operator = Callable[[Tensor], Tensor]


class Scale(nn.Module):
    """λ > 0, the resolution, and H, the self-similarity exponent.

    `exp` is the paper's λ = exp(log λ), free to pass 1; `sigmoid` keeps λ in (0, 1), for rules that must contract.
    H is fixed unless `learn_hurst`; a learned H is free, the range is checked for its start only (§6.2).
    """

    def __init__(self, init: float, hurst: float, *, form: Literal["exp", "sigmoid"] = "exp",
                 learn_hurst: bool = False) -> None:
        super().__init__()
        self.form = form
        start = math.log(init) if form == "exp" else math.log(init / (1.0 - init))
        self.raw = nn.Parameter(torch.tensor(start))   # log λ, or logit λ
        if learn_hurst:
            self.hurst = nn.Parameter(torch.tensor(float(hurst)))
        else:
            self.register_buffer("hurst", torch.tensor(float(hurst)))

    @property
    def log_value(self) -> Tensor:
        """The logarithm of λ, which (13) raises to powers."""
        return self.raw if self.form == "exp" else F.logsigmoid(self.raw).clamp_max(LARGEST_LOG)

    @property
    def value(self) -> Tensor:
        """λ itself."""
        return self.power(1)

    def power(self, exponent: float | Tensor) -> Tensor:
        """λ^exponent, as (9), (13) and (17) need it."""
        # exp(p · log λ) stays positive for any p, and its gradient never divides by λ.
        return torch.exp(exponent * self.log_value)


def scaled_input_process(x: Operator, scale: Scale) -> Operator:
    """x_λ(t) = λ^{−H} x(λt); the output process y_λ has the same form (9)."""
    return lambda time: scale.power(-scale.hurst) * x(scale.value * time)


def scaled_state_process(hidden: Operator, scale: Scale) -> Operator:
    """h_λ(t) = h(λt) (10), whose velocity is λ F(h(λt), x(λt)) (11)."""
    return lambda time: hidden(scale.value * time)


def scaled_transition(transition: Operator, hidden: Tensor, scale: Scale) -> Tensor:
    """A_λ(h) = λ A(h), so that the scaled system keeps its form: ḣ_λ = A_λ(h_λ) + B_λ(x_λ) (12), (13)."""
    return scale.value * transition(hidden)


def scaled_input(input_map: Operator, x: Tensor, scale: Scale) -> Tensor:
    """B_λ(x) = λ B(λ^H x) for any B (13)."""
    return scale.value * input_map(scale.power(scale.hurst) * x)


def scaled_linear_input(input_map: Operator, x: Tensor, scale: Scale) -> Tensor:
    """B_λ(x) = λ^{1+H} B(x), the short form of (13) for linear B."""
    return scale.power(1 + scale.hurst) * input_map(x)


def scaled_readout(readout: Operator, hidden: Tensor, scale: Scale) -> Tensor:
    """C_λ(h) = λ^{−H} C(h) (17)."""
    return scale.power(-scale.hurst) * readout(hidden)


def scaled_feedthrough(feedthrough: Operator, x: Tensor, scale: Scale) -> Tensor:
    """D_λ(x) = λ^{−H} D(λ^H x) for any D; equals D(x) for a linear D (17)."""
    return scale.power(-scale.hurst) * feedthrough(scale.power(scale.hurst) * x)
