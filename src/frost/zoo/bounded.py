"""Transitions with a proven Lipschitz constant, for the rules `contractive` and `theorem` (App. B).

Convolutional ones stand in for the bottleneck, token ones for the transformer block. Attention has no global Lipschitz
constant, so positions are mixed by learned matrices of norm ≤ 1 instead.
"""

from __future__ import annotations

from frost.core.lipschitz import AolMap, Bounded, Chain, MaxMin, TokenMix

KAPPA = 0.9    # κ, the Lipschitz constant of g under the contractive rule


def contractive_conv(channels: int) -> Bounded:
    """g for maps: one 3×3 convolution of norm ≤ 1 and sorted pairs, times κ.

    Longer chains were worse: each map's norm lies below its bound, and what is lost multiplies.
    """
    return Chain(AolMap(channels, channels, kernel=3), MaxMin(), factor=KAPPA)


def contractive_tokens(channels: int, tokens: int, groups: int, width: int) -> Bounded:
    """g for tokens: positions mixed per group of channels, then a two-layer channel map, times κ."""
    return Chain(AolMap(channels, channels), TokenMix(tokens, groups), AolMap(channels, width), MaxMin(),
                 AolMap(width, channels), factor=KAPPA)


def theorem_conv(channels: int) -> Bounded:
    """Â for maps: one 3×3 convolution of norm ≤ 1."""
    return AolMap(channels, channels, kernel=3, bias=False)


def theorem_tokens(channels: int, tokens: int, groups: int) -> Bounded:
    """Â for tokens: a linear map of the channels after a linear mixing of the positions, both of norm ≤ 1."""
    return Chain(AolMap(channels, channels, bias=False), TokenMix(tokens, groups))
