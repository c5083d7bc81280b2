"""The batches of an epoch, read ahead by threads: what is decoded from files is there when a step needs it.

Only reading is done ahead. Which images a batch has is settled before, and what is random is drawn by the step itself,
so the number of threads changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from torch import Tensor

from frost.data.splits import Images
from frost.training.team import Team

AHEAD = 2    # batches for each thread


class Batch(NamedTuple):
    """The images of one step, as far as this process needs them."""

    rows: Tensor        # of all processes
    part: slice         # of this one; may be empty in the last batch of an epoch
    images: Tensor      # those of `computed`, or of all rows
    is_whole: bool

    @property
    def computed(self) -> slice:
        """What this process computes: its part, or the first image, uncounted, so that it has something to send."""
        return self.part if self.part.start < self.part.stop else slice(0, 1)


def read_ahead(data: Images, shares: Sequence[Tensor], team: Team, whole: bool, workers: int) -> Iterator[Batch]:
    """Batches in order, some of them read while others are used.

    Args:
        whole: read the images of all processes, for augmentations that look across a batch.
    """
    def read(rows: Tensor) -> Batch:
        batch = Batch(rows, team.part(len(rows)), rows, whole)
        return batch._replace(images=data.batch(rows if whole else rows[batch.computed]))

    if not workers:
        yield from map(read, shares)
        return
    waiting: deque[Future[Batch]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="frost-read") as threads:
        try:
            for rows in shares:
                waiting.append(threads.submit(read, rows))
                if len(waiting) > AHEAD * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
