"""A local rule as transition, for problems on a line or a grid with an answer at each position.

A step looks one or two cells around, so that what is far away takes many steps to matter: depth is distance.
Normalisation is that of each position, so that a model trained on small problems runs on larger ones.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from frost.core.layout import ChannelNorm
from frost.zoo.image_stem import ImageStem

CONVOLUTIONS: dict[int, type[nn.Conv1d] | type[nn.Conv2d]] = {1: nn.Conv1d, 2: nn.Conv2d}


class LocalBranch(nn.Sequential):
    """The branch A: normalise each position, then convolutions of width 3 with a ReLU between each two."""

    def __init__(self, channels: int, dimensions: int, layers: int) -> None:
        convolution = CONVOLUTIONS[dimensions]
        parts: list[nn.Module] = [ChannelNorm(channels, layout="maps")]
        for layer in range(layers):
            parts += [nn.ReLU()] if layer else []
            parts.append(convolution(channels, channels, 3, padding=1))
        super().__init__(*parts)


class LocalStem(ImageStem):
    """Problems (b, c, n) or (b, c, h, w) of any size → x with `channels`, by one convolution of width 3."""

    def __init__(self, image_channels: int, channels: int, dimensions: int) -> None:
        super().__init__()
        self.dimensions = dimensions
        self.layers = CONVOLUTIONS[dimensions](image_channels, channels, 3, padding=1)

    def check(self, images: Tensor) -> None:
        """Refuse what is no batch of such problems; their size is free."""
        size = ("length",) if self.dimensions == 1 else ("height", "width")
        if not isinstance(images, Tensor) or images.ndim != 2 + self.dimensions:
            came = f"shape {tuple(images.shape)}" if isinstance(images, Tensor) else type(images).__name__
            raise ValueError(f"problems must be a batch (b, channels, {', '.join(size)}), got {came}.")
        if not images.is_floating_point():
            raise ValueError(f"problems must be floating point, got {images.dtype}.")
        if self.image_channels is not None and images.shape[1] != self.image_channels:
            raise ValueError(f"the model takes problems of {self.image_channels} channel(s), got {images.shape[1]}: "
                             f"shape {tuple(images.shape)}.")

    def forward(self, images: Tensor) -> Tensor:
        """Problems → x, a state at each position."""
        return torch.relu(self.layers(images))
