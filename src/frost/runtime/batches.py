"""Two executors that run a batch from its first step to its last: `masked` and `compact`.

    masked     every row is computed until the last input has stopped: what a plain loop with early exit does
    compact    rows that have stopped are taken out, when that pays
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from frost.core.block import FAILURES
from frost.runtime.scheduler import Item
from frost.runtime.stepper import Live, Result, Stepper

WORTH = 0.1    # share of the rows that must be gone before the batch is copied to a smaller one


def run_batch(stepper: Stepper, live: Live, items: Sequence[Item], *, shrinks: bool, sync_every: int = 1,
              clock: Callable[[], float] = time.monotonic,
              show: Callable[[Live, list[int]], None] | None = None) -> list[Result]:
    """Step a batch until every input has stopped; the answers in the order of its rows.

    Args:
        live: the batch, at whatever steps its inputs are.
        items: whose rows they are; one that passes its deadline takes the answer that it has.
        show: is shown the batch and the rows still running at every look, for a drift check.
    """
    answers: dict[int, Result] = {}
    places = list(range(len(items)))                          # of the rows, in the batch as it came
    left = max(item.limit for item in items) - int(live.steps.min())   # none takes more steps than that
    since = sync_every                                        # the batch as it came is looked at
    while True:
        if since >= sync_every or left <= 0:
            since = 0
            places, live = _collect(live, places, items, answers, shrinks, clock())
            if len(answers) == len(items):
                return [answers[place] for place in range(len(items))]
        try:
            live = stepper.next(live, sum(place not in answers for place in places))
        except FAILURES:
            failed = dict(stepper.failing_rows(live, range(len(places))))
            if not failed:
                raise    # it was no input's fault
            for row, error in failed.items():
                key, steps = items[places[row]].key, int(live.steps[row])
                answers.setdefault(places[row], Result(key, None, steps, None, error))
            live, order = live.shrunk_to([row for row in range(len(places)) if row not in failed])
            places, since = [places[row] for row in order], sync_every
            if not places:
                return [answers[place] for place in range(len(items))]
            continue
        since, left = since + 1, left - 1
        if show is not None:
            show(live, [row for row, place in enumerate(places) if place not in answers])


def _collect(live: Live, places: list[int], items: Sequence[Item], answers: dict[int, Result], shrinks: bool,
             now: float) -> tuple[list[int], Live]:
    """Take the answers of rows that are done or late; shrink the batch if enough are."""
    done = live.is_done.tolist()
    late = [not is_done and (deadline := items[place].deadline) is not None and deadline <= now
            for place, is_done in zip(places, done, strict=True)]
    rows = [row for row, place in enumerate(places) if (done[row] or late[row]) and place not in answers]
    results = live.results(rows, [items[places[row]].key for row in rows], [late[row] for row in rows])
    answers.update(zip((places[row] for row in rows), results, strict=True))
    alive = [row for row, place in enumerate(places) if place not in answers]
    if shrinks and alive and len(places) - len(alive) >= max(1, WORTH * len(places)):
        live, order = live.shrunk_to(alive)
        places = [places[row] for row in order]
    return places, live
