"""Seconds of a full-depth run, of a step, and of the exit test; the device has done its work when a clock is read."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from frost.core.precision import Precision, autocast, device_of, synchronize
from frost.core.trajectory import IterativeModel, State
from frost.evaluation.full_depth import Run
from frost.halting.stopping import Rule
from frost.runtime.backend import BackendName
from frost.runtime.stepper import Stepper

NEVER = Rule("rank", (math.inf,))    # the score is compared after every step; the image's own limit decides
SIDE = 1536                          # of the matrices whose product tells what the machine can do


class ExitTest(NamedTuple):
    """What it costs to ask, as shares of what is computed anyway."""

    exit_test: float    # score, signals and comparison: (step with them ÷ step and reading without) − 1
    reading: float      # an answer after every step: (step and reading ÷ step) − 1


def full_rate(run: Run, images: Tensor, lasts: float) -> float:
    """Images per second at full depth, over as many seconds as a stream lasts."""
    device, done, started = images.device, 0, time.perf_counter()
    while not done or time.perf_counter() - started < lasts:
        run(images)
        synchronize(device)
        done += len(images)
    return done / (time.perf_counter() - started)


def peak_flops() -> float:
    """FLOPs a second of a large matrix product here, in float32: what `share_of_peak` is a share of."""
    left, right = torch.rand(SIDE, SIDE), torch.rand(SIDE, SIDE)
    seconds = _best_seconds([lambda: torch.mm(left, right)], torch.device("cpu"))[0]
    return 2.0 * SIDE**3 / seconds


def exit_test(model: IterativeModel, images: Tensor, precision: Precision, backend: BackendName = "eager") -> ExitTest:
    """The same step three times: with the exit test, with a reading only, and alone; they take turns."""
    stepper = Stepper(model, NEVER, precision, backend)
    table = stepper.rules.default.thresholds.expand(len(images), -1, -1).to(stepper.device)
    with torch.no_grad():
        live = stepper.first(images.to(stepper.device), table, len(images))
    live.state = live.state._replace(step=None)
    plain = _without(stepper, precision, backend, live.state)
    tested, read, alone = _best_seconds([lambda: stepper.next(live, 0), *plain], stepper.device)
    return ExitTest(tested / read - 1.0, read / alone - 1.0)


def _without(stepper: Stepper, precision: Precision, backend: BackendName, state: State) -> list[Callable[[], object]]:
    """Step and reading without score and signals, and the step alone, by the same backend."""
    ours, device = stepper.folded, device_of(stepper.model)

    def step_and_read(*parts: Tensor) -> tuple[Tensor, ...]:
        after = ours.step(state.holding(list(parts)))
        return after.hidden, ours.read(after)[0]

    def step(*parts: Tensor) -> tuple[Tensor, ...]:
        return (ours.step(state.holding(list(parts))).hidden,)

    if backend == "onnxruntime":
        return [_as_graph(function, state.tensors(), count) for function, count in ((step_and_read, 2), (step, 1))]
    functions = [torch.compile(function, dynamic=False) if backend == "compile" else function
                 for function in (step_and_read, step)]

    def timed(function: Callable[..., object]) -> Callable[[], object]:
        def call() -> object:
            with torch.no_grad(), autocast(precision, device):
                return function(*state.tensors())
        return call

    return [timed(function) for function in functions]


def _as_graph(function: Callable[..., tuple[Tensor, ...]], parts: list[Tensor], count: int) -> Callable[[], object]:
    import onnxruntime

    from frost.runtime.onnx_backend import open_session
    from frost.runtime.onnx_graphs import exported

    names = [f"part.{number}" for number in range(len(parts))]
    with torch.no_grad():
        example = tuple(part[:1].repeat(3, *[1] * (part.ndim - 1)) for part in parts)
        graph = exported(function, example, names, ["hidden", "output"][:count])
    session = open_session(onnxruntime, graph)
    wanted = {part.name for part in session.get_inputs()}
    given = {name: part.numpy() for name, part in zip(names, parts, strict=True) if name in wanted}
    return lambda: session.run(None, given)


def _best_seconds(actions: list[Callable[[], object]], device: torch.device, least: float = 1.0,
                  rounds: int = 5) -> list[float]:
    """The shortest time of each, taking turns, of at least `least` seconds in all."""
    best, started, done = [math.inf] * len(actions), time.perf_counter(), 0
    while done <= rounds or time.perf_counter() - started < least:
        for number, action in enumerate(actions):
            before = time.perf_counter()
            action()
            synchronize(device)
            if done:    # the first round warms up, or compiles
                best[number] = min(best[number], time.perf_counter() - before)
        done += 1
    return best
