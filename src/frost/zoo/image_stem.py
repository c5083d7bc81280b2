"""What the zoo's stems take: images of a known number of channels and, often, of a known size."""

from __future__ import annotations

from torch import Tensor, nn


class ImageStem(nn.Module):
    """A stem that refuses what is no batch of images of the right shape, before anything is computed."""

    image_channels: int | None = None    # checked at the border if known
    image_size: int | None = None

    def check(self, images: Tensor) -> None:
        """Refuse other images with a sentence that says what to change."""
        check_images(images, self.image_channels, self.image_size)


class Standardise(nn.Module):
    """Images in [0, 1] to a mean near 0 and a deviation near 1."""

    def forward(self, images: Tensor) -> Tensor:
        """(image − ½) / ¼."""
        return (images - 0.5) * 4.0


class Standardised(nn.Sequential, ImageStem):
    """A stem behind `Standardise`."""

    def __init__(self, stem: nn.Module) -> None:
        super().__init__(Standardise(), stem)


def check_images(images: Tensor, channels: int | None, size: int | None) -> None:
    """Refuse what is no batch of images of the right shape, with a sentence that says what to change."""
    if not isinstance(images, Tensor):
        raise ValueError(f"images must be a tensor, got {type(images).__name__}; see torch.from_numpy.")
    if images.ndim != 4:
        raise ValueError(f"images must be a batch (b, channels, height, width), got shape {tuple(images.shape)}.")
    if not images.is_floating_point():
        raise ValueError(f"images must be floating point, got {images.dtype}; divide bytes by 255 first.")
    if channels is not None and images.shape[1] != channels:
        raise ValueError(f"the model takes images of {channels} channel(s), got {images.shape[1]}: "
                         f"shape {tuple(images.shape)}.")
    if size is not None and tuple(images.shape[2:]) != (size, size):
        raise ValueError(f"the model takes images of {size}×{size} pixels, got {tuple(images.shape[2:])}; resize them.")
