"""Device, precision and memory of a training step: autocast, gradient checkpointing, and a sentence for too little."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from frost.core.frozen import one_unrolling
from frost.core.trajectory import IterativeModel, State, Trajectory, check_finite

Precision = Literal["float32", "bf16"]
Reading = tuple[list[Tensor], list[Tensor]]    # outputs and score logits of some steps


def resolve_device(wish: Literal["auto", "cpu", "cuda"]) -> torch.device:
    """A GPU if there is one, unless the user says otherwise."""
    if wish == "cuda" and not torch.cuda.is_available():
        raise ValueError("train.device is cuda, but torch sees no GPU here; set it to auto or cpu.")
    return torch.device("cuda" if wish != "cpu" and torch.cuda.is_available() else "cpu")


def resolve_precision(wish: Literal["auto", "float32", "bf16"], device: torch.device) -> Precision:
    """bf16 where the hardware multiplies it: emulated, it is far slower than float32."""
    if wish != "auto":
        return wish
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    return "bf16" if torch.cpu._is_avx512_bf16_supported() else "float32"


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Forward passes inside run in this precision; weights, optimizer and losses stay in float32."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()


def unroll(model: IterativeModel, images: Tensor, depth: int, isolate_score: bool) -> Trajectory:
    """model(images, depth), keeping few states for the backward pass and computing the others again.

    The steps are cut into about √depth parts and each part into steps; a state is kept at the beginning of each part,
    and while a part is differentiated, of each of its steps. A step's own activations exist for one step at a time.
    """
    with one_unrolling():
        state = model.begin(images)
        check_finite(images)
    part = math.isqrt(depth - 1) + 1
    outputs: list[Tensor] = []
    score_logits: list[Tensor] = []
    for first in range(0, depth, part):
        state, (some_outputs, some_logits) = checkpoint(
            _part, model, state, min(part, depth - first), isolate_score, use_reentrant=False)
        outputs += some_outputs
        score_logits += some_logits
    return Trajectory(None, torch.stack(outputs, dim=1), torch.stack(score_logits, dim=1), isolate_score)


def _part(model: IterativeModel, state: State, steps: int, isolate_score: bool) -> tuple[State, Reading]:
    outputs, score_logits = [], []
    for _ in range(steps):
        state, output, score_logit = checkpoint(_step, model, state, isolate_score, use_reentrant=False)
        outputs.append(output)
        score_logits.append(score_logit)
    return state, (outputs, score_logits)


def _step(model: IterativeModel, state: State, isolate_score: bool) -> tuple[State, Tensor, Tensor]:
    with one_unrolling(apart=True):    # the second time, nothing of the first unrolling is there to share
        state = model.step(state)
        return state, *model.read(state, isolate_score)


@contextmanager
def explained_memory(batch: int) -> Iterator[None]:
    """Turn an allocation that failed into a sentence that says what to lower."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        text = str(error).lower()
        if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or ("alloc" in text and "memory" in text):
            raise ValueError(f"there is too little memory for a batch of {batch}: lower train.batch, or set "
                             "train.checkpointing=true, which keeps fewer states.") from error
        raise
