"""Maps, tokens and vectors alike: pooling, normalising and mixing along the channel axis.

The channel axis is 1 for maps (b, c, h, w) and the last one for tokens (b, n, c) and vectors (b, c).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def pool(hidden: Tensor) -> Tensor:
    """The mean over all positions, as readout and score see a state: (b, …) → (b, c)."""
    if hidden.ndim == 4:
        return hidden.mean(dim=(2, 3))
    return hidden.mean(dim=1) if hidden.ndim == 3 else hidden


def channels_of(hidden: Tensor) -> int:
    """The size of the channel axis."""
    return hidden.shape[1] if hidden.ndim == 4 else hidden.shape[-1]


class ChannelMap(nn.Module):
    """A linear map of the channels, the same at every position: a 1×1 convolution or a token-wise linear layer."""

    def __init__(self, channels_in: int, channels_out: int, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels_out, channels_in))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        self.bias = nn.Parameter(torch.zeros(channels_out)) if bias else None

    def forward(self, hidden: Tensor) -> Tensor:
        """Mix channels, (b, c, …) → (b, c′, …)."""
        if hidden.ndim == 4:
            return F.conv2d(hidden, self.weight[:, :, None, None], self.bias)
        return F.linear(hidden, self.weight, self.bias)


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the channels of each position; per image, so that batch mates never matter."""

    def forward(self, hidden: Tensor) -> Tensor:
        """Normalise, keeping the shape."""
        if hidden.ndim == 4:
            return super().forward(hidden.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return super().forward(hidden)
