"""Averaged weights: an exponential moving average of every weight, which generalises better than the last step's."""

from __future__ import annotations

import copy

import torch

from frost.core.trajectory import IterativeModel


def begin_average(model: IterativeModel) -> IterativeModel:
    """A copy of the model to hold the average, frozen."""
    return copy.deepcopy(model).requires_grad_(False).eval()


@torch.no_grad()
def update_average(average: IterativeModel, model: IterativeModel, step: int, decay: float) -> None:
    """Move the average towards the model, after step 1, 2, …; counts that the model keeps are copied.

    a ← d a + (1 − d) w  with  d = min(decay, (1 + step) / (10 + step)),  so that early steps are soon forgotten.
    """
    share = 1 - min(decay, (1 + step) / (10 + step))
    theirs, ours = average.state_dict(), model.state_dict()
    moving = [name for name, tensor in ours.items() if tensor.is_floating_point()]
    torch._foreach_lerp_([theirs[name] for name in moving], [ours[name] for name in moving], share)
    for name in ours.keys() - set(moving):
        theirs[name].copy_(ours[name])
