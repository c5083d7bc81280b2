"""The classes of an answer as probabilities, for a file, a table or a client.

By NumPy and in double precision: a client gets what the answer's bits say, and no call of torch, each of which gives
other threads a turn, stands between an answer and who waits for it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


class Surest(NamedTuple):
    """A class, and how sure the answer is of it."""

    label: int
    confidence: float


def probabilities(output: Tensor) -> NDArray[np.float64]:
    """Softmax over the last axis of an output on the CPU."""
    values = output.numpy().astype(np.float64)
    shares = np.exp(values - values.max(axis=-1, keepdims=True))
    normal: NDArray[np.float64] = shares / shares.sum(axis=-1, keepdims=True)
    return normal


def surest(output: Tensor) -> Surest:
    """The class that an output (k,) is most sure of."""
    shares = probabilities(output)
    label = int(shares.argmax())
    return Surest(label, float(shares[label]))
