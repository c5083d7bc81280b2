"""One refinement step h_t → h_{t+1}: the four update rules (§2.3, §3.2, §3.3, App. B, App. C).

    residual      the equations as printed, (14) with (15); the default
    gated         App. C: a sigmoid gate interpolates between h_t and the update
    contractive   the printed update with A = g − id, g a map of Lipschitz constant κ < 1: a true contraction
    theorem       the map of App. B, σ(λÂh + Bx + b) with ‖Â‖ ≤ 1: a contraction with L ≤ λ

`euler_step`, `interpolate`, `descend` and `refine_as_printed` are the paper's own steps on the way, written out; tests
compare the rules with them. A rule sees the value `change` of the transition at h_t, not the transition: at h_0 = 0
that value is the same for every image and may come from a cache. Paper choice: (14) and (15) cancel to
h + λA(h) + B_λ(x), so λ alone does not contract; App. B analyses another map and App. C describes a third, hence the
four names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from frost.core.layout import ChannelMap, Layout, at_each_position
from frost.core.scaling import Operator, Scale, scaled_linear_input


def euler_step(hidden: Tensor, x: Tensor, transition: Operator, input_map: Operator, length: float = 1.0) -> Tensor:
    """The exact flow of the induced dynamics over a time `length`; BasicSSM's step is the one of length 1.

        ḣ(τ) = F(h(t), x(t)) = A(h(t)) + B(x(t)),  τ ∈ [t, t+1)        (3), (6)
        h(t+1) = h(t) + A(h(t)) + B(x(t))                              (4), Lemma 2.1
    """
    return hidden + length * (transition(hidden) + input_map(x))


def interpolate(hidden: Tensor, field: Tensor, scale: Scale) -> Tensor:
    """The update as an interpolation between h_t and h_t + F(h_t, x_t); `field` is F.

    h_{t+1} = (1 − λ) h_t + λ (h_t + F(h_t, x_t))        (8)
    """
    return (1 - scale.value) * hidden + scale.value * (hidden + field)


def descend(hidden: Tensor, gradient: Tensor, scale: Scale) -> Tensor:
    """The update seen as a descent on a local energy; `gradient` is ∇E(h_t) = −F(h_t, x_t).

    h_{t+1} ≈ h_t − λ ∇E(h_t)        (7)
    """
    return hidden - scale.value * gradient


def refine_as_printed(hidden: Tensor, change: Tensor, drive: Tensor, scale: Scale) -> Tensor:
    """One step with every term of the paper; slow, obvious, the oracle for `refine`.

        h_{t+1} = (1 − λ) h_t + Δh_λ(h_t, x_t)                         (14)
        Δh_λ(h_t, x_t) = λ h_t + A_λ(h_t) + B_λ(x_t)                   (15)

    `change` is A(h_t) and `drive` is B_λ(x).
    """
    increment = scale.value * hidden + scale.value * change + drive
    return (1 - scale.value) * hidden + increment


def refine(hidden: Tensor, change: Tensor, drive: Tensor, scale: Scale) -> Tensor:
    """One step, simplified: the terms ±λ h_t of (14) and (15) cancel.

    h_{t+1} = h_t + λ A(h_t) + B_λ(x)        (14), (15)
    """
    moved = scale.value * change
    if moved.dtype == hidden.dtype == drive.dtype and moved.shape == hidden.shape == drive.shape:
        return moved.add_(hidden).add_(drive)    # the same bits, in memory that is at hand
    return hidden + moved + drive


class UpdateRule(nn.Module, ABC):
    """How a state, the transition's value, and the drive make the next state."""

    normalises: ClassVar[bool] = True          # whether the readout sees a normalised state
    contracts: ClassVar[bool] = False          # whether the transition must state a Lipschitz constant
    scale_form: ClassVar[Literal["exp", "sigmoid"]] = "exp"
    input_gain: ClassVar[float] = 1.0          # of B at the start; without normalisation B sets the size of the state

    @abstractmethod
    def forward(self, hidden: Tensor, change: Tensor, drive: Tensor, scale: Scale) -> Tensor:
        """h_t, the transition's value at h_t, and B_λ(x) → h_{t+1}."""

    def drive(self, input_map: Operator, x: Tensor, scale: Scale) -> Tensor:
        """The input's push, computed once per image: B_λ(x) = λ^{1+H} B(x) (13)."""
        return scaled_linear_input(input_map, x, scale)

    def lipschitz(self, transition_constant: float, scale: Scale) -> float | None:
        """L of the step h_t → h_{t+1}, given the transition's constant; None if the rule promises none."""
        return None


class Residual(UpdateRule):
    """h + λ A(h) + B_λ(x): the printed equations (14), (15)."""

    def forward(self, hidden: Tensor, change: Tensor, drive: Tensor, scale: Scale) -> Tensor:
        """See `refine`."""
        return refine(hidden, change, drive, scale)


class Gated(UpdateRule):
    """App. C on (14): a gate g = σ(W h + b) of a 1×1 map decides, channel by channel, how much is renewed.

        h′ = (1 − g) ⊙ h + g ⊙ (A_λ(h) + B_λ(x))

    Paper choice: the formula is not printed; this is what the text describes.
    """

    def __init__(self, channels: int, layout: Layout = "auto") -> None:
        super().__init__()
        self.gate = ChannelMap(channels, channels, bias=True, layout=layout)

    def forward(self, hidden: Tensor, change: Tensor, drive: Tensor, scale: Scale) -> Tensor:
        """Interpolate between h_t and the update, by the gate."""
        gate = torch.sigmoid(self.gate(hidden))
        return (1 - gate) * hidden + gate * (scale.value * change + drive)


class Contractive(UpdateRule):
    """The printed update (14), (15) with A = g − id, where the transition g has a Lipschitz constant κ < 1.

        h′ = (1 − λ) h + λ g(h) + B_λ(x),    L = (1 − λ) + λ κ < 1 for λ in (0, 1)
        h* = g(h*) + λ^H B(x)

    Here `change` is g(h). The readout sees the state itself, so that a bound on the state bounds the logits.
    """

    normalises = False
    contracts = True
    scale_form = "sigmoid"
    input_gain = 20.0

    def forward(self, hidden: Tensor, change: Tensor, drive: Tensor, scale: Scale) -> Tensor:
        """(14), (15) with A(h) = g(h) − h."""
        return refine(hidden, change - hidden, drive, scale)

    def lipschitz(self, transition_constant: float, scale: Scale) -> float:
        """L = |1 − λ| + λ κ, for any λ > 0."""
        value = scale.value.item()
        return abs(1 - value) + value * transition_constant


class Theorem(UpdateRule):
    """The map whose convergence App. B proves.

        h_{t+1} = Φ(h_t, x) = σ(A_λ h_t + B x + b),   A_λ = λ Â,  ‖Â‖ ≤ 1        (25)
        ‖Φ(h) − Φ(h′)‖ ≤ ‖A_λ‖ ‖h − h′‖ ≤ λ ‖h − h′‖                            (26)–(29)

    σ is ReLU. `change` is Âh; the drive is B(x), without λ, as printed.
    """

    normalises = False
    contracts = True
    scale_form = "sigmoid"
    input_gain = 20.0

    def __init__(self, channels: int, layout: Layout = "auto") -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))
        self.layout = layout

    def forward(self, hidden: Tensor, change: Tensor, drive: Tensor, scale: Scale) -> Tensor:
        """σ(λ Âh + B x + b) (25)."""
        return torch.relu(scale.value * change + drive + at_each_position(self.bias, hidden, self.layout))

    def drive(self, input_map: Operator, x: Tensor, scale: Scale) -> Tensor:
        """B x."""
        return input_map(x)

    def lipschitz(self, transition_constant: float, scale: Scale) -> float:
        """L = λ ‖Â‖, since ReLU is 1-Lipschitz (29)."""
        return scale.value.item() * transition_constant
