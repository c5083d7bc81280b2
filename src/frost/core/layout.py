"""Maps, tokens and vectors alike: pooling, normalising and mixing along the channel axis.

The channel axis is 1 for maps of any dimension, (b, c, n), (b, c, h, w), (b, c, d, h, w), and the last one for tokens
(b, n, c) and vectors (b, c). A state of three axes may be either; the number of channels tells them apart, and where it
does not, the user says which it is.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frost.rowwise import row_linear, row_sum

LARGE = 2**16    # numbers in a map
Layout = Literal["auto", "maps", "tokens"]


def default_layout(images: Tensor) -> Tensor:
    """On CPU, images or maps with the strides of (b, c, h, w); copied only if theirs are those of channels-last.

    The backward pass of small convolutions in channels-last crashes torch 2.13 on CPU, and the strides of a grey image
    made with numpy's `[:, None]` count as channels-last.
    """
    if images.ndim == 4 and images.device.type == "cpu" and images.is_contiguous(memory_format=torch.channels_last):
        return images.clone(memory_format=torch.contiguous_format)
    return images


def channel_axis(shape: torch.Size | tuple[int, ...], channels: int, layout: Layout = "auto") -> int:
    """Where the channels of a state are, 1 or −1; a state that has none is a ValueError."""
    if layout not in get_args(Layout):
        raise ValueError(f"layout is one of {', '.join(get_args(Layout))}; got '{layout}'.")
    first, last = shape[1] == channels, shape[-1] == channels
    if len(shape) == 2 or layout == "tokens":
        axis, fits = -1, last
    elif layout == "maps" or len(shape) > 3:
        axis, fits = 1, first
    else:
        if first and last:
            raise ValueError(f"a state of shape {tuple(shape)} may be tokens (b, n, c) or a map (b, c, n): both axes "
                             f"have {channels}; say which with layout='tokens' or layout='maps'.")
        axis, fits = (1, True) if first else (-1, last)
    if not fits:
        raise ValueError(f"the stem must give {channels} channels, got shape {tuple(shape)}; tokens are (b, n, c), "
                         "maps (b, c, h, w), vectors (b, c).")
    return axis


def at_each_position(vector: Tensor, hidden: Tensor, layout: Layout = "auto") -> Tensor:
    """A number for each channel, (c,), in a shape that broadcasts over the positions of a state."""
    is_map = hidden.ndim > 2 and channel_axis(hidden.shape, len(vector), layout) == 1
    return vector[(..., *[None] * (hidden.ndim - 2))] if is_map else vector


def positions_of(hidden: Tensor, axis: int) -> torch.Size:
    """The axes between batch and channels: (n,) of tokens, (h, w) of a map, () of a vector."""
    return hidden.shape[2:] if axis == 1 else hidden.shape[1:-1]


def channels_last(hidden: Tensor, axis: int) -> Tensor:
    """(b, c, …) → (b, …, c); tokens and vectors as they are."""
    return hidden.movedim(1, -1) if axis == 1 and hidden.ndim > 2 else hidden


def pool(hidden: Tensor, axis: int, mask: Tensor | None = None) -> Tensor:
    """The mean over all positions that count, as readout and score see a state: (b, …) → (b, c).

    Args:
        mask: bool (b, …), true where a position counts; None counts all.
    """
    if hidden.ndim == 2:
        return hidden
    if mask is None and axis == 1 and torch.compiler.is_exporting():
        return row_sum(hidden.flatten(2)) / hidden.shape[2:].numel()
    if mask is None:
        return hidden.mean(dim=tuple(range(2, hidden.ndim)) if axis == 1 else tuple(range(1, hidden.ndim - 1)))
    rows = channels_last(hidden, axis).flatten(1, -2)                              # (b, n, c)
    counts = mask.flatten(1)[:, :, None]                                           # (b, n, 1)
    return rows.masked_fill(~counts, 0.0).sum(dim=1) / counts.sum(dim=1).clamp_min(1)


class ChannelMap(nn.Module):
    """A linear map of the channels, the same at every position: a 1×1 convolution or a token-wise linear layer."""

    def __init__(self, channels_in: int, channels_out: int, bias: bool = False, layout: Layout = "auto") -> None:
        super().__init__()
        self.layout = layout
        self.weight = nn.Parameter(torch.empty(channels_out, channels_in))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        self.bias = nn.Parameter(torch.zeros(channels_out)) if bias else None

    def forward(self, hidden: Tensor) -> Tensor:
        """Mix channels, (b, c, …) → (b, c′, …)."""
        if channel_axis(hidden.shape, self.weight.shape[1], self.layout) == 1 and hidden.ndim > 2:
            convolve = (F.conv1d, F.conv2d, F.conv3d)[hidden.ndim - 3]
            return convolve(hidden, self.weight[(..., *[None] * (hidden.ndim - 2))], self.bias)
        return row_linear(hidden, self.weight, self.bias)


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

    def __init__(self, channels: int, rectify: bool = False, layout: Layout = "auto") -> None:
        super().__init__(channels)
        self.rectify = rectify    # only what is positive goes on, as at the end of a pre-activation ResNet
        self.layout = layout

    def pooled(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        """pool(self(hidden)), a map by way of tokens: under a third of the time of the written-out form.

        Large maps are read one image after the other where no gradient is wanted: an image then stays in the
        processor's cache, and its bits do not depend on the rest of the batch.
        """
        axis = self.axis_of(hidden)
        if axis == 1 and mask is None and hidden.device.type == "cpu" and not torch.is_grad_enabled() and (
                hidden.shape[1] > 1 and hidden.shape[1:].numel() >= LARGE) and not torch.compiler.is_compiling() and (
                len(hidden)):
            with torch.autocast("cpu", enabled=False):
                return torch.stack([self._pooled_map(image) for image in hidden.flatten(2).to(self.weight.dtype)])
        return pool(self.by_position(hidden), -1, mask)

    def by_position(self, hidden: Tensor) -> Tensor:
        """The normalised state with the channels last, its positions in one row: (b, n, c), or (b, c) of a vector."""
        if self.axis_of(hidden) == 1:
            return self._rectified(super().forward(_Tokens.apply(hidden)))
        return self._rectified(super().forward(hidden if hidden.ndim < 4 else hidden.flatten(1, -2)))

    def axis_of(self, hidden: Tensor) -> int:
        """Where the channels are; a vector has them last."""
        return channel_axis(hidden.shape, self.normalized_shape[0], self.layout)

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
        if self.axis_of(hidden) == -1:
            return self._rectified(super().forward(hidden))
        # Written out instead of permuting to channels-last and back: gradients in that layout crash the convolution's
        # backward pass in torch 2.13 on CPU.
        centred = hidden - hidden.mean(dim=1, keepdim=True)
        deviation = torch.rsqrt(centred.square().mean(dim=1, keepdim=True) + self.eps)
        weight, bias = (at_each_position(part, hidden, "maps") for part in (self.weight, self.bias))
        return self._rectified(centred * deviation * weight + bias)

    def _rectified(self, hidden: Tensor) -> Tensor:
        return torch.relu(hidden) if self.rectify else hidden


def normalised_pool(norm: nn.Module, hidden: Tensor, axis: int, mask: Tensor | None = None) -> Tensor:
    """pool(norm(hidden)), which readout and score see, by the fast way where there is one: (b, …) → (b, c)."""
    return norm.pooled(hidden, mask) if isinstance(norm, ChannelNorm) else pool(norm(hidden), axis, mask)


def normalised_positions(norm: nn.Module, hidden: Tensor, axis: int) -> Tensor:
    """norm(hidden) with the channels last and all positions in one row: (b, …) → (b, n, c)."""
    if isinstance(norm, ChannelNorm):
        return norm.by_position(hidden)
    return channels_last(norm(hidden), axis).flatten(1, -2)
