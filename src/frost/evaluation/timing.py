"""Seconds of a full-depth loop, of a step, and of the exit test; the device has done its work when a clock is read."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch
from torch import Tensor

from frost.core.precision import Precision, autocast, device_of, synchronize
from frost.core.trajectory import IterativeModel
from frost.halting.policy import Rule
from frost.halting.signals import Reading

NEVER = Rule("rank", (math.inf,))    # the score is compared after every step; the image's own limit decides


def full_rate(model: IterativeModel, images: Tensor, precision: Precision, lasts: float,
              depth: int | None = None) -> float:
    """Images per second of the plain loop, begin, T steps, one reading, over as many seconds as a stream lasts.

    Args:
        depth: steps to take; None is T.
    """
    device, done, started = device_of(model), 0, time.perf_counter()
    with torch.no_grad(), autocast(precision, device):
        while not done or time.perf_counter() - started < lasts:
            state = model.begin(images.to(device))
            for _ in range(model.depth if depth is None else depth):
                state = model.step(state)
            model.read(state)
            synchronize(device)
            done += len(images)
    return done / (time.perf_counter() - started)


def _best_seconds(action: Callable[[], None], device: torch.device, least: float = 0.5, rounds: int = 3) -> float:
    """The shortest of a few rounds, of at least `least` seconds in all."""
    best, started, done = math.inf, time.perf_counter(), 0
    while done < rounds or time.perf_counter() - started < least:
        before = time.perf_counter()
        action()
        synchronize(device)
        best = min(best, time.perf_counter() - before)
        done += 1
    return best


def exit_test(model: IterativeModel, images: Tensor, precision: Precision) -> float:
    """Reading an output, computing the signal and asking who stops, as a share of a step."""
    batch = len(images)
    with torch.no_grad(), autocast(precision, device_of(model)):
        state = model.step(model.begin(images.to(device_of(model))))._replace(step=None)
        limits = torch.full((batch,), model.depth, device=state.hidden.device)
        steps = torch.ones_like(limits)

        def ask() -> None:
            output, score_logit = model.read(state)
            values, _ = NEVER.signal(Reading(steps, output, score_logit, None, None), ())
            (NEVER.stops(values, steps) | (steps >= limits)).tolist()

        def step() -> None:
            model.step(state)

        return _best_seconds(ask, device_of(model)) / _best_seconds(step, device_of(model))
