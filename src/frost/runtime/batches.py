"""Two executors that run a batch from its first step to its last: `masked` and `compact`.

    masked     every row is computed until the last image has stopped: what a plain loop with early exit does
    compact    rows that have stopped are taken out, when that pays
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from frost.runtime.stepper import Live, Result, Stepper

WORTH = 0.1    # share of the rows that must be gone before the batch is copied to a smaller one


def run_batch(stepper: Stepper, live: Live, keys: Sequence[Any], deadlines: Sequence[float | None], *, shrinks: bool,
              sync_every: int = 1, clock: Callable[[], float] = time.monotonic) -> list[Result]:
    """Step a batch until every image has stopped; the answers in the order of its rows.

    Args:
        live: the batch after its first step.
        deadlines: on the clock; a row that passes its own takes the answer that it has.
    """
    answers: dict[int, Result] = {}
    places = list(range(len(keys)))            # of the rows in the batch as it came
    since = sync_every                         # the first step is looked at
    while True:
        if since >= sync_every:
            since = 0
            places, live = _collect(live, places, keys, deadlines, answers, shrinks, clock)
            if len(answers) == len(keys):
                return [answers[place] for place in range(len(keys))]
        live = stepper.next(live)
        since += 1


def _collect(live: Live, places: list[int], keys: Sequence[Any], deadlines: Sequence[float | None],
             answers: dict[int, Result], shrinks: bool, clock: Callable[[], float]) -> tuple[list[int], Live]:
    """Take the answers of rows that are done or late; shrink the batch if enough are."""
    done = live.is_done.tolist()
    now = clock()
    late = [not is_done and (deadline := deadlines[place]) is not None and deadline <= now
            for place, is_done in zip(places, done, strict=True)]
    for is_late, chosen in ((False, done), (True, late)):
        rows = [row for row, place in enumerate(places) if chosen[row] and place not in answers]
        for row, result in zip(rows, live.results(rows, [keys[places[row]] for row in rows], is_late), strict=True):
            answers[places[row]] = result
    alive = [row for row, place in enumerate(places) if place not in answers]
    if shrinks and alive and len(places) - len(alive) >= max(1, WORTH * len(places)):
        live = live.taken(torch.tensor(alive, device=live.steps.device))
        places = [places[row] for row in alive]
    return places, live
