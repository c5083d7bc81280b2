"""`frost bench RUN|MODEL`: what adaptive depth is worth on the clock (§6.5, Table 3)."""

from __future__ import annotations

import argparse
from typing import Any

from frost.commands.common import Reply, add_device, check_between
from frost.evaluation import clock
from frost.evaluation.throughput import Bench, bench
from frost.report.tables import si, table
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
    parser.add_argument("--mean-depth", type=float, metavar="D",
                        help="default: half of a run's depth, or the paper's for an untrained model")
    parser.add_argument("--rounds", type=int, default=2, help="of which the best counts (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of images, weights and depths (default: %(default)s)")


def run(options: argparse.Namespace) -> Reply:
    """Time a model's executors beside its full-depth loop and the baselines of the same block."""
    for option, number, least, most in (("--rounds", options.rounds, 1, 10**6), ("--seed", options.seed, 0, 2**62 - 1),
                                        *(("--batch", batch, 1, LARGEST_BATCH) for batch in options.batch)):
        check_between(option, number, least, most)
    result = bench(options.model, options.batch, options.precision, options.mean_depth, options.executor,
                   options.rounds, options.seed)
    return Reply(as_json(result), text(result))


def as_json(result: Bench) -> dict[str, Any]:
    """One object, times in seconds."""
    return {**result._asdict(), "rows": [row._asdict() for row in result.rows],
            "clock": [point._asdict() for point in result.clock]}


def text(result: Bench) -> str:
    """The same for a person."""
    body = [[row.model, row.executor, str(row.batch), row.precision, f"{row.images_per_second:.1f}",
             f"{row.speedup:.2f}", f"{row.ideal:.2f}", f"{row.efficiency:.3f}", f"{row.efficiency_whole:.3f}",
             si(row.flops_per_image, "FLOP"), f"{row.p50:.3f}", f"{row.p99:.3f}",
             *("" if ratio is None else f"{ratio:.2f}" for ratio in (row.versus_vanilla, row.versus_vanilla_whole))]
            for row in result.rows]
    header = ("model", "executor", "batch", "precision", "images/s", "speed-up", "ideal", "efficiency", "with drain",
              "FLOPs that ran", "p50 s", "p99 s", "÷ vanilla", "with drain")
    return "\n".join([
        f"{result.model} · depth {result.depth} · depths from {result.depths}: {result.mean_depth:.2f} ± "
        f"{result.deviation:.2f} · {result.threads} threads", "", table(header, body), "",
        *([clock.text(result.clock, max(row.batch for row in result.rows)), ""] if result.clock else []),
        f"The exit test takes {100 * result.exit_test:.1f} % of a step. Measured in {result.seconds:.0f} s."])
