"""What every stopping rule looks at, for many inputs: signals and quality at each step, without keeping a state.

States and outputs are large; they are held for one batch at a time and only what the rules make of them is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from frost.core.inputs import batch_of, pair_of, to_device
from frost.core.precision import at_least_float32, device_of, dtype_of
from frost.core.task import CLASSES, Task
from frost.core.trajectory import IterativeModel
from frost.halting.policy import agreement_oracle, check_signal
from frost.halting.signals import SIGNALS, along


class Traces(NamedTuple):
    """What a model did for many inputs, as far as stopping rules are concerned."""

    quality: Tensor               # how good the answer is at each step, in [0, 1], (n, t), double
    signals: dict[str, Tensor]    # by the name of the rule, (n, t)
    settles: Tensor               # the first step after which the answer no longer changes, (n,); T where unknown
    is_finite: bool = True        # whether every output was

    @classmethod
    def of(cls, outputs: Tensor, targets: Tensor, signals: dict[str, Tensor], task: Task = CLASSES,
           mask: Tensor | None = None) -> Traces:
        """From whole trajectories, (n, t, …)."""
        settles = (agreement_oracle(outputs, mask) if task.gives == "classes" else
                   torch.full(outputs.shape[:1], outputs.shape[1]))
        return cls(task.qualities(outputs, targets).double(), signals, settles,
                   bool(torch.isfinite(outputs).all()))

    @property
    def depth(self) -> int:
        """T."""
        return self.quality.shape[1]

    @property
    def inputs(self) -> int:
        """How many there are."""
        return len(self.quality)


def trace(model: IterativeModel, batches: Iterable[Any], names: Sequence[str], task: Task | None = None,
          report: Callable[[int, str], None] | None = None, depth: int | None = None) -> Traces:
    """Run a model over batches of (inputs, targets) and keep the signals of the rules named, and the quality.

    Args:
        depth: steps to take; None is T, more is for stationary models.
    """
    task = model.task if task is None else task
    for name in names:
        check_signal(SIGNALS[name], task.gives, model.has_score)
    keeps = any(SIGNALS[name].looks_at_states for name in names)
    parts: list[Traces] = []
    done, device = 0, device_of(model)
    with torch.no_grad():
        for item in batches:
            inputs, targets = pair_of(item)
            whole = model(to_device(inputs, device, dtype_of(model)), depth, keep_states=keeps)
            outputs = at_least_float32(whole.outputs)
            signals = {name: along(SIGNALS[name], whole.outputs, whole.score_logits, whole.states, whole.mask).cpu()
                       for name in names}
            found = Traces.of(outputs, targets.to(device), signals, task, whole.mask)
            parts.append(found._replace(quality=found.quality.cpu(), settles=found.settles.cpu()))
            done += batch_of(inputs)
            if report is not None:
                report(done, "")
    if not parts:
        raise ValueError("the held-out data give no batch at all; they must give pairs of inputs and targets.")
    return Traces(torch.cat([part.quality for part in parts]),
                  {name: torch.cat([part.signals[name] for part in parts]) for name in names},
                  torch.cat([part.settles for part in parts]), all(part.is_finite for part in parts))
