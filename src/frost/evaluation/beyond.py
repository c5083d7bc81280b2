"""Quality on problems larger than those trained on, and with more steps than T.

The model is read only after the steps that are asked for: at four times T, reading each step would cost as much again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import torch

from frost.checkpoint import Run
from frost.core.inference import Report
from frost.core.inputs import batch_of, pair_of, to_device
from frost.core.precision import at_least_float32, device_of, dtype_of
from frost.core.trajectory import IterativeModel, evaluating
from frost.core.weight_cache import one_unrolling
from frost.data.splits import DataSet, Images, labelled
from frost.report.progress import progress

MORE_STEPS = (1, 2, 4)    # times T, for problems whose size is free
BATCH = 128


class BeyondRow(NamedTuple):
    """Quality at some numbers of steps, for a size that may be larger than those trained on."""

    size: str
    inputs: int
    quality: dict[int, float]         # by the number of steps


def beyond_rows(run: Run, data: DataSet[Images]) -> list[BeyondRow]:
    """Sizes beyond training, and more steps than T; for data sets that have such sizes."""
    if not data.beyond or not run.model.stationary:
        return []
    steps, rows = [run.model.depth * times for times in MORE_STEPS], []
    for size, problems in {"as trained": data.test, **data.beyond}.items():
        with progress(f"evaluating {size}", len(problems)) as report:
            quality = quality_after(run.model, labelled(problems, BATCH), steps, report)
        rows.append(BeyondRow(size, len(problems), quality))
    return rows


def quality_after(model: IterativeModel, batches: Iterable[Any], steps: Collection[int],
                  report: Report | None = None) -> dict[int, float]:
    """The mean quality after some numbers of steps, which may be more than T; batches are (inputs, targets)."""
    device, dtype, done, found = device_of(model), dtype_of(model), 0, []
    for inputs, targets in map(pair_of, batches):
        outputs = []
        with evaluating(model), one_unrolling():
            state = model.begin(to_device(inputs, device, dtype))
            for step in range(1, max(steps) + 1):
                state = model.step(state)
                if step in steps:
                    outputs.append(at_least_float32(model.read(state)[0]))
        found.append(model.task.qualities(torch.stack(outputs, dim=1), targets.to(device)).double().cpu())
        done += batch_of(inputs)
        if report is not None:
            report(done, "")
    means = torch.cat(found).mean(dim=0).tolist()
    return dict(zip(sorted(steps), means, strict=True))
