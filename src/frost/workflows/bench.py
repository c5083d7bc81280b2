"""`frost bench RUN|MODEL`: what adaptive depth is worth on the clock (§6.5, Table 3).

    speed-up    images/s ÷ those of the full-depth loop of the same model, batch and precision in the same run
    ideal       FLOPs at full depth ÷ FLOPs that the images' depths need, the once-per-image part included
    efficiency  speed-up ÷ ideal, until the queue is empty; `efficiency_whole` includes the drain

Depths are drawn before the clock starts, from the run's calibration or, for an untrained model, from the distribution
that the paper reports, and are executed, not multiplied: each image carries its own limit, and the exit test runs after
every step as it would for a threshold. All candidates take turns within one process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from frost.analysis.complexity import measure
from frost.checkpoint import load, pretrained
from frost.config import from_dict
from frost.core.precision import Precision, autocast, device_of
from frost.core.trajectory import IterativeModel
from frost.halting.budget import stops_at
from frost.halting.calibration import Cost
from frost.halting.policy import Rule
from frost.halting.signals import Reading
from frost.report.tables import si, table
from frost.runtime.engine import Engine, Executor, Request, Work
from frost.workflows.calibrate import cost_of
from frost.workflows.progress import progress
from frost.zoo.registry import ModelConfig, build, named

PAPER = {"resnet": (7.56 / 16, 2.83 / 16), "vit": (4.53 / 12, 2.34 / 12)}   # mean and deviation, of T (§6.5)
ADAPTIVE: tuple[tuple[str, Executor], ...] = (("masked", "masked"), ("compact", "compact"), ("refill", "refill"))
NEVER = Rule("rank", (math.inf,))    # the score is compared after every step; the image's own limit decides


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
    versus_vanilla: float | None = None    # images/s ÷ Vanilla's in float32 at this batch


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


class Timed(NamedTuple):
    """A stream that ran."""

    seconds: float
    until_empty: float     # seconds until nothing waited any more
    done_then: float       # images' worth of work done by then
    flops: float           # that ran, for the whole stream
    latencies: NDArray[np.float64]


def bench(name: Path | str, batches: Sequence[int] = (1, 8, 64, 256), precisions: Sequence[Precision] = ("float32",),
          mean_depth: float | None = None, executors: Sequence[str] = ("masked", "compact", "refill"),
          seed: int = 0) -> Bench:
    """Time a model's executors beside its full-depth loop and the baselines of the same block."""
    started = time.monotonic()
    for batch in batches:
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}.")
    model, config, draw, source = _subject(name, mean_depth, seed)
    once = cost_of(measure(model, config.image_channels, config.image_size))
    rows: list[Row] = []
    most = max(batches)
    depths = draw(max(10 * most if most < 256 else 4 * most, 40))
    with progress("timing", len(batches) * len(precisions)) as report:
        for number, (precision, batch) in enumerate((p, b) for p in precisions for b in batches):
            rows += _rows(str(name), model, config, once, depths, batch, precision, executors, seed)
            report(number + 1, f"batch {batch}")
    rows = _against_vanilla(rows)
    return Bench(str(name), source, float(depths.mean()), float(depths.std()), model.depth,
                 _exit_test(model, config, batches[-1], precisions[0], seed), rows, torch.get_num_threads(),
                 time.monotonic() - started)


def _subject(name: Path | str, mean_depth: float | None,
             seed: int) -> tuple[IterativeModel, ModelConfig, Callable[[int], NDArray[np.int64]], str]:
    """The model, its configuration, and a way to draw depths."""
    generator = np.random.default_rng(seed)
    if Path(name).exists() or str(name) in pretrained():
        run = load(name)
        config = from_dict(ModelConfig, run.config["model"], "model")
        if run.calibration is None:
            raise ValueError(f"{run.path} has no calibration to draw depths from; frost calibrate {run.path} makes "
                             "one.")
        rule = run.calibration.at_mean_depth(run.model.depth / 2 if mean_depth is None else mean_depth)
        taken = stops_at(run.calibration.values, rule.thresholds)
        return run.model, config, lambda count: generator.choice(taken, count), "the run's calibration"
    config = named(str(name))
    if config.architecture not in ("frost", "basic-ssm", "recurrent"):
        raise ValueError(f"{name} has weights of its own for each step and is always run as the baseline; bench "
                         f"frost-{str(name).split('-', 1)[1]}.")
    mean, deviation = (config.depth * part for part in PAPER[config.backbone])
    mean = mean if mean_depth is None else mean_depth
    if not 1 <= mean <= config.depth:
        raise ValueError(f"mean depth must lie between 1 and {config.depth}, got {mean}.")

    def drawn(count: int) -> NDArray[np.int64]:
        return np.clip(np.rint(generator.normal(mean, deviation, count)), 1, config.depth).astype(np.int64)

    return build(config, seed=seed), config, drawn, f"normal, {mean:.2f} ± {deviation:.2f} of {config.depth}"


def _rows(name: str, model: IterativeModel, config: ModelConfig, cost: Cost, depths: NDArray[np.int64], batch: int,
          precision: Precision, executors: Sequence[str], seed: int) -> list[Row]:
    """All candidates at one batch size and precision."""
    count = max(40, (4 if batch >= 256 else 10) * batch)
    depths = np.resize(depths, count)
    images = torch.rand(min(count, 4 * batch), config.image_channels, config.image_size, config.image_size,
                        generator=torch.Generator().manual_seed(seed))
    need = float(np.mean([cost.at(depth) for depth in depths]))
    at_full = cost.at(model.depth)
    baselines = {architecture: build(replace(config, architecture=architecture), seed=seed).eval()
                 for architecture in ("vanilla", "recurrent")}
    full = {name: _full_rate(model, images, batch, precision),
            **{key: _full_rate(other, images, batch, precision) for key, other in baselines.items()}}
    rate = full[name]
    rows = [Row(key, "full", batch, precision, len(images), value, 1.0, 1.0, 1.0, 1.0,
                at_full, float(model.depth), *_thirds(batch / value)) for key, value in full.items()]
    for label, executor in ADAPTIVE:
        if label not in executors:
            continue
        for drain, cached in (("constant", True), ("compact", True), ("constant", False)):
            if executor != "refill" and (drain != "constant" or not cached):
                continue
            if not cached and not _starts_from_zero(model):
                continue
            engine = Engine(model, NEVER, executor, batch, precision=precision, drain=drain, caches_first=cached)
            timed = _timed(engine, images, depths, cost)
            ideal = at_full / (need if cached else need + cost.step - cost.first)
            suffix = "" if drain == "constant" and cached else (" drain=compact" if cached else " uncached")
            rows.append(Row(name, label + suffix, batch, precision, count, count / timed.seconds,
                            count / timed.seconds / rate, ideal, timed.done_then / timed.until_empty / rate / ideal,
                            count / timed.seconds / rate / ideal, timed.flops / count, float(depths.mean()),
                            *np.quantile(timed.latencies, [0.5, 0.95, 0.99]).tolist()))
    return rows


def _timed(engine: Engine, images: Tensor, depths: NDArray[np.int64], cost: Cost) -> Timed:
    """Run a stream of images, each with its own depth, and watch the clock."""
    count = len(depths)
    read, answered = np.zeros(count), np.zeros(count)
    list(engine.run(images[:1]))                      # what is computed once per set of weights
    first = cost if engine.caches_first else Cost(cost.once, cost.step, cost.step)
    before = _flops(engine.work, first)
    done_by_empty = [0.0, 0.0]

    def stream() -> Any:
        for place, depth in enumerate(depths):
            read[place] = time.perf_counter()
            yield Request(images[place % len(images)], place, int(depth))
        done_by_empty[0], done_by_empty[1] = time.perf_counter(), _flops(engine.work, first) - before

    started = time.perf_counter()
    for result in engine.run(stream(), order="finish"):
        answered[result.key] = time.perf_counter()
    seconds = time.perf_counter() - started
    flops = _flops(engine.work, first) - before
    need = float(np.mean([first.at(depth) for depth in depths]))
    if engine.executor != "refill":
        return Timed(seconds, seconds, count, flops, answered - read)
    until_empty = done_by_empty[0] - started
    return Timed(seconds, until_empty, done_by_empty[1] / need, flops, answered - read)


def _flops(work: Work, cost: Cost) -> float:
    return work.begun * cost.at(1) + work.stepped * cost.step


def _full_rate(model: IterativeModel, images: Tensor, batch: int, precision: Precision) -> float:
    """Images per second of the plain loop: begin, T steps, one reading."""
    device = device_of(model)

    def once() -> None:
        with torch.no_grad(), autocast(precision, device):
            state = model.begin(images[:batch].to(device))
            for _ in range(model.depth):
                state = model.step(state)
            model.read(state)

    return batch / _best_seconds(once)


def _best_seconds(action: Callable[[], None], least: float = 1.0, rounds: int = 3) -> float:
    """The shortest of a few rounds, of at least `least` seconds in all; the first one does not count."""
    action()
    best, started, done = math.inf, time.perf_counter(), 0
    while done < rounds or time.perf_counter() - started < least:
        before = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - before)
        done += 1
    return best


def _exit_test(model: IterativeModel, config: ModelConfig, batch: int, precision: Precision, seed: int) -> float:
    """Reading an output, computing the signal and asking who stops, as a share of a step."""
    images = torch.rand(batch, config.image_channels, config.image_size, config.image_size,
                        generator=torch.Generator().manual_seed(seed))
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

        return _best_seconds(ask) / _best_seconds(step)


def _starts_from_zero(model: IterativeModel) -> bool:
    return hasattr(model, "_at_zero") and getattr(getattr(model, "config", model), "start", "zero") == "zero"


def _thirds(seconds: float) -> tuple[float, float, float]:
    return seconds, seconds, seconds


def _against_vanilla(rows: list[Row]) -> list[Row]:
    base = {row.batch: row.images_per_second for row in rows if row.model == "vanilla" and row.precision == "float32"}
    return [row._replace(versus_vanilla=row.images_per_second / base[row.batch] if row.batch in base else None)
            for row in rows]


def as_json(result: Bench) -> dict[str, Any]:
    """One object, times in seconds."""
    return {**result._asdict(), "rows": [row._asdict() for row in result.rows]}


def text(result: Bench) -> str:
    """The same for a person."""
    body = [[row.model, row.executor, str(row.batch), row.precision, f"{row.images_per_second:.1f}",
             f"{row.speedup:.2f}", f"{row.ideal:.2f}", f"{row.efficiency:.3f}", f"{row.efficiency_whole:.3f}",
             si(row.flops_per_image, "FLOP"), f"{row.p50:.3f}", f"{row.p99:.3f}",
             "" if row.versus_vanilla is None else f"{row.versus_vanilla:.2f}"] for row in result.rows]
    header = ["model", "executor", "batch", "precision", "images/s", "speed-up", "ideal", "efficiency", "with drain",
              "FLOPs that ran", "p50 s", "p99 s", "÷ vanilla"]
    return "\n".join([
        f"{result.model} · depth {result.depth} · depths from {result.depths}: {result.mean_depth:.2f} ± "
        f"{result.deviation:.2f} · {result.threads} threads", "", table(header, body), "",
        f"The exit test takes {100 * result.exit_test:.1f} % of a step. Measured in {result.seconds:.0f} s."])
