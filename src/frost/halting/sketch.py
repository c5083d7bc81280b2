"""KLL quantile sketch (§4.4): a small, seeded, mergeable summary of a stream of numbers.

Levels hold samples of weight 2^level. When the sketch is full, the lowest level over its capacity is sorted and every
other item moves up; whether the odd or the even ones go is a coin. Answers are exact while n ≤ k; beyond, the rank
error is at most 2.296 / k^0.9723 with 99 % confidence. The coin is a hash of (seed, number of throws), so that the same
stream always gives the same sketch. Karnin, Lang, Liberty: Optimal quantile approximation in streams (2016).
"""

from __future__ import annotations

import math
import struct
import zlib

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAGIC = b"FKLL"
VERSION = 1
SHRINK = 2.0 / 3.0        # capacity of a level relative to the one above it
SMALLEST = 8              # no level is smaller than this
MAX_LEVELS = 60
HEADER = struct.Struct("<4sHIQQQddB")   # magic, version, k, seed, throws, count, lowest, highest, levels


def rank_error(k: int) -> float:
    """Largest error of a rank, as a share of n, that 99 % of sketches of size k stay within."""
    return 2.296 / k**0.9723


class KllSketch:
    """Quantiles of a stream in O(k) numbers.

    Args:
        k: size; the rank error falls as about 2.3 / k.
        seed: of the coin.
    """

    def __init__(self, k: int = 2048, seed: int = 0) -> None:
        if not SMALLEST <= k <= 65_535:
            raise ValueError(f"k must lie in [{SMALLEST}, 65535], got {k}; 2048 gives a rank error of 0.14 %.")
        if not 0 <= seed < 2**63:
            raise ValueError(f"seed must be a non-negative 63-bit integer, got {seed}.")
        self.k, self.seed = k, seed
        self.count = 0                                   # finite numbers seen
        self.lowest, self.highest = math.inf, -math.inf
        self._throws = 0
        self._levels: list[NDArray[np.float64]] = [np.empty(0)]

    def update(self, values: ArrayLike) -> int:
        """Add numbers; returns how many were dropped because they are not finite."""
        array = np.asarray(values, dtype=np.float64).ravel()
        finite = array[np.isfinite(array)]
        if finite.size:
            self.lowest = min(self.lowest, float(finite.min()))
            self.highest = max(self.highest, float(finite.max()))
        start = 0
        while start < finite.size:
            room = max(1, self._capacity() - self._stored() + 1)
            chunk = finite[start : start + room]
            self._levels[0] = np.concatenate([self._levels[0], chunk])
            self.count += chunk.size
            start += chunk.size
            self._compress()
        return array.size - finite.size

    def merge(self, other: KllSketch) -> None:
        """Take in another sketch of the same k; the error bound stays the same."""
        if other.k != self.k:
            raise ValueError(f"only sketches of the same k can be merged, got k = {self.k} and {other.k}.")
        while len(self._levels) < len(other._levels):
            self._levels.append(np.empty(0))
        for level, items in enumerate(other._levels):
            self._levels[level] = np.concatenate([self._levels[level], items])
        self.count += other.count
        self.lowest, self.highest = min(self.lowest, other.lowest), max(self.highest, other.highest)
        self._throws += other._throws
        self._compress()

    def quantile(self, q: float) -> float:
        """The smallest stored number with at least the share q of the stream at or below it."""
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"q must lie in [0, 1], got {q}.")
        if self.count == 0:
            raise ValueError("an empty sketch has no quantiles; update it first.")
        if q == 0.0:
            return self.lowest
        if q == 1.0:
            return self.highest
        items, cumulative = self._sorted()
        # A hair below q·n, so that 0.3 · 10 = 3.0000000000000004 still finds the third of ten items.
        index = int(np.searchsorted(cumulative, q * self.count * (1 - 1e-12), side="left"))
        return float(items[min(index, items.size - 1)])

    def rank(self, value: float) -> float:
        """The share of the stream at or below `value`."""
        return float(self.ranks(np.array([value]))[0])

    def ranks(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The share of the stream at or below each value."""
        if self.count == 0:
            raise ValueError("an empty sketch has no ranks; update it first.")
        items, cumulative = self._sorted()
        return np.concatenate([[0], cumulative])[np.searchsorted(items, values, side="right")] / self.count

    def to_bytes(self) -> bytes:
        """The stored form: a header, the levels, and a checksum over both."""
        head = HEADER.pack(MAGIC, VERSION, self.k, self.seed, self._throws, self.count, self.lowest, self.highest,
                           len(self._levels))
        body = b"".join(struct.pack("<I", items.size) + items.astype("<f8").tobytes() for items in self._levels)
        return head + body + struct.pack("<I", zlib.crc32(head + body))

    @classmethod
    def from_bytes(cls, stored: bytes) -> KllSketch:
        """Read the stored form; a damaged, truncated or foreign one is refused."""
        damaged = ValueError("this is not a whole KLL sketch of ours; calibrate the run again.")
        if len(stored) < HEADER.size + 4 or zlib.crc32(stored[:-4]) != struct.unpack("<I", stored[-4:])[0]:
            raise damaged
        magic, version, k, seed, throws, count, lowest, highest, height = HEADER.unpack_from(stored)
        if magic != MAGIC:
            raise damaged
        if version != VERSION:
            raise ValueError(f"the sketch has format {version}, this frost reads {VERSION}; calibrate the run again.")
        sketch = cls(k=k, seed=seed)
        levels, position, end = [], HEADER.size, len(stored) - 4
        for _ in range(height):
            if position + 4 > end:
                raise damaged
            (size,) = struct.unpack_from("<I", stored, position)
            position += 4
            if position + 8 * size > end:
                raise damaged
            levels.append(np.frombuffer(stored, dtype="<f8", count=size, offset=position).astype(np.float64))
            position += 8 * size
        weight = sum(items.size << level for level, items in enumerate(levels))
        finite = all(np.isfinite(items).all() for items in levels)
        inside = all(items.size == 0 or (items.min() >= lowest and items.max() <= highest) for items in levels)
        if position != end or weight != count or not finite or not inside or not 1 <= height <= MAX_LEVELS:
            raise damaged
        sketch.count, sketch.lowest, sketch.highest = count, lowest, highest
        sketch._throws, sketch._levels = throws, levels
        return sketch

    def _stored(self) -> int:
        return sum(items.size for items in self._levels)

    def _level_capacity(self, level: int) -> int:
        return max(SMALLEST, math.ceil(self.k * SHRINK ** (len(self._levels) - 1 - level)))

    def _capacity(self) -> int:
        return sum(self._level_capacity(level) for level in range(len(self._levels)))

    def _compress(self) -> None:
        while self._stored() > self._capacity():
            level = next(i for i, items in enumerate(self._levels) if items.size > self._level_capacity(i))
            if level + 1 == len(self._levels):
                self._levels.append(np.empty(0))
            items = np.sort(self._levels[level])
            odd = items.size % 2    # an odd one out stays, so that weights add up to n exactly
            kept, moving = items[:odd], items[odd:]
            self._levels[level] = kept
            self._levels[level + 1] = np.concatenate([self._levels[level + 1], moving[self._coin() :: 2]])

    def _coin(self) -> int:
        """A fair bit: splitmix64 of the seed and the number of throws so far."""
        self._throws += 1
        z = (self.seed + self._throws * 0x9E3779B97F4A7C15) & (2**64 - 1)
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        return (z ^ (z >> 31)) & 1

    def _sorted(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """All stored items in order, and the weight at or below each."""
        items = np.concatenate(self._levels)
        weights = np.concatenate([np.full(part.size, 1 << level) for level, part in enumerate(self._levels)])
        order = np.argsort(items, kind="stable")
        return items[order], np.cumsum(weights[order])
