"""`frost predict --ray`: the command's options, and its answer as a table and as JSON."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from frost.commands.common import Reply, check_between
from frost.halting.budget import Budget
from frost.report.tables import table
from frost.training.settings import LARGEST_BATCH

if TYPE_CHECKING:
    from frost.cluster.job import Summary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost predict`, for many machines."""
    group = parser.add_argument_group("on many machines", "--list names a list, a folder or Parquet files, and --out a "
                                      "folder for Parquet files; needs the extra 'cluster'")
    group.add_argument("--ray", nargs="?", const="", metavar="ADDRESS",
                       help="answer on a Ray cluster: HOST:PORT of its head, or auto (default: this machine alone)")
    group.add_argument("--actors", type=int, metavar="N", help="processes (default: as many as there are processors)")
    group.add_argument("--threads", type=int, default=1, metavar="N",
                       help="processors of an actor (default: %(default)s)")
    group.add_argument("--block", type=int, metavar="ROWS",
                       help="rows that are sent to an actor together; those under way when it dies are computed "
                       "again (default: so that these are 1.25 %% of all)")


def run(options: argparse.Namespace) -> Reply:
    """Answer the files on a cluster."""
    if options.listed is None or options.out is None or options.files:
        raise ValueError("with --ray, name what to answer by --list FILE, FOLDER or PARQUET, and a folder by --out.")
    for option, number in (("--actors", options.actors), ("--threads", options.threads), ("--block", options.block)):
        if number is not None:
            check_between(option, number, 1, LARGEST_BATCH)
    from frost.cluster.job import predict_files

    budget = Budget(options.quantile, options.mean_depth, options.accuracy_loss, options.depth)
    done = predict_files(options.run, options.listed, options.out, options.ray, budget=budget, slots=options.batch,
                         actors=options.actors, threads=options.threads, rows=options.block)
    failed = done.failed + done.failed_before
    if failed and failed == done.before + done.images + done.failed:
        raise ValueError(f"none of {failed:,} files gave an answer; {done.out} says why.")
    return Reply(as_json(done), text(done), 1 if failed else 0)


def as_json(done: Summary) -> dict[str, Any]:
    """One object."""
    return {**done._asdict(), "budget": done.budget._asdict(), "out": str(done.out),
            "actors": [share._asdict() for share in done.actors]}


def text(done: Summary) -> str:
    """The same for a person."""
    asked = " ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in done.budget.named().items())
    rows = done.images + done.failed
    more = f"; {done.before:,} were there before" if done.before else ""
    head = (f"{done.run} · {done.images:,} images · {asked or 'full depth'} · mean depth {done.mean_depth:.2f} of "
            f"{done.depth}\n{done.failed:,} without an answer · {rows / max(done.seconds, 1e-3):.0f} images/s after "
            f"{done.startup:.1f} s of starting · answers in {done.out}{more}")
    body = [[share.actor, f"{share.rows:,}", f"{share.mean_depth:.2f}", f"{share.rate:.0f}",
             "" if share.efficiency is None else f"{100 * share.efficiency:.0f} %"] for share in done.actors]
    return f"{head}\n\n{table(['actor', 'rows', 'mean depth', 'rows/s', 'efficiency'], body)}" if body else head
