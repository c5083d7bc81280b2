"""A data set as splits of images with labels, and the fixed rules that divide it.

Every split of given images is stratified: each class gives the same share. Which images it gives depends on the labels
alone, so the splits are the same on every machine and in every run. Problems made by code are drawn from a seed, none
of them twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

VALIDATION_SHARE, VALIDATION_MOST = 0.1, 5_000   # of the official training images; they are never trained on

Report = Callable[[str, int, int], None]   # gets what is being done, how much of it is done, and of how much


class Images(Protocol):
    """Labelled images that are fetched by the batch, whether they lie in memory or on disk."""

    def __len__(self) -> int: ...

    @property
    def labels(self) -> Tensor:
        """The class of each image, (n,), or of each of its positions, (n, …); long."""

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Channels and size, the same for every image: (c, h, w), or (c, n) of a line."""

    def batch(self, rows: Tensor) -> Tensor:
        """The images of these rows, (b, c, h, w), float in [0, 1]."""


class Split(NamedTuple):
    """Images with their labels, in memory."""

    images: Tensor   # (n, c, h, w), float in [0, 1], or uint8 in 0 … 255 (a quarter of the memory); a line is (n, c, n)
    labels: Tensor   # (n,), or (n, …) with an answer at each position; long

    def __len__(self) -> int:
        return self.labels.shape[0]

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Channels and size."""
        return tuple(self.images.shape[1:])

    def batch(self, rows: Tensor) -> Tensor:
        """The images of these rows, (b, c, h, w), float in [0, 1]."""
        return as_float(self.images[rows])


Kind = TypeVar("Kind", bound=Images, covariant=True)


class DataSet(NamedTuple, Generic[Kind]):
    """Three disjoint splits: to train on, to calibrate and choose on, and to report on, once."""

    name: str
    train: Kind
    validation: Kind
    test: Kind
    classes: tuple[str, ...] = tuple("0123456789")   # the name of each class, in the order of the labels
    beyond: Mapping[str, Any] = MappingProxyType({})  # more to report on: sizes that nothing is trained or chosen on


def as_float(images: Tensor) -> Tensor:
    """Bytes 0 … 255 as floats in [0, 1]; floats pass through untouched. Cheapest on the device that uses them."""
    return images if images.is_floating_point() else images.float() / 255


def batches_of(images: Images, batch: int = 256) -> Iterator[Tensor]:
    """All images in their order, some at a time."""
    for rows in torch.arange(len(images)).split(batch):
        yield images.batch(rows)


def labelled(images: Images, batch: int = 256) -> Iterator[tuple[Tensor, Tensor]]:
    """All images in their order with their labels, some at a time."""
    for rows in torch.arange(len(images)).split(batch):
        yield images.batch(rows), images.labels[rows]


def stratified(labels: NDArray[np.int64], shares: tuple[float, ...]) -> list[NDArray[np.int64]]:
    """Indices of the first parts with the given shares of each class, and of the rest, as the last part."""
    parts: list[list[NDArray[np.int64]]] = [[] for _ in range(len(shares) + 1)]
    for label in np.unique(labels):
        members = np.random.default_rng(int(label)).permutation(np.flatnonzero(labels == label))
        bounds = np.cumsum([round(share * members.size) for share in shares])
        for part, indices in zip(parts, np.split(members, bounds), strict=True):
            part.append(indices)
    return [np.sort(np.concatenate(part)) for part in parts]


def hold_out(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices to train on and to validate on, of a set that comes without a validation split.

    A tenth of each class is held out, but no more than about 5,000 images in all.
    """
    share = min(VALIDATION_SHARE, VALIDATION_MOST / max(1, labels.size))
    validation, train = stratified(labels, (share,)) if labels.size else (labels, labels)
    if not validation.size or not train.size:
        raise ValueError(f"{labels.size} training images are too few to hold out a tenth of each class for validation; "
                         "give each class at least 10.")
    return train, validation


ROUNDS = 100    # in which problems that were drawn twice are drawn anew
Maker = Callable[[int, int, np.random.Generator], Split]    # so many problems, each of that size


def distinct(make: Maker, size: int, counts: tuple[int, ...], seed: int) -> list[Split]:
    """Splits with so many problems that `make` draws from a seed; no problem is in two of them, or twice in one."""
    random, total = np.random.default_rng(seed), sum(counts)
    drawn = make(total, size, random)
    for _ in range(ROUNDS):
        known: dict[bytes, int] = {}
        for row, image in enumerate(drawn.images.numpy()):
            known.setdefault(image.tobytes(), row)
        if len(known) >= total:
            break
        more = make(total - len(known), size, random)
        drawn = Split(torch.cat([drawn.images, more.images]), torch.cat([drawn.labels, more.labels]))
    else:
        raise ValueError(f"{total} different problems of size {size} were not found; ask for fewer or for larger ones.")
    rows = torch.tensor(list(known.values())[:total])
    return [Split(drawn.images[part], drawn.labels[part]) for part in rows.split(list(counts))]


def take(images: NDArray[np.float32] | NDArray[np.uint8], labels: NDArray[np.int64],
         indices: NDArray[np.int64]) -> Split:
    """The split with these indices."""
    return Split(torch.from_numpy(images[indices]), torch.from_numpy(labels[indices]))
