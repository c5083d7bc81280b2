"""Two executors that run a batch from its first step to its last: `masked` and `compact`.

    masked     every row is computed until the last input has stopped: what a plain loop with early exit does
    compact    rows that have stopped are taken out, when that pays
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from frost.core.block import FAILURES
from frost.runtime.live import Live, Result, Window
from frost.runtime.scheduler import Item
from frost.runtime.stepper import Stepper

WORTH = 0.1    # share of the rows that must be gone before the batch is copied to a smaller one


def run_batch(stepper: Stepper, live: Live, items: Sequence[Item], *, shrinks: bool, sync_every: int = 1,
              clock: Callable[[], float] = time.monotonic) -> list[Result]:
    """Step a batch until every input has stopped; the answers in the order of its rows.

    Args:
        live: the batch after its first step.
        items: whose rows they are; one that passes its deadline takes the answer that it has.
    """
    answers: dict[int, Result] = {}
    places = list(range(len(items)))              # of the rows, in the batch as it came
    left = max(item.limit for item in items) - 1    # none takes more steps than that
    window = Window(sync_every)
    window.add(live)
    while True:
        if window.is_due or left <= 0:
            places, live = _collect(window, live, places, items, answers, shrinks, clock())
            if len(answers) == len(items):
                return [answers[place] for place in range(len(items))]
        try:
            live = stepper.next(live, sum(place not in answers for place in places))
        except FAILURES:
            failed = dict(stepper.failing_rows(live, range(len(places))))
            if not failed:
                raise    # it was no input's fault
            places, live = _collect(window, live, places, items, answers, False, clock())
            for row, error in failed.items():
                key, steps = items[places[row]].key, int(live.steps[row])
                answers.setdefault(places[row], Result(key, None, steps, None, error))
            live, order = live.shrunk_to([row for row in range(len(places)) if row not in failed])
            places = [places[row] for row in order]
            if len(answers) == len(items):
                return [answers[place] for place in range(len(items))]
            continue
        window.add(live)
        left -= 1


def _collect(window: Window, live: Live, places: list[int], items: Sequence[Item], answers: dict[int, Result],
             shrinks: bool, now: float) -> tuple[list[int], Live]:
    """Take the answers of rows that are done or late; shrink the batch if enough are."""
    limits = [None if place in answers else items[place].limit for place in places]
    for before, rows in window.look(limits):
        results = before.results(rows, [items[places[row]].key for row in rows], [False] * len(rows))
        answers.update(zip((places[row] for row in rows), results, strict=True))
    late = [row for row, place in enumerate(places) if place not in answers
            and (deadline := items[place].deadline) is not None and deadline <= now]
    results = live.results(late, [items[places[row]].key for row in late], [True] * len(late))
    answers.update(zip((places[row] for row in late), results, strict=True))
    alive = [row for row, place in enumerate(places) if place not in answers]
    if shrinks and alive and len(places) - len(alive) >= max(1, WORTH * len(places)):
        live, order = live.shrunk_to(alive)
        places = [places[row] for row in order]
    return places, live
