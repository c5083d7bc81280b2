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
    """What a model costs for one input."""

    parameters: int
    parameters_without_head: int    # the head is C, D and the score
    flops_once: int                 # stem, B and D
    flops_per_step: int             # one step and one reading
    depth: int
    flops_full_depth: int           # once, and T steps
    flops_full_depth_cached: int    # the same at inference, where a first step from h_0 = 0 is free


def measure(model: IterativeModel) -> Complexity:
    """Count parameters, and FLOPs for one input of the model's signature, as inference runs them.

    What depends on weights alone, such as the factors of a bounded map, is computed before the counting begins.
    """
    if model.signature is None:
        raise ValueError("the model does not know what one input looks like; tell it with model.expects(example).")
    twin = copy.deepcopy(model).to("meta").eval()
    inputs = model.signature.zeros(1, "meta")
    with torch.no_grad():
        _counted_steps(twin, twin.begin(inputs))      # fills the caches
        with FlopCounterMode(display=False) as counter:
            start = twin.begin(inputs)
        once = counter.get_total_flops()
        # a batch of mixed depths has no first step to take from the cache
        every = _counted_steps(twin, start._replace(step=None) if twin.stationary else start)
        cached = _counted_steps(twin, start)
    parameters = sum(p.numel() for p in model.parameters())
    head = sum(p.numel() for m in model.modules() if isinstance(m, Head) for p in m.parameters())
    return Complexity(parameters, parameters - head, once, every[0], model.depth, once + sum(every), once + sum(cached))


def _counted_steps(model: IterativeModel, state: State) -> list[int]:
    """FLOPs of each of T steps, its reading included."""
    counts = []
    for _ in range(model.depth):
        with FlopCounterMode(display=False) as counter:
            state = model.step(state)
            model.read(state)
        counts.append(counter.get_total_flops())
    return counts
