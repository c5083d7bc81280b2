"""What adaptive depth is worth on the clock (§6.5, Table 3), for `frost bench`.

    speed-up    images/s ÷ those of full depth of the same model, backend, batch and precision in the same run
    ideal       FLOPs at full depth ÷ FLOPs that the images' depths need, the once-per-image part included
    efficiency  speed-up ÷ ideal, until the queue is empty; `efficiency_whole` includes the drain. So with Vanilla

Depths are drawn before the clock starts, in the shares of the run's calibration or, for an untrained model, of a normal
with the paper's mean and deviation (`depth_distribution`). They are executed, not multiplied: each image carries its
own limit, and the exit test runs after every step as it would for a threshold. Candidates take turns, and the best
round of each counts. Beside them stands what a user would run instead: Vanilla at full depth, by every backend.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
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
from frost.core.precision import Precision, device_of, resolve_device, resolve_precision
from frost.core.trajectory import IterativeModel
from frost.evaluation.budget import command_for
from frost.evaluation.calibrating import cost_of
from frost.evaluation.clock import ClockPoint, clock_frontier
from frost.evaluation.complexity import measure
from frost.evaluation.depth_distribution import DEPTHS, in_shares, normal_depths
from frost.evaluation.full_depth import Run, at_full_depth
from frost.evaluation.timed_stream import Timed, timed
from frost.evaluation.timing import NEVER, ExitTest, exit_test, full_rate, peak_flops
from frost.halting.calibration import Calibration
from frost.halting.cost import Cost
from frost.report.progress import progress
from frost.runtime.backend import BackendName
from frost.runtime.engine import Engine, Executor
from frost.zoo.registry import Architecture, ModelConfig, build, named

BASELINES: tuple[Architecture, ...] = ("vanilla", "recurrent", "basic-ssm")


class Candidate(NamedTuple):
    """A way to run the same stream."""

    name: str
    executor: Executor
    backend: BackendName = "eager"
    ladder: bool = False
    caches_first: bool = True


CANDIDATES = (Candidate("masked", "masked"), Candidate("compact", "compact"), Candidate("refill", "refill"),
              Candidate("refill ladder", "refill", ladder=True),
              Candidate("refill uncached", "refill", caches_first=False),
              Candidate("refill", "refill", "compile"),    # no ladder: each of its shapes takes seconds
              Candidate("refill", "refill", "onnxruntime"),
              Candidate("refill ladder", "refill", "onnxruntime", ladder=True))


class Row(NamedTuple):
    """One candidate at one batch size."""

    model: str
    executor: str
    backend: BackendName
    batch: int
    precision: Precision
    images: int
    images_per_second: float
    speedup: float
    ideal: float
    efficiency: float
    efficiency_whole: float
    flops_per_image: float        # that ran
    share_of_peak: float          # these FLOPs a second ÷ those of a large matrix product
    mean_depth: float
    p50: float                    # seconds from reading an image to its answer
    p95: float
    p99: float
    versus_vanilla: float | None = None          # images/s until the queue is empty ÷ eager Vanilla's in float32
    versus_vanilla_whole: float | None = None    # the drain included
    versus_fastest: float | None = None          # the drain included, ÷ Vanilla's by its fastest backend


class Bench(NamedTuple):
    """All candidates, and what they were asked."""

    model: str
    depths: str                # where the depths come from
    mean_depth: float
    deviation: float
    depth: int                 # T
    vanilla_flops_ratio: float | None    # Vanilla's FLOPs at full depth ÷ ours at these depths: what could be had
    peak_flops: float          # a second, of a large matrix product
    exit_tests: dict[BackendName, ExitTest]      # by backend, at the largest batch
    rows: list[Row]
    threads: int
    seconds: float
    clock: list[ClockPoint]    # quality against images/s at the largest batch, for a run


def bench(name: Path | str, batches: Sequence[int] = (1, 8, 64, 256), precisions: Sequence[Precision] = ("float32",),
          mean_depth: float | None = None, executors: Sequence[str] = ("masked", "compact", "refill"),
          backends: Sequence[BackendName] = ("eager",), rounds: int = 5, seed: int = 0) -> Bench:
    """Time a model's executors beside its full depth and the baselines of the same block, by each backend."""
    started = time.monotonic()
    model, config, calibration, draw, source = _subject(name, mean_depth, seed)
    precisions = [resolve_precision(name, device_of(model)) for name in precisions]    # one that cannot be is refused
    subject = _Subject(str(name), model, cost_of(measure(model)), _models(str(name), model, config, seed),
                       [candidate for candidate in CANDIDATES if candidate.executor in executors and
                        candidate.backend in backends and (candidate.caches_first or _starts_from_zero(model))],
                       peak_flops())
    rows: list[Row] = []
    depths = draw(_length(max(batches)))
    with progress("timing", len(batches) * len(precisions)) as report:
        for number, precision in enumerate(precisions):
            full = _full_depth(subject, backends, precision)
            for place, batch in enumerate(batches):
                rows += _rows(subject, full, _images(config, batch, seed), draw(_length(batch)), precision, rounds)
                report(number * len(batches) + place + 1, f"batch {batch}")
    clock = _by_the_clock(model, calibration, config, subject.cost, max(batches), precisions[0], rounds, seed)
    asked = {backend: exit_test(model, _images(config, max(batches), seed), precisions[0], backend)
             for backend in backends if precisions[0] == "float32" or backend != "onnxruntime"}
    vanilla = subject.models.get("vanilla")
    ratio = None if vanilla is None else (
        measure(vanilla).flops_full_depth_cached / subject.cost.at(float(depths.mean())))
    return Bench(str(name), source, float(depths.mean()), float(depths.std()), model.depth, ratio, subject.peak, asked,
                 _against_vanilla(rows), torch.get_num_threads(), time.monotonic() - started, clock)


def fastest_of(result: Bench) -> dict[int, BackendName]:
    """The backend of the fastest refill at each batch size, in float32."""
    found: dict[int, Row] = {}
    for row in result.rows:
        is_ours = row.executor.startswith("refill") and row.precision == "float32"
        if is_ours and (row.batch not in found or row.images_per_second > found[row.batch].images_per_second):
            found[row.batch] = row
    return {batch: row.backend for batch, row in found.items()}


class _Subject(NamedTuple):
    """What is timed."""

    name: str
    model: IterativeModel
    cost: Cost
    models: dict[str, IterativeModel]    # the model and its baselines
    candidates: list[Candidate]
    peak: float


def _models(name: str, model: IterativeModel, config: ModelConfig, seed: int) -> dict[str, IterativeModel]:
    """The model, and the baselines of the same block."""
    models = {name: model}
    for architecture in BASELINES:
        if architecture != config.architecture:
            models[architecture] = build(replace(config, architecture=architecture), seed=seed).to(
                device_of(model)).eval()
    return models


def _full_depth(subject: _Subject, backends: Sequence[BackendName],
                precision: Precision) -> dict[tuple[str, BackendName], Run]:
    """Full depth of the model and of Vanilla by every backend, of the others eagerly."""
    names = (subject.name, "vanilla")
    return {(name, backend): at_full_depth(model, backend, precision) for name, model in subject.models.items()
            for backend in (backends if name in names else backends[:1])
            if precision == "float32" or backend != "onnxruntime"}


def _by_the_clock(model: IterativeModel, calibration: Calibration | None, config: ModelConfig, cost: Cost, batch: int,
                  precision: Precision, rounds: int, seed: int) -> list[ClockPoint]:
    """The frontier of a run on this machine; none for a model without a calibration."""
    if calibration is None:
        return []
    images = _images(config, batch, seed)

    def rate(depths: NDArray[np.int64]) -> float:
        engine = Engine(model, NEVER, "refill", batch, precision=precision)
        return len(depths) / timed(engine, images, depths, cost).seconds

    return clock_frontier(model, calibration, images, precision, rounds, _length(batch), seed, rate)


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


def _rows(subject: _Subject, full: dict[tuple[str, BackendName], Run], images: Tensor, depths: NDArray[np.int64],
          precision: Precision, rounds: int) -> list[Row]:
    """All candidates at one batch size and precision; they take turns, and the best round of each counts."""
    count, batch = len(depths), len(images)
    engines = {candidate: Engine(subject.model, NEVER, candidate.executor, batch, precision=precision,
                                 backend=candidate.backend, ladder=candidate.ladder,
                                 caches_first=candidate.caches_first)
               for candidate in subject.candidates if (subject.name, candidate.backend) in full}
    rates = dict.fromkeys(full, 0.0)
    streams: dict[Candidate, Timed] = {}
    for number in range(rounds + 1):     # the first round warms up, on fewer images
        lasts = min((stream.seconds for stream in streams.values()), default=0.0) if number else 0.0
        for key, run in full.items():
            rates[key] = max(rates[key] * (number > 1), full_rate(run, images, lasts))
        for candidate, engine in engines.items():
            stream = timed(engine, images, depths if number else depths[:2 * batch], subject.cost)
            if number < 2 or stream.seconds < streams[candidate].seconds:
                streams[candidate] = stream
    rows = []
    for (name, backend), rate in rates.items():
        model = subject.models[name]
        flops = float(measure(model).flops_full_depth_cached)
        rows.append(Row(name, "full", backend, batch, precision, batch, rate, 1.0, 1.0, 1.0, 1.0, flops,
                        rate * flops / subject.peak, float(model.depth), *[batch / rate] * 3))
    for candidate, stream in streams.items():
        own = subject.cost if candidate.caches_first else Cost(subject.cost.once, subject.cost.step, subject.cost.step)
        ideal = subject.cost.at(subject.model.depth) / own.at(float(depths.mean()))
        rate, base = count / stream.seconds, rates[subject.name, candidate.backend]
        rows.append(Row(subject.name, candidate.name, candidate.backend, batch, precision, count, rate, rate / base,
                        ideal, stream.done_then / stream.until_empty / base / ideal, rate / base / ideal,
                        stream.flops / count,
                        stream.flops / stream.seconds / subject.peak, float(depths.mean()),
                        *np.quantile(stream.latencies, [0.5, 0.95, 0.99]).tolist()))
    return rows


def _starts_from_zero(model: IterativeModel) -> bool:
    return hasattr(model, "_at_zero")


def _against_vanilla(rows: list[Row]) -> list[Row]:
    vanilla = [row for row in rows if row.model == "vanilla" and row.precision == "float32"]
    eager = {row.batch: row.images_per_second for row in vanilla if row.backend == "eager"}
    fastest = {batch: max(row.images_per_second for row in vanilla if row.batch == batch)
               for batch in {row.batch for row in vanilla}}

    def compared(row: Row) -> Row:
        rate = row.images_per_second
        base = eager.get(row.batch)
        if base is not None:
            row = row._replace(versus_vanilla=rate / base * row.efficiency / row.efficiency_whole,
                               versus_vanilla_whole=rate / base)
        return row._replace(versus_fastest=rate / fastest[row.batch]) if row.batch in fastest else row

    return [compared(row) for row in rows]
