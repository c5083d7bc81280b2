"""Random shifts of a batch of images, drawn from a generator of their own."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def random_shift(images: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """Move each image by up to `most` pixels either way, zeros coming in, (b, c, h, w) → the same."""
    if most == 0:
        return images
    batch, _, height, width = images.shape
    padded = F.pad(images, (most, most, most, most))
    offsets = torch.randint(0, 2 * most + 1, (2, batch), generator=generator)
    rows = offsets[0][:, None] + torch.arange(height)        # (b, h)
    columns = offsets[1][:, None] + torch.arange(width)      # (b, w)
    batches = torch.arange(batch)[:, None, None]
    moved = padded.permute(0, 2, 3, 1)[batches, rows[:, :, None], columns[:, None, :]]     # (b, h, w, c)
    return moved.permute(0, 3, 1, 2).contiguous()
