"""Is an answer batch-invariant, bit for bit? `frost.check_batch_invariance(model, example)`.

A sample is computed in every row of a batch of constant shape, among other mates each time, by the backend that will
run it. Where all its bits agree, the refill engine's promise holds bit for bit; a block whose kernels round by a row's
place agrees to about 1e-6.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from frost.core.inputs import Inputs, as_inputs, batch_of, mapped, row, to_device
from frost.core.precision import device_of, dtype_of
from frost.core.trajectory import IterativeModel, evaluating
from frost.halting.stopping import AtDepth
from frost.runtime.backend import BackendName
from frost.runtime.stepper import Stepper

OF_CLASSES = ("confidence", "margin", "entropy")


class Invariance(NamedTuple):
    """What came of it."""

    is_exact: bool      # every bit the same in every row, with any mates
    largest: float      # the largest difference of an output or score, relative to the largest output
    rows: int           # of the batch
    threads: int

    def __bool__(self) -> bool:
        return self.is_exact


def check_batch_invariance(model: IterativeModel, example: Inputs, slots: int = 64, seed: int = 0,
                           backend: BackendName = "eager") -> Invariance:
    """Compare every row of a batch with itself in other places among other mates, at full depth.

    The model remembers the answer, and an engine says it.

    Args:
        example: a batch of at least two inputs like those to come.
        slots: rows of the batch, as the engine will have.
    """
    if not isinstance(model, IterativeModel):
        raise ValueError(f"batch invariance is that of a model with begin, step and read, got {type(model).__name__}.")
    example = to_device(as_inputs(example), device_of(model), dtype_of(model))
    count = batch_of(example)
    if count < 2:
        raise ValueError(f"example must be a batch of at least 2 inputs, got {count}; mates have to differ.")
    if not isinstance(slots, int) or slots < 2:
        raise ValueError(f"slots must be a whole number of at least 2, got {slots!r}; one row has no mates.")
    if model.signature is None:
        model.expects(row(example, 0))
    with evaluating(model):
        stepper = Stepper(model, AtDepth(model.depth), backend=backend,
                          signals=OF_CLASSES if model.task.gives == "classes" else ())
        found = _compared(stepper, example, slots, torch.Generator().manual_seed(seed))
    if backend == "eager":
        model.batch_invariance = found
    else:
        model.invariance_by_backend = {**model.invariance_by_backend, backend: found}
    return found


def _compared(stepper: Stepper, example: Inputs, slots: int, generator: torch.Generator) -> Invariance:
    """Each round puts one sample into a quarter of the rows, others around it; all its rows must agree."""
    count = batch_of(example)
    first: dict[int, list[Tensor]] = {}
    is_exact, largest, size = True, 0.0, 0.0
    for number in range(8):
        needle = number % min(count, 4)
        order = torch.randint(count, (slots,), generator=generator)
        order[torch.randperm(slots, generator=generator)[:max(2, slots // 4)]] = needle
        with torch.no_grad():
            batch = mapped(lambda part, rows=order: part[rows.to(part.device)], example)    # type: ignore[misc]
            parts = _all_steps(stepper, batch, slots)
        for part, values in enumerate(parts):
            mine = values[(order == needle).to(values.device)]
            known = first.setdefault(needle, [])
            if len(known) == part:
                known.append(mine[:1])
            is_exact &= bool((mine == known[part]).all())
            largest = max(largest, float((mine - known[part]).abs().nan_to_num(nan=torch.inf).max()))
        size = max(size, float(parts[0].abs().max()))
    return Invariance(is_exact, largest / max(size, 1e-30), slots, torch.get_num_threads())


def _all_steps(stepper: Stepper, batch: Inputs, slots: int) -> list[Tensor]:
    """Outputs, score logits and signals of a batch along its steps, as an engine computes them."""
    live = stepper.first(batch, stepper.rules.default.thresholds.expand(slots, -1, -1).clone().to(stepper.device), 0)
    live.state = live.state._replace(step=None if stepper.model.stationary else 1)
    found = [(live.output, live.score_logit, live.values)]
    for _ in range(stepper.model.depth - 1):
        live = stepper.next(live, 0)
        found.append((live.output, live.score_logit, live.values))
    return [torch.stack(part, dim=1) for part in zip(*found, strict=True) if part[0].numel()]
