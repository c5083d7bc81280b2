"""Maps with a Lipschitz constant that holds by construction (App. B), for the rules that must contract.

Each linear or convolutional map is rescaled by its almost-orthogonal (AOL) factors, a closed form: with
d_j = Σ_i |WᵀW|_{ij}, the map W diag(d)^{−1/2} has a spectral norm of at most 1. Prach, Lampert: Almost-Orthogonal
Layers (2022). No power iteration, hence nothing that may not have converged. A bound holds up to the rounding of the
precision that the map runs in.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frost.core.weight_cache import FrozenCache


class Bounded(nn.Module, ABC):
    """A module that knows a constant K with ‖f(u) − f(v)‖ ≤ K ‖u − v‖ for all u, v."""

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """K."""


def full_precision(weight: Tensor) -> AbstractContextManager[object]:
    """Autocast off: a bound needs the weights' own precision."""
    return nullcontext() if weight.is_meta else torch.autocast(weight.device.type, enabled=False)


def aol_linear(weight: Tensor) -> Tensor:
    """Rescale a matrix (out, in) so that its spectral norm is at most 1; a zero column stays zero."""
    column = (weight.t() @ weight).abs().sum(dim=0)
    return weight * torch.rsqrt(column + torch.finfo(weight.dtype).tiny)


def aol_conv(weight: Tensor) -> Tensor:
    """Rescale a kernel (out, in, h, w) so that its convolution has an operator norm of at most 1.

    d_j = Σ_i Σ_s |Σ_o (K_{o,i} ⋆ K_{o,j})(s)|, over all shifts s. Zero padding and dilation only restrict or spread the
    same map and do not raise the norm.
    """
    height, width = weight.shape[2:]
    kernels = weight.transpose(0, 1)                                            # (in, out, h, w)
    correlation = F.conv2d(kernels, kernels, padding=(height - 1, width - 1))   # (in, in, 2h − 1, 2w − 1)
    column = correlation.abs().sum(dim=(1, 2, 3))
    return weight * torch.rsqrt(column + torch.finfo(weight.dtype).tiny)[None, :, None, None]


class AolMap(Bounded):
    """A linear map of norm ≤ 1 along the channels (tokens, vectors) or a k×k convolution of norm ≤ 1 (maps)."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int | None = None, bias: bool = True) -> None:
        super().__init__()
        shape = (channels_out, channels_in) if kernel is None else (channels_out, channels_in, kernel, kernel)
        self.weight = nn.Parameter(torch.empty(shape))
        with torch.no_grad():   # all weight in the middle: there the AOL factors of a kernel are tight from the start
            self.weight.normal_(std=0.02)
            middle = self.weight if kernel is None else self.weight[:, :, kernel // 2, kernel // 2]
            middle.add_(nn.init.orthogonal_(torch.empty(channels_out, channels_in)))
        self.bias = nn.Parameter(torch.zeros(channels_out)) if bias else None
        self._frozen = FrozenCache()

    @property
    def lipschitz(self) -> float:
        """1, by the AOL factors."""
        return 1.0

    def bounded_weight(self) -> Tensor:
        """The rescaled weight; computed once per set of weights while no gradient is needed."""
        rescale = aol_linear if self.weight.ndim == 2 else aol_conv
        with full_precision(self.weight):
            return self._frozen.get([self.weight], (), lambda: rescale(self.weight))

    def forward(self, hidden: Tensor) -> Tensor:
        """Apply the rescaled map; zero padding keeps the size of a map."""
        weight = self.bounded_weight()
        if weight.ndim == 2:
            return F.linear(hidden, weight, self.bias)
        return F.conv2d(hidden, weight, self.bias, padding=weight.shape[-1] // 2)


class TokenMix(Bounded):
    """A learned mixing of the positions of norm ≤ 1, the same for every channel of a group: (b, n, c) → (b, n, c)."""

    def __init__(self, tokens: int, groups: int = 1) -> None:
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.empty(groups, tokens, tokens))
        for matrix in self.weight.data:
            nn.init.orthogonal_(matrix)
        self._frozen = FrozenCache()

    @property
    def lipschitz(self) -> float:
        """1: each group is mixed by a matrix of norm ≤ 1."""
        return 1.0

    def bounded_weight(self) -> Tensor:
        """The rescaled matrices, (g, n, n)."""
        with full_precision(self.weight):
            return self._frozen.get([self.weight], (), lambda: torch.stack([aol_linear(w) for w in self.weight]))

    def forward(self, hidden: Tensor) -> Tensor:
        """Mix positions within each group of channels."""
        parts = hidden.unflatten(-1, (self.groups, -1))                              # (b, n, g, c/g)
        return torch.einsum("gmn,bngc->bmgc", self.bounded_weight(), parts).flatten(-2)


class MaxMin(Bounded):
    """Sort each pair of channels: 1-Lipschitz, and unlike ReLU it loses no gradient norm."""

    @property
    def lipschitz(self) -> float:
        """1: sorting is a permutation."""
        return 1.0

    def forward(self, hidden: Tensor) -> Tensor:
        """(a, b) → (max(a, b), min(a, b)) for the first and second half of the channels."""
        axis = 1 if hidden.ndim == 4 else -1
        if hidden.shape[axis] % 2:
            raise ValueError(f"MaxMin sorts pairs of channels and needs an even number, got {hidden.shape[axis]}.")
        first, second = hidden.chunk(2, dim=axis)
        return torch.cat([torch.maximum(first, second), torch.minimum(first, second)], dim=axis)


class Chain(Bounded):
    """κ times a composition of bounded maps; its constant is κ times the product of theirs."""

    def __init__(self, *parts: Bounded, factor: float = 1.0) -> None:
        super().__init__()
        if not math.isfinite(factor):
            raise ValueError(f"factor must be finite, got {factor}.")
        for part in parts:
            if not isinstance(part, Bounded):
                raise ValueError(f"every part of a Chain must be Bounded, {type(part).__name__} states no constant.")
        self.parts = nn.Sequential(*parts)
        self.factor = factor

    @property
    def lipschitz(self) -> float:
        """|κ| Π K_i."""
        return abs(self.factor) * math.prod(part.lipschitz for part in self.parts if isinstance(part, Bounded))

    def forward(self, hidden: Tensor) -> Tensor:
        """κ · f_n(…f_1(h))."""
        return self.factor * self.parts(hidden)
