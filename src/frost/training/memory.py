"""Memory of a training step: gradient checkpointing, and a sentence for too little."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from frost.core.inputs import Inputs, check_finite
from frost.core.trajectory import IterativeModel, State, Trajectory
from frost.core.weight_cache import one_unrolling

Reading = tuple[list[Tensor], list[Tensor]]    # outputs and score logits of some steps


def unroll(model: IterativeModel, inputs: Inputs, depth: int, isolate_score: bool) -> Trajectory:
    """model(inputs, depth), keeping few states for the backward pass and computing the others again.

    The steps are cut into about √depth parts and each part into steps; a state is kept at the beginning of each part,
    and while a part is differentiated, of each of its steps. A step's own activations exist for one step at a time.
    """
    with one_unrolling():
        state = model.begin(inputs)
        check_finite(inputs)
    part = math.isqrt(depth - 1) + 1
    outputs: list[Tensor] = []
    score_logits: list[Tensor] = []
    for first in range(0, depth, part):
        state, (some_outputs, some_logits) = checkpoint(
            _part, model, min(part, depth - first), isolate_score, _shell(state), *state.tensors(),
            use_reentrant=False)
        outputs += some_outputs
        score_logits += some_logits
    return Trajectory(None, torch.stack(outputs, dim=1), torch.stack(score_logits, dim=1), isolate_score,
                      state.context.get("mask"))


# A state goes in tensor by tensor: `checkpoint` lets go of tensors among its arguments, and keeps a tuple whole.

def _shell(state: State) -> State:
    """The state without its tensors: what `holding` fills again."""
    return state.mapped(lambda part: part.new_empty(0))


def _part(model: IterativeModel, steps: int, isolate_score: bool, shell: State,
          *tensors: Tensor) -> tuple[State, Reading]:
    state = shell.holding(list(tensors))
    outputs, score_logits = [], []
    for _ in range(steps):
        state, output, score_logit = checkpoint(_step, model, isolate_score, _shell(state), *state.tensors(),
                                                use_reentrant=False)
        outputs.append(output)
        score_logits.append(score_logit)
    return state, (outputs, score_logits)


def _step(model: IterativeModel, isolate_score: bool, shell: State,
          *tensors: Tensor) -> tuple[State, Tensor, Tensor]:
    with one_unrolling(apart=True):    # the second time, nothing of the first unrolling is there to share
        state = model.step(shell.holding(list(tensors)))
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
                             "runtime.checkpointing=true, which keeps fewer states.") from error
        raise
