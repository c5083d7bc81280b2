"""Contraction, error bound, Jacobian and distance to the fixed point (App. B; Eqs. 26–39, 41).

Every function takes a map of states, h → Φ(h), or tensors; none knows a model. Norms are Euclidean, over the
whole state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

StateMap = Callable[[Tensor], Tensor]


class WorstPair(NamedTuple):
    """Two states that a map pulls apart the most, of those that were found."""

    ratio: float     # ‖Φ(h) − Φ(h′)‖ ÷ ‖h − h′‖
    first: Tensor
    second: Tensor


def expansion(step: StateMap, first: Tensor, second: Tensor) -> Tensor:
    """‖Φ(h) − Φ(h′)‖ ÷ ‖h − h′‖, which a contraction keeps at or below L (26)–(29); one number per row of the batch."""
    return (step(first) - step(second)).flatten(1).norm(dim=1) / (first - second).flatten(1).norm(dim=1)


def worst_pair(step: StateMap, start: Tensor, *, ascents: int = 60, rate: float = 0.05) -> WorstPair:
    """Search by gradient ascent for two states that violate ‖Φ(h) − Φ(h′)‖ ≤ L ‖h − h′‖.

    Each row of `start` is one search, from a pair a small random step apart.
    """
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(start.shape, generator=generator, dtype=start.dtype)
    first = start.clone().requires_grad_()
    second = (start + 0.1 * noise * start.flatten(1).std()).detach().requires_grad_()
    optimizer = torch.optim.Adam([first, second], lr=rate)
    best = WorstPair(0.0, first.detach().clone(), second.detach().clone())
    for _ in range(ascents):
        with torch.enable_grad():
            ratios = expansion(step, first, second)
            optimizer.zero_grad()
            (-ratios.clamp_min(1e-12).log().sum()).backward()
        top = int(ratios.argmax())
        if ratios[top].item() > best.ratio:
            pair = (part[top : top + 1].detach().clone() for part in (first, second))
            best = WorstPair(ratios[top].item(), *pair)
        optimizer.step()
    return best


def error_bound(lipschitz: float, first_move: float, step: int) -> float:
    """How far h_t may still be from the fixed point; `first_move` is ‖h_1 − h_0‖.

        ‖h_t − h*‖ ≤ L^t / (1 − L) · ‖h_1 − h_0‖        (30), (35)
    """
    _check_contraction(lipschitz)
    return lipschitz**step / (1 - lipschitz) * first_move


def moves_bound(lipschitz: float, first_move: float, step: int, last: int) -> float:
    """How far h_m may be from h_t, m ≥ t: the finite sum on the way to (30).

        ‖h_m − h_t‖ ≤ Σ_{k=t}^{m−1} L^k ‖h_1 − h_0‖ = L^t Σ_{j=0}^{m−t−1} L^j ‖h_1 − h_0‖        (31)–(33)

    Its limit as m → ∞ is `error_bound` (34).
    """
    return lipschitz**step * sum(lipschitz**j for j in range(last - step)) * first_move


def remaining_travel(lipschitz: float, last_move: float, steps_left: int) -> float:
    """How far h_T may be from h_t, by the argument of (31)–(33) from the last move, ‖h_t − h_{t−1}‖.

        ‖h_T − h_t‖ ≤ L (1 − L^{T−t}) / (1 − L) · ‖h_t − h_{t−1}‖
    """
    _check_contraction(lipschitz)
    return lipschitz * (1 - lipschitz**steps_left) / (1 - lipschitz) * last_move


def _check_contraction(lipschitz: float) -> None:
    if not 0.0 <= lipschitz < 1.0:
        raise ValueError(f"the bound holds for a contraction, 0 ≤ L < 1, got L = {lipschitz}.")


def fixed_point(step: StateMap, start: Tensor, *, tolerance: float = 1e-12, most: int = 100_000) -> Tensor:
    """h* = Φ(h*), the limit in (41), by iteration; a map that does not converge is a ValueError."""
    hidden = start
    for _ in range(most):
        following = step(hidden)
        if (following - hidden).norm() <= tolerance:
            return following
        hidden = following
    raise ValueError(f"the map did not converge within {most} steps; is it a contraction?")


def jacobian_norm(step: StateMap, hidden: Tensor, *, iterations: int = 100) -> float:
    """‖∂Φ/∂h‖ at one state: the largest singular value, by power iteration on JᵀJ.

        ‖∂h_t / ∂h_0‖ ≤ Π_k ‖J_k‖ ≤ L^t        (36)–(39)
    """
    vector = torch.randn(hidden.shape, generator=torch.Generator().manual_seed(0), dtype=hidden.dtype)
    value = 0.0
    for _ in range(iterations):
        vector = vector / vector.norm()
        _, forward = torch.autograd.functional.jvp(step, hidden, vector, strict=False)
        value = forward.norm().item()
        _, vector = torch.autograd.functional.vjp(step, hidden, forward, strict=False)
        if vector.norm() == 0:
            return 0.0
    return value


def distances(states: Tensor, limit: Tensor) -> Tensor:
    """‖ε_t‖ = ‖h_t − h*‖ along a trajectory, (b, t, …), (b, …) → (b, t) (41)."""
    return (states - limit[:, None]).flatten(2).norm(dim=2)
