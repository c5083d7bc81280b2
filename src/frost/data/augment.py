"""Augmentation, a batch at a time, on the device where the images are.

Everything is drawn from generators that the caller seeds, so that a batch is augmented the same way whenever and
wherever it is drawn again. RandAugment and random erasing come from kornia (extra `train`).
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from frost.config import check_fields, setting

Mixing = Literal["none", "mixup", "cutmix"]
MAGNITUDE = 9       # strength of RandAugment's operations, of 30
MIXED_SHARE = 0.5   # of the batches, where images are mixed


@dataclass(frozen=True, slots=True, kw_only=True)
class Augmentation:
    """What is done to training images."""

    shift: int = setting(0, "pixels an image may be moved by, either way, zeros coming in", least=0, most=64)
    flip: bool = setting(False, "swap left and right in half of the images")
    rand_augment: int = setting(0, "operations of RandAugment for each image; 0 is none", least=0, most=8)
    erase: float = setting(0.0, "share of the images in which a rectangle is blanked", least=0, most=1)
    mix: Mixing = setting("none", "blend images and labels in pairs, in half of the batches")

    def __post_init__(self) -> None:
        check_fields(self)


def check_kornia(how: Augmentation) -> None:
    """Refuse to train with what is not installed; a recipe may name it all the same."""
    if (how.rand_augment or how.erase) and not importlib.util.find_spec("kornia"):
        raise ValueError("rand_augment and erase need kornia: pip install -e '.[train]' in a clone of frost; or set "
                         "both to 0.")


def looks_across(how: Augmentation) -> bool:
    """Whether an image cannot be changed without the rest of its batch: mixed, or drawn by kornia for all at once."""
    return how.mix != "none" or bool(how.rand_augment or how.erase)


class Mixed(NamedTuple):
    """Labels of a mixed batch: each image is `share` of its own class and the rest of its partner's."""

    partners: Tensor   # (b,), long
    share: float


def augmented(images: Tensor, labels: Tensor, how: Augmentation, generator: torch.Generator,
              part: slice | None = None) -> tuple[Tensor, Mixed | None]:
    """Images (b, c, h, w) in [0, 1] → the same, changed; and the labels' partners if the batch was mixed.

    Args:
        labels: of the whole batch.
        part: which rows of a larger batch these images are, where several processes share one. What is random is drawn
            for the whole batch, so that their number changes nothing; not for what `looks_across` the batch.
    """
    rows = part or slice(0, len(labels))
    images = random_shift(images, how.shift, generator, len(labels), rows)
    if how.flip:
        images = random_flip(images, generator, len(labels), rows)
    if how.rand_augment or how.erase:
        images = _by_kornia(images, how, generator)
    if how.mix == "none" or float(torch.rand((), generator=generator)) >= MIXED_SHARE:
        return images, None
    return mixed(images, labels, how.mix, generator)


def random_shift(images: Tensor, most: int, generator: torch.Generator, whole: int | None = None,
                 part: slice = slice(None)) -> Tensor:
    """Move each image by up to `most` pixels either way, zeros coming in, (b, c, h, w) → the same.

    Args:
        whole: images that are drawn for, of which these are `part`.
    """
    if most == 0:
        return images
    batch, _, height, width = images.shape
    padded = F.pad(images, (most, most, most, most))
    offsets = torch.randint(0, 2 * most + 1, (2, whole or batch), generator=generator)[:, part].to(images.device)
    rows = offsets[0][:, None] + torch.arange(height, device=images.device)        # (b, h)
    columns = offsets[1][:, None] + torch.arange(width, device=images.device)      # (b, w)
    batches = torch.arange(batch, device=images.device)[:, None, None]
    moved = padded.permute(0, 2, 3, 1)[batches, rows[:, :, None], columns[:, None, :]]     # (b, h, w, c)
    return moved.permute(0, 3, 1, 2).contiguous()


def random_flip(images: Tensor, generator: torch.Generator, whole: int | None = None,
                part: slice = slice(None)) -> Tensor:
    """Swap left and right in about half of the images; `whole` and `part` as above."""
    flipped = torch.rand(whole or images.shape[0], generator=generator)[part].to(images.device) < 0.5
    return torch.where(flipped[:, None, None, None], images.flip(3), images)


def mixed(images: Tensor, labels: Tensor, kind: Mixing, generator: torch.Generator) -> tuple[Tensor, Mixed]:
    """Blend each image with a partner from the batch: all of it (mixup), or a rectangle of it (CutMix).

    The share of the own image is uniform in [0, 1], the Beta(1, 1) of both methods' ImageNet settings; under CutMix it
    is the share of pixels that really stayed.
    """
    order = torch.randperm(images.shape[0], generator=generator).to(images.device)
    share = float(torch.rand((), generator=generator))
    if kind == "mixup":
        return images * share + images[order] * (1 - share), Mixed(labels[order], share)
    height, width = images.shape[2:]
    side = (1 - share) ** 0.5
    centre = torch.rand(2, generator=generator)
    top, bottom = _span(float(centre[0]), side, height)
    left, right = _span(float(centre[1]), side, width)
    cut = images.clone()
    cut[:, :, top:bottom, left:right] = images[order, :, top:bottom, left:right]
    return cut, Mixed(labels[order], 1 - (bottom - top) * (right - left) / (height * width))


def _span(centre: float, side: float, length: int) -> tuple[int, int]:
    """First and last row of a rectangle with this centre and side, both as shares, clipped to the image."""
    first = round((centre - side / 2) * length)
    return max(first, 0), min(first + round(side * length), length)


def _by_kornia(images: Tensor, how: Augmentation, generator: torch.Generator) -> Tensor:
    """RandAugment and erasing; kornia draws from the global generator, which is seeded for the call and put back."""
    seed = int(torch.randint(0, 2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[images.device] if images.device.type == "cuda" else []):
        torch.manual_seed(seed)
        for operation in _operations(how):
            images = operation(images)
    return images.clamp(0, 1).contiguous()


@cache
def _operations(how: Augmentation) -> tuple[Any, ...]:
    import kornia.augmentation as kornia  # here, because importing it takes seconds and most runs do without

    operations: list[Any] = []
    if how.rand_augment:
        operations.append(kornia.auto.RandAugment(n=how.rand_augment, m=MAGNITUDE))
    if how.erase:
        operations.append(kornia.RandomErasing(p=how.erase))
    return tuple(operations)
