"""A vision transformer block as transition, and its stem (App. C).

The block is the ordinary one of ViT-B/16 (Dosovitskiy et al., 2021), pre-normalised, with a class token.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frost.zoo.image_stem import ImageStem

EXPANSION = 4    # width of the MLP ÷ channels


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        if channels % heads:
            raise ValueError(f"channels must be a multiple of heads, got {channels} and {heads}.")
        self.heads = heads
        self.inputs = nn.Linear(channels, 3 * channels)
        self.outputs = nn.Linear(channels, channels)

    def forward(self, tokens: Tensor) -> Tensor:
        """Mix positions, (b, n, c) → (b, n, c)."""
        split = self.inputs(tokens).unflatten(-1, (3, self.heads, -1))
        query, key, value = split.permute(2, 0, 3, 1, 4)              # (b, heads, n, c / heads) each
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.outputs(mixed.transpose(1, 2).flatten(2))


class VitBranch(nn.Module):
    """The branch A of a transformer block, block(h) − h.

        a = attention(norm(h)),   m = mlp(norm(h + a)),   block(h) = h + a + m,   A(h) = a + m
    """

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        width = EXPANSION * channels
        self.norm_attention = nn.LayerNorm(channels)
        self.attention = Attention(channels, heads)
        self.norm_mlp = nn.LayerNorm(channels)
        self.mlp = nn.Sequential(nn.Linear(channels, width), nn.GELU(), nn.Linear(width, channels))

    def forward(self, hidden: Tensor) -> Tensor:
        """A(h), (b, n, c) → (b, n, c)."""
        attended = self.attention(self.norm_attention(hidden))
        return attended + self.mlp(self.norm_mlp(hidden + attended))


class VitStem(ImageStem):
    """Images → patch tokens and a class token, with learned positions."""

    def __init__(self, image_channels: int, image_size: int, patch: int, channels: int) -> None:
        super().__init__()
        if image_size % patch:
            raise ValueError(f"image_size must be a multiple of patch, got {image_size} and {patch}.")
        self.patches = nn.Conv2d(image_channels, channels, patch, stride=patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, channels))
        self.positions = nn.Parameter(torch.empty(1, tokens_of(image_size, patch), channels))
        nn.init.trunc_normal_(self.positions, std=0.02)
        nn.init.trunc_normal_(self.class_token, std=0.02)

    def forward(self, images: Tensor) -> Tensor:
        """Images (b, 3, h, w) → x (b, n, c)."""
        patches = self.patches(images).flatten(2).transpose(1, 2)
        return torch.cat([self.class_token.expand(images.shape[0], -1, -1), patches], dim=1) + self.positions


def tokens_of(image_size: int, patch: int) -> int:
    """The number of tokens n, the class token included."""
    return (image_size // patch) ** 2 + 1
