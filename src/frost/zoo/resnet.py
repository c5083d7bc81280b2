"""A residual bottleneck as transition, and its stem (App. C).

Paper choice: GroupNorm instead of the unstated normalisation, per image, so that shared weights see every depth alike;
normalisation before each convolution, so that block(h) − h is the branch itself and ends in a linear map.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frost.core.weight_cache import FrozenCache
from frost.zoo.image_stem import ImageStem


def group_norm(channels: int) -> nn.GroupNorm:
    """GroupNorm with as many groups as divide the channels, at most 32, of eight channels or more."""
    most = max(1, min(32, channels // 8))
    return nn.GroupNorm(next(groups for groups in range(most, 0, -1) if channels % groups == 0), channels)


class StandardConv2d(nn.Conv2d):
    """A convolution whose kernels have mean 0 and length `gain`, one gain for each of its outputs.

        w = gain (v − mean v) / ‖v − mean v‖

    Behind a ReLU all inputs are positive, so a kernel with a mean adds to every image the same amount, and GroupNorm,
    which cannot tell it from the image, shrinks what differs between images. BatchNorm would subtract it, but with the
    statistics of all steps at once. Standardised weights need no statistics.
    """

    def __init__(self, channels_in: int, channels_out: int, kernel: int, padding: int = 0, dilation: int = 1) -> None:
        super().__init__(channels_in, channels_out, kernel, padding=padding, dilation=dilation, bias=False)
        self.gain = nn.Parameter(torch.full((channels_out,), 3.0 ** -0.5))   # the size that PyTorch's start gives
        self._frozen = FrozenCache()

    def standard_weight(self) -> Tensor:
        """The kernels in use; computed once per unrolling, or once per set of weights without gradients."""
        return self._frozen.get([self.weight, self.gain], (), self._standardised)

    def _standardised(self) -> Tensor:
        centred = self.weight - self.weight.mean(dim=(1, 2, 3), keepdim=True)
        length = torch.rsqrt(centred.square().sum(dim=(1, 2, 3), keepdim=True) + 1e-4)
        return centred * (length * self.gain[:, None, None, None])

    def forward(self, hidden: Tensor) -> Tensor:
        """Convolve with the standardised kernels."""
        return F.conv2d(hidden, self.standard_weight(), None, self.stride, self.padding, self.dilation, self.groups)


class Bottleneck(nn.Sequential):
    """The branch A of a bottleneck block: 1×1 down, 3×3 (dilated), 1×1 up; keeps the shape."""

    def __init__(self, channels: int, bottleneck: int, dilation: int = 1, standardise_weights: bool = False) -> None:
        conv: Callable[..., nn.Module] = StandardConv2d if standardise_weights else partial(nn.Conv2d, bias=False)
        super().__init__(
            group_norm(channels), nn.ReLU(), conv(channels, bottleneck, 1),
            group_norm(bottleneck), nn.ReLU(), conv(bottleneck, bottleneck, 3, padding=dilation, dilation=dilation),
            group_norm(bottleneck), nn.ReLU(), conv(bottleneck, channels, 1),
        )


class Basic(nn.Sequential):
    """The branch A of a basic block: two 3×3 convolutions of full width (dilated); keeps the shape.

    At equal FLOPs it was ahead of the bottleneck on maps of 8 × 8 (docs/decisions.md): more of its weights look around.
    """

    def __init__(self, channels: int, dilation: int = 1, standardise_weights: bool = False) -> None:
        conv: Callable[..., nn.Module] = StandardConv2d if standardise_weights else partial(nn.Conv2d, bias=False)
        super().__init__(
            group_norm(channels), nn.ReLU(), conv(channels, channels, 3, padding=dilation, dilation=dilation),
            group_norm(channels), nn.ReLU(), conv(channels, channels, 3, padding=dilation, dilation=dilation))


def _conv_norm(channels_in: int, channels_out: int, kernel: int, stride: int = 1) -> tuple[nn.Module, nn.Module]:
    padding = kernel // 2 if kernel % 2 else 0
    return (nn.Conv2d(channels_in, channels_out, kernel, stride=stride, padding=padding, bias=False),
            nn.BatchNorm2d(channels_out))


class LightStem(nn.Sequential, ImageStem):
    """Images → a map of `channels` at a quarter of their size by two small convolutions, so that the steps do the work.

    BatchNorm, as in the deep stem: it runs once per image, so that no depth shares its statistics.
    """

    def __init__(self, image_channels: int, channels: int) -> None:
        width = max(16, channels // 8)
        super().__init__(
            nn.Conv2d(image_channels, width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, channels, 2, stride=2, bias=False), nn.BatchNorm2d(channels))


class ResNetStem(ImageStem):
    """Images → a map of `channels` at 1/stride of their size.

    Stride 4 is the ImageNet stem: 7×7 with stride 2, then a dilated convolution with padding instead of max-pooling.
    Paper choice: that convolution is depthwise, as pooling is. Strides 1 and 2 are a 3×3 convolution, for small images.
    A `deep` stem of stride 4 is for images of 32 pixels: a 3×3 convolution at full size and two at half size, then one
    of 2×2. It normalises by BatchNorm: it runs once per image, so that no depth shares its statistics, and with frozen
    weights an image's features do not depend on its batch.
    """

    def __init__(self, image_channels: int, channels: int, stride: int, deep: bool = False) -> None:
        super().__init__()
        if stride not in (1, 2, 4):
            raise ValueError(f"stride must be 1, 2 or 4 for a ResNet stem, got {stride}.")
        if deep and stride != 4:
            raise ValueError(f"a deep stem has stride 4, got {stride}.")
        if deep:
            width = max(16, 3 * channels // 8)
            self.layers = nn.Sequential(
                *_conv_norm(image_channels, width // 2, 3), nn.ReLU(),
                *_conv_norm(width // 2, width, 3, stride=2), nn.ReLU(),
                *_conv_norm(width, width, 3), nn.ReLU(), *_conv_norm(width, channels, 2, stride=2))
        elif stride == 4:
            width = max(8, channels // 4)
            self.layers = nn.Sequential(
                nn.Conv2d(image_channels, width, 7, stride=2, padding=3, bias=False), group_norm(width), nn.ReLU(),
                nn.Conv2d(width, width, 3, stride=2, padding=2, dilation=2, groups=width, bias=False),
                nn.Conv2d(width, channels, 1, bias=False), group_norm(channels))
        else:
            self.layers = nn.Sequential(
                nn.Conv2d(image_channels, channels, 3, stride=stride, padding=1, bias=False), group_norm(channels))

    def forward(self, images: Tensor) -> Tensor:
        """Images (b, 3, h, w) → x (b, c, h / stride, w / stride)."""
        return self.layers(images)
