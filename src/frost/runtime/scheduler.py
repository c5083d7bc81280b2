"""What waits, what is staged, what runs in which slot; pure Python, no tensor.

    submit ─▶ waiting ─stage─▶ staged (a row) ─place─▶ running (a slot) ─finish─▶ gone
                 └──────────────── cancel, from anywhere ────────────────────────▶ gone

An item is in exactly one of these places, and leaves once. Times are the caller's clock; deadlines are compared with
what the caller says the time is.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

Place = Literal["waiting", "staged", "running"]


class QueueFull(ValueError):
    """The queue is full; try again when some items have finished."""

    seconds: float = 1.0    # after which there may be room


@dataclass(slots=True, eq=False)
class Item:
    """One input on its way."""

    ticket: int               # from 0, in order of arrival
    key: Any                  # the caller's name for it
    inputs: Any
    limit: int                # most steps it may take
    deadline: float | None    # when it takes the answer that it has
    thresholds: Any = None    # of its rule
    is_late: bool = False     # the deadline has passed
    place: Place | None = "waiting"
    index: int = -1           # its row on the stage, or its slot


class Scheduler:
    """Slots, a stage of as many rows, and a queue.

    Args:
        slots: inputs that run together.
        max_queue: most items waiting; None is no limit.
    """

    def __init__(self, slots: int, max_queue: int | None = None) -> None:
        if slots < 1:
            raise ValueError(f"slots must be at least 1, got {slots}.")
        if max_queue is not None and max_queue < 1:
            raise ValueError(f"max_queue must be at least 1, got {max_queue}.")
        self.slots, self.max_queue = slots, max_queue
        self.running: list[Item | None] = [None] * slots
        self._waiting: deque[Item] = deque()
        self._staged: dict[int, Item] = {}                  # by ticket, first come first
        self._inside: dict[int, Item] = {}                  # by ticket
        self._free = list(range(slots))                     # a heap: the lowest slot first
        self._deadlines: list[tuple[float, int]] = []       # a heap
        self._next = 0

    def __len__(self) -> int:
        return len(self._inside)

    @property
    def waiting(self) -> int:
        """Items that have not been staged."""
        return len(self._waiting)

    @property
    def staged(self) -> int:
        """Items that have been staged and have no slot yet."""
        return len(self._staged)

    @property
    def occupied(self) -> int:
        """Slots in use."""
        return self.slots - len(self._free)

    @property
    def free(self) -> list[int]:
        """Slots that are not in use."""
        return sorted(self._free)

    def submit(self, key: Any, inputs: Any, limit: int, deadline: float | None = None, thresholds: Any = None) -> Item:
        """Queue an item."""
        if limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit}; an input is read after its first step.")
        if self.max_queue is not None and len(self._waiting) >= self.max_queue:
            raise QueueFull(f"{self.max_queue} items are waiting, and there is room for no more; try again later.")
        item = Item(self._next, key, inputs, limit, deadline, thresholds)
        self._next += 1
        self._waiting.append(item)
        self._inside[item.ticket] = item
        if deadline is not None:
            heapq.heappush(self._deadlines, (deadline, item.ticket))
        return item

    def next_waiting(self) -> list[Item]:
        """Those that `stage` will take."""
        return list(islice(self._waiting, self.slots))

    def stage(self) -> list[Item]:
        """Move up to `slots` waiting items to the empty stage, row by row."""
        assert not self._staged
        items = [self._waiting.popleft() for _ in range(min(self.slots, len(self._waiting)))]
        for row, item in enumerate(items):
            item.place, item.index, item.inputs = "staged", row, None    # the input itself is no longer needed
        self._staged.update((item.ticket, item) for item in items)
        return items

    def place(self) -> list[tuple[int, int]]:
        """Give free slots to staged items, first come, first served: pairs of row and slot."""
        moves = []
        while self._staged and self._free:
            item = self._staged.pop(next(iter(self._staged)))
            slot = heapq.heappop(self._free)
            moves.append((item.index, slot))
            item.place, item.index = "running", slot
            self.running[slot] = item
        return moves

    def adopt(self) -> None:
        """Let every staged item run in the slot of its row; nothing may run before."""
        assert len(self._free) == self.slots
        for item in self._staged.values():
            item.place = "running"
            self.running[item.index] = item
        taken = {item.index for item in self._staged.values()}
        self._free = [slot for slot in range(self.slots) if slot not in taken]
        self._staged.clear()

    def pack(self) -> list[int]:
        """Move running items to the lowest slots; the slot that each came from."""
        items = [item for item in self.running if item is not None]
        before = [item.index for item in items]
        self.running = [*items, *[None] * (self.slots - len(items))]
        for slot, item in enumerate(items):
            item.index = slot
        self._free = list(range(len(items), self.slots))
        return before

    def remove(self, item: Item) -> None:
        """Take an item out, wherever it is: it has finished, failed, or is not wanted any more."""
        if self._inside.get(item.ticket) is not item:
            raise ValueError(f"item {item.ticket} has left already, or is of another session.")
        del self._inside[item.ticket]
        if item.place == "waiting":
            self._waiting.remove(item)
        elif item.place == "staged":
            del self._staged[item.ticket]
        else:
            self.running[item.index] = None
            heapq.heappush(self._free, item.index)
        item.place, item.inputs = None, None
        if len(self._deadlines) > 2 * len(self._inside) + 64:    # most of them have left
            self._deadlines = [entry for entry in self._deadlines if entry[1] in self._inside]
            heapq.heapify(self._deadlines)

    @property
    def has_deadlines(self) -> bool:
        """Whether any item may expire."""
        return bool(self._deadlines)

    def expired(self, now: float) -> Iterator[Item]:
        """Items whose deadline has passed, each reported once."""
        while self._deadlines and self._deadlines[0][0] <= now:
            _, ticket = heapq.heappop(self._deadlines)
            if ticket in self._inside:
                yield self._inside[ticket]
