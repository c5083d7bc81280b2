"""Read items ahead by threads: in order, and no further than a limit, so that memory stays bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")


def read_ahead(read: Callable[[Item], Found], items: Iterable[Item], threads: int, most: int) -> Iterator[Found]:
    """What `read` makes of each item, in their order, while up to `most` later ones are being read.

    An error of `read` is raised where its item would come. What is under way is dropped when the iterator is closed.
    """
    waiting: deque[Future[Found]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="frost-read") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(read, item))
                if len(waiting) > most:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
