"""How similar each state is to the last one (§6.1, Table 1), and what a similarity would be without any structure.

Works on vectors, one for each image and step, (b, t, c): the features that the readout sees, or flattened states.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Consistency(NamedTuple):
    """Over many images, for each step t = 1…T."""

    mean: list[float]
    deviation: list[float]
    images: int


def cosine_to_final(vectors: Tensor) -> Tensor:
    """The cosine between h_t and h_T, (b, t, c) → (b, t)."""
    return F.cosine_similarity(vectors.double(), vectors[:, -1:].double(), dim=-1)


def consistency(cosines: Tensor) -> Consistency:
    """Mean and standard deviation over images, (b, t) → Table 1."""
    return Consistency(cosines.mean(dim=0).tolist(), cosines.std(dim=0, correction=0).tolist(), len(cosines))


def random_walk(depth: int) -> list[float]:
    """The cosine of a random walk with independent steps in many dimensions: √(t / T) for t = 1…T."""
    return [math.sqrt(step / depth) for step in range(1, depth + 1)]


def is_rising(means: list[float], slack: float = 0.0) -> bool:
    """Whether each step is at least as similar to the last one as the step before, up to `slack`."""
    return all(after >= before - slack for before, after in itertools.pairwise(means))


def flattened(states: Tensor) -> Tensor:
    """(b, t, …) → (b, t, c·h·w)."""
    return torch.flatten(states, 2)
