"""Parameters and FLOPs (§6.5, Table 3), counted by running the model.

A multiply-add is two FLOPs. The model runs on the meta device, where no arithmetic happens and every matrix product is
seen, attention included; a shared block is counted each time it runs.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from frost.core.head import Head
from frost.core.trajectory import IterativeModel, State


class Complexity(NamedTuple):
    """What a model costs for one image."""

    parameters: int
    parameters_without_head: int    # the head is C, D and the score
    flops_once: int                 # stem, B and D
    flops_per_step: int             # one step and one reading
    depth: int
    flops_full_depth: int           # once, and T steps
    flops_full_depth_cached: int    # the same at inference, where a first step from h_0 = 0 is free


def measure(model: IterativeModel, image_channels: int, image_size: int) -> Complexity:
    """Count parameters, and FLOPs for one image of this shape."""
    twin = copy.deepcopy(model).to("meta").eval()
    images = torch.empty(1, image_channels, image_size, image_size, device="meta")
    with torch.enable_grad():   # with gradients on, the first step is not taken from the cache
        once, state = _counted_begin(twin, images)
        first, state = _counted_step(twin, state)
        total = once + first + sum(_rest(twin, state))
    with torch.no_grad():
        _counted_step(twin, twin.begin(images))                       # fills the cache
        cached, state = _counted_step(twin, twin.begin(images))
        total_cached = once + cached + sum(_rest(twin, state))
    parameters = sum(p.numel() for p in model.parameters())
    head = sum(p.numel() for m in model.modules() if isinstance(m, Head) for p in m.parameters())
    return Complexity(parameters, parameters - head, once, first, model.depth, total, total_cached)


def _counted_begin(model: IterativeModel, images: torch.Tensor) -> tuple[int, State]:
    with FlopCounterMode(display=False) as counter:
        state = model.begin(images)
    return counter.get_total_flops(), state


def _counted_step(model: IterativeModel, state: State) -> tuple[int, State]:
    with FlopCounterMode(display=False) as counter:
        state = model.step(state)
        model.read(state)
    return counter.get_total_flops(), state


def _rest(model: IterativeModel, state: State) -> list[int]:
    """FLOPs of the steps from the second to the last."""
    counts = []
    for _ in range(model.depth - 1):
        count, state = _counted_step(model, state)
        counts.append(count)
    return counts


