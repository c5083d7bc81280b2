"""`frost bench RUN|MODEL`: what adaptive depth is worth on the clock (§6.5, Table 3)."""

from __future__ import annotations

import argparse
import importlib.util
from typing import Any

from frost.checkpoint import load
from frost.commands.common import Reply, add_device, check_between
from frost.core.precision import resolve_device
from frost.evaluation import clock
from frost.evaluation.throughput import Bench, bench, fastest_of
from frost.report.tables import percent, si, table
from frost.runtime.backend import BACKENDS, BackendName
from frost.runtime.fastest import remember_fastest
from frost.training.settings import LARGEST_BATCH


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost bench`."""
    add_device(parser)
    parser.add_argument("model", metavar="RUN|MODEL",
                        help="folder, name or hf:// address of a run, or a model such as frost-vit-b16")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 64, 256], metavar="B",
                        help="images that run together (default: 1 8 64 256)")
    parser.add_argument("--precision", nargs="+", choices=("float32", "bf16"), default=["float32"],
                        help="default: float32")
    parser.add_argument("--executor", nargs="+", choices=("masked", "compact", "refill"),
                        default=["masked", "compact", "refill"], help="default: all three")
    parser.add_argument("--backend", nargs="+", choices=BACKENDS, metavar="NAME",
                        help=f"of {', '.join(BACKENDS)} (default: those that are installed)")
    parser.add_argument("--save", action="store_true",
                        help="remember which backend was fastest on this machine, for Engine(backend='auto')")
    parser.add_argument("--mean-depth", type=float, metavar="D",
                        help="default: half of a run's depth, or the paper's for an untrained model")
    parser.add_argument("--rounds", type=int, default=5, help="of which the best counts (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of images, weights and depths (default: %(default)s)")


def run(options: argparse.Namespace) -> Reply:
    """Time a model's executors beside its full-depth loop and the baselines of the same block."""
    for option, number, least, most in (("--rounds", options.rounds, 1, 10**6), ("--seed", options.seed, 0, 2**62 - 1),
                                        *(("--batch", batch, 1, LARGEST_BATCH) for batch in options.batch)):
        check_between(option, number, least, most)
    result = bench(options.model, options.batch, options.precision, options.mean_depth, options.executor,
                   options.backend or installed(), options.rounds, options.seed)
    kept = remember_fastest(load(options.model).model, fastest_of(result)) if options.save else None
    return Reply({**as_json(result), "saved": None if kept is None else str(kept)},
                 text(result) + ("" if kept is None else f"\nRemembered in {kept}."))


def installed() -> list[BackendName]:
    """The backends whose libraries are there; a GPU has no ONNX Runtime of ours."""
    on_cpu = resolve_device("auto").type == "cpu"
    is_there = on_cpu and all(importlib.util.find_spec(name) for name in ("onnx", "onnxscript", "onnxruntime"))
    return [name for name in BACKENDS if name != "onnxruntime" or is_there]


def as_json(result: Bench) -> dict[str, Any]:
    """One object, times in seconds."""
    return {**result._asdict(), "exit_tests": {name: asked._asdict() for name, asked in result.exit_tests.items()},
            "rows": [row._asdict() for row in result.rows],
            "clock": [point._asdict() for point in result.clock]}


def text(result: Bench) -> str:
    """The same for a person."""
    body = [[row.model, row.executor, row.backend, str(row.batch), row.precision, f"{row.images_per_second:.1f}",
             f"{row.speedup:.2f}", f"{row.ideal:.2f}", f"{row.efficiency:.3f}", f"{row.efficiency_whole:.3f}",
             si(row.flops_per_image, "FLOP"), percent(row.share_of_peak), f"{row.p50:.4f}", f"{row.p99:.4f}",
             *("" if ratio is None else f"{ratio:.2f}" for ratio in (row.versus_vanilla, row.versus_vanilla_whole,
                                                                     row.versus_fastest))]
            for row in result.rows]
    header = ("model", "executor", "backend", "batch", "precision", "images/s", "speed-up", "ideal", "efficiency",
              "with drain", "FLOPs that ran", "of peak", "p50 s", "p99 s", "÷ vanilla", "with drain", "÷ fastest")
    ratio = "" if result.vanilla_flops_ratio is None else (
        f" Vanilla at full depth takes {result.vanilla_flops_ratio:.2f} times the FLOPs.")
    return "\n".join([
        f"{result.model} · depth {result.depth} · depths from {result.depths}: {result.mean_depth:.2f} ± "
        f"{result.deviation:.2f} · {result.threads} threads", "", table(header, body), "",
        *([clock.text(result.clock, max(row.batch for row in result.rows)), ""] if result.clock else []),
        *(f"{name}: the exit test adds {100 * asked.exit_test:.1f} % to a step and its reading, reading "
          f"{100 * asked.reading:.1f} % to a step." for name, asked in result.exit_tests.items()),
        f"'÷ fastest' is against Vanilla by its fastest backend.{ratio} A large matrix product reaches "
        f"{result.peak_flops / 1e9:.0f} GFLOP/s. Measured in {result.seconds:.0f} s."])
