"""Maps, tokens and vectors alike: pooling, normalising and mixing along the channel axis.

The channel axis is 1 for maps (b, c, h, w) and the last one for tokens (b, n, c) and vectors (b, c).
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LARGE = 2**16    # numbers in a map


def default_layout(images: Tensor) -> Tensor:
    """On CPU, images or maps with the strides of (b, c, h, w); copied only if theirs are those of channels-last.

    The backward pass of small convolutions in channels-last crashes torch 2.13 on CPU, and the strides of a grey image
    made with numpy's `[:, None]` count as channels-last.
    """
    if images.ndim == 4 and images.device.type == "cpu" and images.is_contiguous(memory_format=torch.channels_last):
        return images.clone(memory_format=torch.contiguous_format)
    return images


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


class _Tokens(torch.autograd.Function):
    """A map as tokens, (b, c, h, w) → (b, n, c), whose gradient comes back in the map's own layout.

    A plain permutation would hand the convolution before it a gradient in channels-last, which crashes its backward
    pass in torch 2.13 on CPU.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(hidden: Tensor) -> Tensor:
        return hidden.flatten(2).transpose(1, 2).contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.shape = inputs[0].shape

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.transpose(1, 2).contiguous().view(ctx.shape)


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the channels of each position; per image, so that batch mates never matter."""

    def __init__(self, channels: int, rectify: bool = False) -> None:
        super().__init__(channels)
        self.rectify = rectify    # only what is positive goes on, as at the end of a pre-activation ResNet

    def pooled(self, hidden: Tensor) -> Tensor:
        """pool(self(hidden)), a map by way of tokens: under a third of the time of the written-out form.

        Large maps are read one image after the other where no gradient is wanted: an image then stays in the
        processor's cache, and its bits do not depend on its company.
        """
        if hidden.ndim == 4 and hidden.device.type == "cpu" and not torch.is_grad_enabled() and (
                len(hidden) and hidden.shape[1] > 1 and hidden.shape[1:].numel() >= LARGE):
            with torch.autocast("cpu", enabled=False):
                return torch.stack([self._pooled_map(image) for image in hidden.flatten(2).to(self.weight.dtype)])
        if hidden.ndim == 4:
            hidden = _Tokens.apply(hidden)
        return pool(self(hidden))

    def _pooled_map(self, image: Tensor) -> Tensor:
        """The same of one map, (c, n) → (c,).

            pool(γ (h_p − μ_p) r_p + β) = γ (Σ_p r_p h_p − Σ_p μ_p r_p) / n + β,    r_p = 1/√(var_p + ε)

        To normalise each position over its channels is what batch normalisation does to a batch of c rows, whose
        kernels read the map as it lies in memory. Without a ReLU between, its statistics and one product with them are
        enough, and the normalised map is never written.
        """
        if self.rectify:
            normal = F.batch_norm(image, None, None, training=True, eps=self.eps)
            return torch.relu(normal * self.weight[:, None] + self.bias[:, None]).mean(dim=1)
        mean, variance = torch.ops.aten.batch_norm_update_stats(image, None, None, 0.0)
        factor = torch.rsqrt(variance + self.eps)
        return (torch.mv(image, factor) - torch.dot(mean, factor)) / image.shape[1] * self.weight + self.bias

    def forward(self, hidden: Tensor) -> Tensor:
        """Normalise, keeping the shape."""
        if hidden.ndim != 4:
            return self._rectified(super().forward(hidden))
        # Written out instead of permuting to channels-last and back: gradients in that layout crash the convolution's
        # backward pass in torch 2.13 on CPU.
        centred = hidden - hidden.mean(dim=1, keepdim=True)
        deviation = torch.rsqrt(centred.square().mean(dim=1, keepdim=True) + self.eps)
        return self._rectified(centred * deviation * self.weight[:, None, None] + self.bias[:, None, None])

    def _rectified(self, hidden: Tensor) -> Tensor:
        return torch.relu(hidden) if self.rectify else hidden


def normalised_pool(norm: nn.Module, hidden: Tensor) -> Tensor:
    """pool(norm(hidden)), which readout and score see, by the fast way where there is one: (b, …) → (b, c)."""
    return norm.pooled(hidden) if isinstance(norm, ChannelNorm) else pool(norm(hidden))
