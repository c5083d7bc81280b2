"""A stream of inputs as the engine reads it: requests one by one, answers in the order that was asked for."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from torch import Tensor

from frost.runtime.live import Result

Order = Literal["arrival", "finish"]


class Request(NamedTuple):
    """An input with limits of its own."""

    inputs: Any                     # without the batch: a tensor or an array, or a tuple or dict of them
    key: Any = None                 # comes back with the answer; None is its number in the stream
    depth: int | None = None        # most steps for this input; None is T
    seconds: float | None = None    # from its arrival until it takes the answer that it has


class Source:
    """Reads a stream item by item; remembers that it ended, and why."""

    def __init__(self, stream: Iterable[Any]) -> None:
        self._iterator = iter(stream)
        self._count = 0
        self.is_over = False
        self.failure: Exception | None = None

    def next(self) -> tuple[int, Request] | None:
        """The next item and its number; None at the end."""
        if self.is_over:
            return None
        try:
            item = next(self._iterator)
        except StopIteration:
            self.is_over = True
            return None
        except Exception as error:    # the stream's own failure is raised when what came before is answered
            self.is_over, self.failure = True, error
            return None
        place, self._count = self._count, self._count + 1
        if not isinstance(item, Request):
            item = Request(item[1], item[0]) if _is_keyed(item) else Request(item)
        return place, item._replace(key=place) if item.key is None else item

    def close(self) -> None:
        """Close a generator that is not read on."""
        if isinstance(self._iterator, Generator):
            self._iterator.close()


def _is_keyed(item: Any) -> bool:
    """Whether an item is a pair of key and input: a tuple of two whose first is no tensor."""
    return isinstance(item, tuple) and len(item) == 2 and not isinstance(item[0], (Tensor, np.ndarray))


def in_order(answers: Iterable[tuple[int, Result]]) -> Iterator[Result]:
    """Hold back answers until those before them are known."""
    held: dict[int, Result] = {}
    turn = 0
    for place, result in answers:
        held[place] = result
        while turn in held:
            yield held.pop(turn)
            turn += 1
