"""Test images made harder, to see what stopping rules do when the data shift.

Each kind keeps the shape and the range [0, 1], and grows with its severity from 1 to 5. The same seed corrupts the same
batch the same way.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

SEVERITIES = (1, 2, 3, 4, 5)


def corrupted(images: Tensor, kind: str, severity: int, seed: int = 0) -> Tensor:
    """A batch (b, c, h, w) of images in [0, 1], corrupted."""
    if kind not in KINDS:
        raise ValueError(f"kinds of corruption are {', '.join(KINDS)}; got '{kind}'.")
    if severity not in SEVERITIES:
        raise ValueError(f"severity is a whole number from 1 to 5, got {severity}.")
    generator = torch.Generator().manual_seed(seed)
    return KINDS[kind](images, severity, generator).clamp(0.0, 1.0)


def _noise(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Gaussian noise with a deviation of 0.04 for each degree."""
    return images + 0.04 * severity * torch.randn(images.shape, generator=generator)


def _blur(images: Tensor, severity: int, _: torch.Generator) -> Tensor:
    """A Gaussian blur whose width is 2 % of the image's side for each degree."""
    width = 0.02 * severity * images.shape[-1]
    reach = max(1, int(3 * width + 0.5))
    offsets = torch.arange(-reach, reach + 1, dtype=images.dtype)
    kernel = torch.softmax(-(offsets**2) / (2 * width**2), dim=0)
    channels = images.shape[1]
    padded = F.pad(images, (reach,) * 4, mode="replicate")
    across = F.conv2d(padded, kernel.view(1, 1, 1, -1).expand(channels, 1, 1, -1), groups=channels)
    return F.conv2d(across, kernel.view(1, 1, -1, 1).expand(channels, 1, -1, 1), groups=channels)


def _contrast(images: Tensor, severity: int, _: torch.Generator) -> Tensor:
    """Nearer to the image's own mean, by 15 % for each degree."""
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    return mean + (1 - 0.15 * severity) * (images - mean)


def _hidden(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """A share of the pixels, 6 % for each degree, is grey."""
    is_hidden = torch.rand(images.shape[0], 1, *images.shape[2:], generator=generator) < 0.06 * severity
    return torch.where(is_hidden, torch.tensor(0.5, dtype=images.dtype), images)


KINDS: dict[str, Callable[[Tensor, int, torch.Generator], Tensor]] = {
    "noise": _noise, "blur": _blur, "contrast": _contrast, "hidden": _hidden}
