"""Sums of two binary numbers, made by code: the longer a carry travels, the more steps a sum takes.

An input is two rows of bits as ±1, the lowest first; the answer is the bits of the sum, modulo 2^bits as a processor
adds. How long the longest carry is, is a fact of arithmetic: 5 or 6 bits in most sums of 64, 20 and more in a few.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from frost.data.splits import DataSet, Split, distinct

BITS = 64
LONGER = (96, 128, 256)                           # beyond what is trained on
TRAIN, VALIDATION, TEST, BEYOND = 32_000, 2_000, 8_000, 1_000
SEED = 20_260_117


def load_addition() -> DataSet[Split]:
    """Distinct sums of 64 bits in three splits, and longer ones beside them; the same on every machine."""
    train, validation, test = distinct(sums, BITS, (TRAIN, VALIDATION, TEST), SEED)
    beyond = {f"{bits} bits": distinct(sums, bits, (BEYOND,), SEED + bits)[0] for bits in LONGER}
    return DataSet("addition", train, validation, test, ("0", "1"), beyond)


def sums(count: int, bits: int, random: np.random.Generator) -> Split:
    """Pairs of numbers, (n, 2, bits) as ±1, and their sums, (n, bits); both with the lowest bit first."""
    pairs = random.integers(0, 2, (count, 2, bits), dtype=np.int8)
    answers, carry = np.empty((count, bits), np.int64), np.zeros(count, np.int8)
    for place in range(bits):
        total = pairs[:, 0, place] + pairs[:, 1, place] + carry
        answers[:, place], carry = total & 1, total >> 1
    return Split(torch.from_numpy((2 * pairs - 1).astype(np.float32)), torch.from_numpy(answers))


def longest_carry(split: Split) -> NDArray[np.int64]:
    """Over how many places the longest carry of each sum travels, (n,): how hard the sum is."""
    pairs = (split.images > 0).numpy()
    run = longest = np.zeros(len(split), np.int64)
    for place in range(pairs.shape[2]):
        first, second = pairs[:, 0, place], pairs[:, 1, place]
        begins, goes_on = first & second, (first ^ second) & (run > 0)    # a carry is born, or handed on
        run = np.where(begins, 1, np.where(goes_on, run + 1, 0))
        longest = np.maximum(longest, run)
    return longest
