"""Work done ahead by threads, in order: what is decoded from files is there when it is needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Done = TypeVar("Done")


def prefetched(items: Iterable[Item], work: Callable[[Item], Done], threads: int, ahead: int) -> Iterator[Done]:
    """`map(work, items)` with up to `ahead` items begun before they are asked for; 0 threads is a plain map.

    The order stays, so the number of threads changes no result. No item is read before there is a place for it, so that
    memory is bounded; leaving the loop cancels what has not begun.
    """
    if not threads:
        yield from map(work, items)
        return
    waiting: deque[Future[Done]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="frost-prefetch") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
