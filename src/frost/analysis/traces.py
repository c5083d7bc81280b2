"""What every stopping rule looks at, for many images: the signals at each step, without keeping a state.

States are large; they are held for one batch at a time and only what the rules make of them is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from frost.core.precision import device_of
from frost.core.trajectory import IterativeModel
from frost.halting.signals import SIGNALS, along


class Traces(NamedTuple):
    """What a model did for many images, as far as stopping rules are concerned."""

    outputs: Tensor               # (n, t, k)
    labels: Tensor                # (n,)
    signals: dict[str, Tensor]    # by the name of the rule, (n, t)

    @property
    def hits(self) -> Tensor:
        """Whether the answer is right at each step, (n, t)."""
        return self.outputs.argmax(dim=-1) == self.labels[:, None]

    @property
    def depth(self) -> int:
        """T."""
        return self.outputs.shape[1]


def trace(model: IterativeModel, batches: Iterable[Tensor], labels: Tensor, names: Sequence[str],
          report: Callable[[int, str], None] | None = None) -> Traces:
    """Run a model over batches of images and keep the signals of the rules named."""
    keeps = any(SIGNALS[name].looks_at_states for name in names)
    outputs: list[Tensor] = []
    signals: dict[str, list[Tensor]] = {name: [] for name in names}
    done, device = 0, device_of(model)
    with torch.no_grad():
        for images in batches:
            trajectory = model(images.to(device), keep_states=keeps)
            outputs.append(trajectory.outputs.cpu())
            for name in names:
                values = along(SIGNALS[name], trajectory.outputs, trajectory.score_logits, trajectory.states)
                signals[name].append(values.cpu())
            done += len(images)
            if report is not None:
                report(done, "")
    return Traces(torch.cat(outputs), labels, {name: torch.cat(parts) for name, parts in signals.items()})
