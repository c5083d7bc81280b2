"""The stopping rules of an engine as numbers beside each input: the signals that it computes, and a row of thresholds.

    an input stops after step t if any signal exceeds its threshold for step t (20), or t is its limit

A signal that an input's rule does not look at has the threshold +∞, so that inputs with rules of their own share a
batch. A depth that is the same for all inputs needs no signal: it is a limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from frost.core.trajectory import IterativeModel
from frost.halting.signals import SIGNALS, Memory, Reading, Signal
from frost.halting.stopping import AtDepth, Rule, StoppingRule, check_signal

FIXED = SIGNALS["fixed"].name


class Row(NamedTuple):
    """The rule of one input."""

    thresholds: Tensor    # (s, t): of each signal for each step
    limit: int            # most steps


class Rules:
    """What is computed after each step, and what it is compared with.

    Args:
        rule: of inputs that bring none of their own.
        signals: names of further signals that an input's own rule may look at.
        dtype: of the thresholds; signals are compared in it.
    """

    def __init__(self, model: IterativeModel, rule: StoppingRule, signals: Sequence[str] = (),
                 dtype: torch.dtype = torch.float32) -> None:
        for name in signals:
            if name not in SIGNALS:
                raise ValueError(f"there is no signal '{name}'. Known: {', '.join(SIGNALS)}.")
        names = dict.fromkeys([rule.signal.name, *signals])
        self.signals: tuple[Signal, ...] = tuple(SIGNALS[name] for name in names if name != FIXED)
        for signal in self.signals:
            check_signal(signal, model.task.gives, model.has_score)
        self.depth, self.dtype = model.depth, dtype
        self._rows: dict[StoppingRule, Row] = {}
        self._counts: list[int] = []    # tensors that each signal remembers; known from the first step on
        self.default = self.row(rule)

    @property
    def look_at_states(self) -> bool:
        """Whether a signal looks at states."""
        return any(signal.looks_at_states for signal in self.signals)

    def row(self, rule: StoppingRule) -> Row:
        """A rule as thresholds and a limit; one that looks at a signal which is not computed is a ValueError."""
        found = self._rows.get(rule)
        if found is None:
            if len(self._rows) > 1024:    # rules made anew for each request must not pile up
                self._rows.clear()
            found = self._rows[rule] = self._row_of(rule)
        return found

    def _row_of(self, rule: StoppingRule) -> Row:
        table = torch.full((len(self.signals), self.depth), math.inf, dtype=self.dtype)
        if isinstance(rule, AtDepth):
            return Row(table, min(rule.depth, self.depth))
        if not isinstance(rule, Rule):
            raise ValueError(f"a stopping rule is a frost.Rule or frost.AtDepth, got {type(rule).__name__}; a new way "
                             "to stop is a new signal (frost.halting.signals).")
        each = [rule.thresholds[min(step, len(rule.thresholds) - 1)] for step in range(self.depth)]
        if rule.name == FIXED:
            exceeded = [step for step, threshold in enumerate(each, 1) if step > threshold]
            return Row(table, min([*exceeded, self.depth]))
        names = [signal.name for signal in self.signals]
        if rule.name not in names:
            raise ValueError(f"this engine computes {', '.join(names) or 'no signal'}, and the rule looks at "
                             f"'{rule.name}'; name it when the engine is made: Engine(…, signals=['{rule.name}']).")
        table[names.index(rule.name)] = as_compared(each, self.dtype)
        return Row(table, self.depth)

    def start(self, reading: Reading) -> Memory:
        """What is remembered before the first step."""
        memories = [signal.start(reading) for signal in self.signals]
        self._counts = [len(memory) for memory in memories]
        return tuple(part for memory in memories for part in memory)

    def values(self, reading: Reading, memory: Memory) -> tuple[Tensor, Memory]:
        """The signals, (b, s), and what to remember."""
        values: list[Tensor] = []
        kept: list[Tensor] = []
        rest = list(memory)
        for signal, count in zip(self.signals, self._counts, strict=True):
            value, own = signal(reading, tuple(rest[:count]))
            values.append(value)
            kept += own
            rest = rest[count:]
        logit = reading.score_logit
        together = torch.stack(values, dim=1) if values else logit.new_zeros(logit.shape[0], 0)
        return together.to(self.dtype), tuple(kept)


def as_compared(thresholds: Sequence[float], dtype: torch.dtype) -> Tensor:
    """Thresholds in the precision of the signals, rounded down: v > floor(s) is v > s for every v of that precision."""
    exact = np.asarray(thresholds, dtype=np.float64)
    if dtype == torch.float64:
        return torch.from_numpy(exact)
    with np.errstate(over="ignore"):
        near = exact.astype(np.float32)
    return torch.from_numpy(np.where(near > exact, np.nextafter(near, np.float32(-np.inf)), near)).to(dtype)
