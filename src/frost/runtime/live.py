"""A batch between two steps: states, thresholds and the answers that its rows have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from frost.core.precision import at_least_float32
from frost.core.trajectory import State
from frost.halting.score import threshold_of
from frost.halting.signals import Memory

DIVERGED = "the model answers this input with NaN or infinity; it diverged"


class Result(NamedTuple):
    """The answer for one input, or why there is none."""

    key: Any
    output: Tensor | None     # y at the step where it stopped, without the batch, on the CPU
    depth: int                # steps taken; 0 if it never began
    score: float | None       # s_halt's counterpart at that step, in [0, 1]; None of a model without a score
    error: str | None = None
    is_late: bool = False     # its deadline passed, and this is the answer that it had


@dataclass(slots=True)
class Live:
    """A batch between two steps; every tensor has one row an input."""

    state: State
    memory: Memory         # of the signals
    steps: Tensor          # taken, (b,)
    table: Tensor          # thresholds, (b, s, t)
    output: Tensor         # y_t, (b, …)
    score_logit: Tensor    # (b,)
    values: Tensor         # signals, (b, s)
    stops: Tensor          # whether its rule stops it here, bool (b,)
    is_bad: Tensor         # whether output or score is not finite, bool (b,)
    has_score: bool = field(default=True, kw_only=True)

    def tensors(self) -> list[Tensor]:
        """What goes with an input that moves to another row and has not stopped."""
        return [*self.state.tensors(), *self.memory, self.steps, self.table, self.output, self.score_logit]

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Live:
        """The same batch with every tensor changed."""
        rest = (self.steps, self.table, self.output, self.score_logit, self.values, self.stops, self.is_bad)
        return Live(self.state.mapped(change), tuple(change(part) for part in self.memory),
                    *(change(part) for part in rest), has_score=self.has_score)

    def taken(self, rows: Tensor) -> Live:
        """Some of its rows, as another batch."""
        return self.mapped(lambda part: part.index_select(0, rows))

    def shrunk_to(self, rows: list[int]) -> tuple[Live, list[int]]:
        """Some of its rows, as a smaller batch in the same memory, and which row each of its places holds now.

        Rows in front stay; those behind move into the gaps, so that no more rows are copied than have left.
        """
        count, staying = len(rows), set(rows)
        order, behind = list(range(count)), iter([row for row in rows if row >= count])
        gaps = [place for place in order if place not in staying]
        for place in gaps:
            order[place] = next(behind)
        to, origin = (torch.tensor(part, dtype=torch.long, device=self.steps.device)
                      for part in (gaps, [order[place] for place in gaps]))

        def moved(part: Tensor) -> Tensor:
            if gaps:
                part = part.contiguous()    # what a model has expanded over the batch has no rows of its own
                part.index_copy_(0, to, part.index_select(0, origin))
            return part[:count]
        return self.mapped(moved), order

    def results(self, rows: list[int], keys: list[Any], late: Sequence[bool]) -> list[Result]:
        """The answers in some rows, and whether each is what it had at its deadline; one copy to the CPU for all."""
        if not rows:
            return []
        if len(rows) == len(self.steps):
            parts = (self.output.clone(), self.score_logit, self.steps, self.is_bad)
        else:
            index = torch.tensor(rows, device=self.output.device)
            parts = tuple(part.index_select(0, index)    # type: ignore[assignment]
                          for part in (self.output, self.score_logit, self.steps, self.is_bad))
        outputs, logits, depths, bad = at_least_float32(parts[0]).cpu(), *(part.tolist() for part in parts[1:])
        # one by one: a vectorised sigmoid rounds differently for another number of rows
        return [Result(key, None, depth, None, DIVERGED) if is_bad else
                Result(key, output, depth, threshold_of(logit) if self.has_score else None, None, is_late)
                for key, output, depth, logit, is_bad, is_late in zip(keys, outputs.unbind(), depths, logits, bad, late,
                                                                      strict=True)]


class Window:
    """What a batch did since the last look; looked at after each step, that is one step.

    On a GPU each look waits for it, so that several steps may be taken between two looks; a row that stopped in between
    has the answer of that step.
    """

    def __init__(self, every: int = 1) -> None:
        self.every = every
        self._parts: list[Live] = []
        self._joined: dict[int, int] = {}    # rows that came in the middle, and with which step

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def is_due(self) -> bool:
        """Whether it is time to look."""
        return len(self._parts) >= self.every

    def add(self, live: Live) -> None:
        """Keep a batch as it is after a step."""
        self._parts.append(live)

    def join(self, row: int) -> None:
        """A row holds another input from the next step on."""
        if self._parts:
            self._joined[row] = len(self._parts)

    def forget(self) -> None:
        """Begin anew."""
        self._parts.clear()
        self._joined.clear()

    def look(self, limits: Sequence[int | None]) -> list[tuple[Live, list[int]]]:
        """The rows that have stopped, with the batch as it was when they did; then begin anew.

        Args:
            limits: most steps of the input in each row; None for rows without one.
        """
        found: list[tuple[Live, list[int]]] = []
        done: set[int] = set()
        for number, live in enumerate(self._parts):
            flags, steps = (live.stops | live.is_bad).tolist(), live.steps.tolist()
            rows = [row for row, limit in enumerate(limits[:len(flags)]) if limit is not None and row not in done and (
                flags[row] or steps[row] >= limit) and self._joined.get(row, 0) <= number]
            if rows:
                found.append((live, rows))
                done.update(rows)
        self.forget()
        return found
