"""A data set as tensors, and the fixed rule that divides it.

Every split is stratified: each class gives the same share. Which images it gives depends on the labels alone, so the
splits are the same on every machine and in every run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Split(NamedTuple):
    """Images with their labels."""

    images: Tensor   # (n, c, h, w), float in [0, 1]
    labels: Tensor   # (n,), long

    def __len__(self) -> int:
        return self.labels.shape[0]


class DataSet(NamedTuple):
    """Three disjoint splits: to train on, to calibrate and choose on, and to report on, once."""

    name: str
    train: Split
    validation: Split
    test: Split


def stratified(labels: NDArray[np.int64], shares: tuple[float, ...]) -> list[NDArray[np.int64]]:
    """Indices of the first parts with the given shares of each class, and of the rest, as the last part."""
    parts: list[list[NDArray[np.int64]]] = [[] for _ in range(len(shares) + 1)]
    for label in np.unique(labels):
        members = np.random.default_rng(int(label)).permutation(np.flatnonzero(labels == label))
        bounds = np.cumsum([round(share * members.size) for share in shares])
        for part, indices in zip(parts, np.split(members, bounds), strict=True):
            part.append(indices)
    return [np.sort(np.concatenate(part)) for part in parts]


def take(images: NDArray[np.float32], labels: NDArray[np.int64], indices: NDArray[np.int64]) -> Split:
    """The split with these indices."""
    return Split(torch.from_numpy(images[indices]), torch.from_numpy(labels[indices]))
