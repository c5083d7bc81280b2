"""What adaptive depth is worth on the clock (§6.5, Table 3), for `frost bench`.

    speed-up    images/s ÷ those of the full-depth loop of the same model, batch and precision in the same run
    ideal       FLOPs at full depth ÷ FLOPs that the images' depths need, the once-per-image part included
    efficiency  speed-up ÷ ideal, until the queue is empty; `efficiency_whole` includes the drain. So with Vanilla

Depths are drawn before the clock starts, in the shares of the run's calibration or, for an untrained model, of a normal
with the paper's mean and deviation (`depth_distribution`). They are executed, not multiplied: each image carries its
own limit, and the exit test runs after every step as it would for a threshold. The best round of each candidate counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from frost import hub
from frost.checkpoint import load, pretrained
from frost.config import from_dict
from frost.core.precision import Precision, device_of, resolve_device, resolve_precision, synchronize
from frost.core.trajectory import IterativeModel
from frost.evaluation.budget import command_for
from frost.evaluation.calibrating import cost_of
from frost.evaluation.clock import ClockPoint, clock_frontier
from frost.evaluation.complexity import measure
from frost.evaluation.depth_distribution import DEPTHS, in_shares, normal_depths
from frost.evaluation.timing import NEVER, exit_test, full_rate
from frost.halting.calibration import Calibration
from frost.halting.cost import Cost
from frost.report.progress import progress
from frost.runtime.engine import Engine, Executor
from frost.runtime.slots import Drain
from frost.runtime.stream import Request
from frost.zoo.registry import Architecture, ModelConfig, build, named

BASELINES: tuple[Architecture, ...] = ("vanilla", "recurrent", "basic-ssm")


class Candidate(NamedTuple):
    """A way to run the same stream."""

    name: str
    executor: Executor
    drain: Drain = "constant"
    caches_first: bool = True


CANDIDATES = (Candidate("masked", "masked"), Candidate("compact", "compact"), Candidate("refill", "refill"),
              Candidate("refill drain=compact", "refill", "compact"),
              Candidate("refill uncached", "refill", caches_first=False))


class Row(NamedTuple):
    """One candidate at one batch size."""

    model: str
    executor: str
    batch: int
    precision: Precision
    images: int
    images_per_second: float
    speedup: float
    ideal: float
    efficiency: float
    efficiency_whole: float
    flops_per_image: float        # that ran
    mean_depth: float
    p50: float                    # seconds from reading an image to its answer
    p95: float
    p99: float
    versus_vanilla: float | None = None          # images/s until the queue is empty ÷ Vanilla's in float32
    versus_vanilla_whole: float | None = None    # the drain included


class Bench(NamedTuple):
    """All candidates, and what they were asked."""

    model: str
    depths: str                # where the depths come from
    mean_depth: float
    deviation: float
    depth: int                 # T
    exit_test: float           # seconds of reading and testing ÷ seconds of a step
    rows: list[Row]
    threads: int
    seconds: float
    clock: list[ClockPoint]    # quality against images/s at the largest batch, for a run


class Timed(NamedTuple):
    """A stream that ran."""

    seconds: float
    until_empty: float     # seconds until nothing waited any more
    done_then: float       # images' worth of work done by then
    flops: float           # that ran, for the whole stream
    latencies: NDArray[np.float64]


def bench(name: Path | str, batches: Sequence[int] = (1, 8, 64, 256), precisions: Sequence[Precision] = ("float32",),
          mean_depth: float | None = None, executors: Sequence[str] = ("masked", "compact", "refill"),
          rounds: int = 2, seed: int = 0) -> Bench:
    """Time a model's executors beside its full-depth loop and the baselines of the same block."""
    started = time.monotonic()
    model, config, calibration, draw, source = _subject(name, mean_depth, seed)
    precisions = [resolve_precision(name, device_of(model)) for name in precisions]    # one that cannot be is refused
    cost = cost_of(measure(model))
    rows: list[Row] = []
    depths = draw(_length(max(batches)))
    with progress("timing", len(batches) * len(precisions)) as report:
        for number, (precision, batch) in enumerate((p, b) for p in precisions for b in batches):
            rows += _rows(str(name), model, config, cost, draw(_length(batch)), batch, precision, executors,
                          rounds, seed)
            report(number + 1, f"batch {batch}")
    clock = _by_the_clock(model, calibration, config, cost, max(batches), precisions[0], rounds, seed)
    return Bench(str(name), source, float(depths.mean()), float(depths.std()), model.depth,
                 exit_test(model, _images(config, batches[-1], seed), precisions[0]), _against_vanilla(rows),
                 torch.get_num_threads(), time.monotonic() - started, clock)


def _by_the_clock(model: IterativeModel, calibration: Calibration | None, config: ModelConfig, cost: Cost, batch: int,
                  precision: Precision, rounds: int, seed: int) -> list[ClockPoint]:
    """The frontier of a run on this machine; none for a model without a calibration."""
    if calibration is None:
        return []
    images = _images(config, batch, seed)

    def timed(depths: NDArray[np.int64]) -> float:
        engine = Engine(model, NEVER, "refill", batch, precision=precision)
        return len(depths) / _timed(engine, images, depths, cost).seconds

    return clock_frontier(model, calibration, images, precision, rounds, _length(batch), seed, timed)


def _subject(name: Path | str, mean_depth: float | None,
             seed: int) -> tuple[IterativeModel, ModelConfig, Calibration | None, Callable[[int], NDArray[np.int64]],
                                 str]:
    """The model, its configuration, its calibration if it is a run, and a way to draw depths."""
    generator = np.random.default_rng(seed)
    if Path(name).exists() or str(name) in pretrained() or hub.is_address(name):
        run = load(name, device="auto")
        config = from_dict(ModelConfig, run.config["model"], "model")
        if not run.model.stationary:
            raise ValueError(f"{run.path} has weights of its own for each step, so depths cannot mix; bench a "
                             "stationary model, which has Vanilla beside it.")
        if run.calibration is None:
            raise ValueError(f"{run.path} has no calibration to draw depths from; make one: {command_for(run.path)}")
        rule = run.calibration.at_mean_depth(run.model.depth / 2 if mean_depth is None else mean_depth)
        taken = run.calibration.depths_of(rule)
        found = np.bincount(taken, minlength=run.model.depth + 1)[1:] / len(taken)
        return (run.model, config, run.calibration, lambda count: in_shares(found, count, generator),
                "the run's calibration")
    config = named(str(name))
    if config.architecture not in ("frost", "basic-ssm", "recurrent"):
        raise ValueError(f"{name} has weights of its own for each step and is always run as the baseline; bench "
                         f"frost-{str(name).split('-', 1)[1]}.")
    mean, deviation = (config.depth * part for part in DEPTHS.get(config.backbone, DEPTHS["resnet"]))
    mean = mean if mean_depth is None else mean_depth
    shares = normal_depths(mean, deviation, config.depth)
    model = build(config, seed=seed).to(resolve_device("auto")).eval()
    return (model, config, None, lambda count: in_shares(shares, count, generator),
            f"normal, {mean:.2f} ± {deviation:.2f} of {config.depth}")


def _length(batch: int) -> int:
    """Of a stream, in images."""
    return max(40, (4 if batch >= 256 else 10) * batch)


def _images(config: ModelConfig, count: int, seed: int) -> Tensor:
    return torch.rand(count, *config.input_shape, generator=torch.Generator().manual_seed(seed))


def _rows(name: str, model: IterativeModel, config: ModelConfig, cost: Cost, depths: NDArray[np.int64], batch: int,
          precision: Precision, executors: Sequence[str], rounds: int, seed: int) -> list[Row]:
    """All candidates at one batch size and precision; they take turns, and the best round of each counts."""
    count = len(depths)
    images = _images(config, batch, seed)
    models: dict[str, IterativeModel] = {name: model}
    for architecture in BASELINES:
        if architecture != config.architecture:
            models[architecture] = build(replace(config, architecture=architecture), seed=seed).to(
                device_of(model)).eval()
    candidates = [candidate for candidate in CANDIDATES if candidate.executor in executors
                  and (candidate.caches_first or _starts_from_zero(model))]
    full = dict.fromkeys(models, 0.0)
    streams: dict[Candidate, Timed] = {}
    for number in range(rounds + 1):     # the first round warms up, on fewer images
        lasts = max((timed.seconds for timed in streams.values()), default=0.0) if number else 0.0
        for key, other in models.items():
            full[key] = max(full[key] * (number > 1), full_rate(other, images, precision, lasts))
        for candidate in candidates:
            engine = Engine(model, NEVER, candidate.executor, batch, precision=precision, drain=candidate.drain,
                            caches_first=candidate.caches_first)
            timed = _timed(engine, images, depths if number else depths[:2 * batch], cost)
            if number < 2 or timed.seconds < streams[candidate].seconds:
                streams[candidate] = timed
    at_full = cost.at(model.depth)
    rows = [Row(key, "full", batch, precision, batch, full[key], 1.0, 1.0, 1.0, 1.0,
                measure(other).flops_full_depth_cached,
                float(other.depth), *[batch / full[key]] * 3) for key, other in models.items()]
    for candidate, timed in streams.items():
        own = cost if candidate.caches_first else Cost(cost.once, cost.step, cost.step)
        ideal = at_full / own.at(float(depths.mean()))
        rate = count / timed.seconds
        rows.append(Row(name, candidate.name, batch, precision, count, rate, rate / full[name], ideal,
                        timed.done_then / timed.until_empty / full[name] / ideal, rate / full[name] / ideal,
                        timed.flops / count, float(depths.mean()),
                        *np.quantile(timed.latencies, [0.5, 0.95, 0.99]).tolist()))
    return rows


def _timed(engine: Engine, images: Tensor, depths: NDArray[np.int64], cost: Cost) -> Timed:
    """Run a stream of images, each with its own depth, and watch the clock."""
    count = len(depths)
    read, answered = np.zeros(count), np.zeros(count)
    cost = cost if engine.caches_first else Cost(cost.once, cost.step, cost.step)
    need = cost.at(float(depths.mean()))
    at_end: list[float] = []

    def stream() -> Iterator[Request]:
        for place, depth in enumerate(depths):
            read[place] = time.perf_counter()
            yield Request(images[place % len(images)], place, int(depth))
        work = engine.work
        at_end[:] = time.perf_counter(), work.begun_for * cost.at(1) + work.stepped_for * cost.step

    started = time.perf_counter()
    for result in engine.run(stream(), order="finish"):
        answered[result.key] = time.perf_counter()
    synchronize(device_of(engine.model))
    seconds = time.perf_counter() - started
    flops = engine.work.begun * cost.at(1) + engine.work.stepped * cost.step
    if engine.executor != "refill" or at_end[0] - started < seconds / 4:    # read whole before it began
        return Timed(seconds, seconds, count, flops, answered - read)
    return Timed(seconds, at_end[0] - started, at_end[1] / need, flops, answered - read)


def _starts_from_zero(model: IterativeModel) -> bool:
    return hasattr(model, "_at_zero")


def _against_vanilla(rows: list[Row]) -> list[Row]:
    base = {row.batch: row.images_per_second for row in rows if row.model == "vanilla" and row.precision == "float32"}
    return [row._replace(versus_vanilla=row.images_per_second / base[row.batch] * row.efficiency / row.efficiency_whole,
                         versus_vanilla_whole=row.images_per_second / base[row.batch]) if row.batch in base else row
            for row in rows]


