"""Run a model with frozen weights over many batches, and keep of each trajectory what is wanted.

States and outputs are large, so a trajectory exists for one batch at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from frost.core.inputs import Inputs, batch_of, to_device
from frost.core.precision import device_of, dtype_of
from frost.core.trajectory import IterativeModel, Trajectory, evaluating

Beside = TypeVar("Beside")
Kept = TypeVar("Kept")
Report = Callable[[int, str], None]    # inputs done, and a text


def run_batches(model: IterativeModel, batches: Iterable[tuple[Inputs, Beside]],
                keep: Callable[[Trajectory, Beside], Kept], *, depth: int | None = None, keep_states: bool = False,
                report: Report | None = None) -> list[Kept]:
    """What `keep` makes of the trajectory of each batch; in evaluation mode, without gradients, where the model is.

    Args:
        batches: inputs, and what stands beside them, such as targets, which `keep` gets as it is.
        depth: steps to take; None is T, more is for stationary models.
    """
    device, dtype, done = device_of(model), dtype_of(model), 0
    found: list[Kept] = []
    with evaluating(model):
        for inputs, beside in batches:
            found.append(keep(model(to_device(inputs, device, dtype), depth, keep_states), beside))
            done += batch_of(inputs)
            if report is not None:
                report(done, "")
    return found
