"""`frost predict --ray`: files answered by a cluster, written where the command runs, with a summary by actor.

Blocks are so small that what is under way and what is not written yet are less than two rows in a hundred together: so
much is computed twice when the whole job is killed. A small job has blocks that fill the slots, all the same.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from frost.checkpoint import load
from frost.cluster.answerfolder import AnswerFolder, answer_folder
from frost.cluster.dataset import BLOCKS, WAITING, answering, task_of
from frost.cluster.joining import check_address, cpus, joined, needed
from frost.cluster.listed import Listed, listed_rows
from frost.cluster.rows import TRACE
from frost.data.catalogue import PROBLEMS
from frost.evaluation.budget import policy_of, shown
from frost.halting.budget import Budget
from frost.interrupt import Stopped, stop_requests
from frost.report.progress import Report, progress

UNDER_WAY, UNSTARTED, UNWRITTEN = 0.0125, 0.025, 0.0025    # of all rows
MOST = 4096                    # rows of a block
LARGEST_PART = 1_000_000       # rows of a file


class Share(NamedTuple):
    """What one actor has done."""

    actor: str
    rows: int
    failed: int
    mean_depth: float            # of the rows answered
    rate: float                  # rows a second, from its first block to its last
    efficiency: float | None     # of the rows it computed, those of inputs that had not stopped


class Summary(NamedTuple):
    """What a job has done."""

    run: str
    depth: int            # T
    budget: Budget
    images: int           # answered
    failed: int
    mean_depth: float
    seconds: float        # from the first answer to the last
    startup: float        # seconds until the first answer
    before: int           # rows that an earlier run wrote
    failed_before: int
    repeated: int         # rows that came more than once, and were written once
    out: Path
    actors: list[Share]


def predict_files(run_path: Path | str, listed: Path, out: Path, address: str, *, budget: Budget = Budget(),  # noqa: B008
                  slots: int = 64, actors: int | None = None, threads: int = 1, rows: int | None = None) -> Summary:
    """Answer what a list, a folder or Parquet files name, on a Ray cluster.

    Args:
        address: HOST:PORT of a cluster's head, `auto`, or empty for a cluster of this machine alone.
        actors: None is one for each processor, or for each `threads` of them.
        rows: of a block; None keeps what is under way at 1.25 % of all rows, if that fills the slots.
    """
    started = time.monotonic()
    needed()
    needed("pyarrow")
    if address not in ("", "auto"):
        check_address(address)
    run = load(run_path)
    if run.config.get("data") in PROBLEMS and not listed.suffix == ".parquet" and not listed.is_dir():
        raise ValueError(f"{run_path} reads arrays, and {listed} is a list of files; name Parquet files.")
    task = task_of(run, run_path, budget, slots, threads)._replace(is_traced=True)
    asked = listed_rows(listed)
    count = len(asked.table)
    origin = {"run": str(run_path), "weights": task.identity.weights, "policy": str(policy_of(run, budget)),
              "batch": slots, "threads": threads, "rows": count, "files": asked.digest}
    part = min(math.ceil(count * UNWRITTEN), LARGEST_PART)
    with answer_folder(out, origin, count, part) as folder, joined(address) as ray, refused_plainly(ray):
        before, failed_before = int(folder.done.sum()), folder.failed
        pool = actors or max(1, cpus(ray) // threads)
        check_fits(ray, pool, threads)
        ledger = Ledger(started)
        if before < count:
            _run(asked, folder, task, pool, rows or block_rows(count, pool, slots), ledger)
        folder.flush()
    return ledger.summary(shown(run_path, run), run.model.depth, budget, before, failed_before, out)


def block_rows(count: int, actors: int, slots: int) -> int:
    """Rows of a block: small beside the job, but enough to fill an actor's slots, which is what small jobs get."""
    fills = math.ceil(1.5 * slots / BLOCKS)
    return min(max(int(count * UNDER_WAY) // (actors * BLOCKS), fills), MOST)


def blocks_waiting(count: int, actors: int, rows: int) -> int:
    """Blocks in front of each actor: fewer in a small job, of which Ray would not hear of too many before a kill."""
    return min(max(int(count * UNSTARTED) // (actors * rows), 1), WAITING)


def _run(asked: Listed, folder: AnswerFolder, task: Any, actors: int, rows: int, ledger: Ledger) -> None:
    """Send the blocks, and keep what comes."""
    data = needed("ray.data")
    count = len(folder.done)
    before = int(folder.done.sum())
    blocks = asked.blocks(np.flatnonzero(~folder.done), rows)
    context = data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    dataset = answering(data.from_arrow(blocks), task, min(actors, len(blocks)), rows,
                        blocks_waiting(count, actors, rows))
    with stop_requests() as request, progress("predicting", count, before) as report:
        for table in tables_of(dataset):
            new = folder.add(table.drop_columns(list(TRACE)))
            ledger.add(table, new)
            _report(report, before, ledger)
            if request:
                folder.flush()
                raise Stopped(f"stopped; {int(folder.done.sum()):,} answers are in {folder.path}; the same command "
                              "goes on.", request.number)
    missing = count - int(folder.done.sum())
    if missing:
        raise ValueError(f"{missing:,} of {count:,} rows have no answer; the same command goes on.")


def tables_of(dataset: Any) -> Iterator[Any]:
    """The answers as they come, a table a block."""
    yield from dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=4)


def _report(report: Report, before: int, ledger: Ledger) -> None:
    report(before + ledger.rows, f"{len(ledger.actors)} actors · mean depth {ledger.mean_depth:.2f}")


def check_fits(ray: Any, actors: int, threads: int) -> None:
    """Refuse more actors than there are processors for: Ray would wait for them for ever."""
    there = sum(int(node["Resources"].get("CPU", 0)) // threads for node in ray.nodes() if node["Alive"])
    if actors > there:
        raise ValueError(f"{actors} actors of {threads} processors each do not fit: the cluster has room for {there}; "
                         "choose fewer --actors or --threads.")


@contextmanager
def refused_plainly(ray: Any) -> Iterator[None]:
    """What a worker says against its task, as one sentence; other failures of Ray as one as well."""
    try:
        yield
    except ray.exceptions.RayError as error:
        words = str(error)
        found = re.findall(r"^ValueError: (the worker on .*|there is no run at .*)$", words, re.MULTILINE)
        last = (words.strip().splitlines() or [type(error).__name__])[-1]
        raise ValueError(found[-1] if found else f"Ray has given up ({last.strip()}); what was answered is kept, and "
                         "the same command goes on.") from None


class Ledger:
    """Counts by actor, without keeping the rows."""

    def __init__(self, started: float) -> None:
        self.started = started
        self.first = self.last = 0.0
        self.rows = self.failed = self.steps = self.repeated = 0
        self.actors: dict[str, dict[str, float]] = {}

    @property
    def mean_depth(self) -> float:
        """Of the rows answered."""
        return self.steps / max(self.rows - self.failed, 1)

    def add(self, table: Any, new: int) -> None:
        """Count a table of answers, of which so many were new."""
        self.last = time.monotonic()
        self.first = self.first or self.last
        self.rows += new
        self.repeated += len(table) - new
        errors, depths = table.column("error").is_valid().to_numpy(), table.column("depth").fill_null(0).to_numpy()
        ats, computed = table.column("at").to_numpy(), table.column("stepped").to_numpy()
        useful = table.column("stepped_for").to_numpy()
        if new:
            self.failed += int(errors.sum())
            self.steps += int(depths.sum())
        actors = np.array(table.column("actor").to_pylist())
        for actor in np.unique(actors):
            mine = actors == actor
            entry = self.actors.setdefault(str(actor), {"rows": 0, "failed": 0, "steps": 0, "first": float("inf"),
                                                        "last": 0.0, "useful": 0, "computed": 0})
            entry["rows"] += int(mine.sum())
            entry["failed"] += int(errors[mine].sum())
            entry["steps"] += int(depths[mine].sum())
            entry["first"], entry["last"] = min(entry["first"], ats[mine].min()), max(entry["last"], ats[mine].max())
            entry["useful"], entry["computed"] = (max(entry["useful"], int(useful[mine].max())),
                                                  max(entry["computed"], int(computed[mine].max())))

    def summary(self, run: str, depth: int, budget: Budget, before: int, failed_before: int, out: Path) -> Summary:
        """In the end."""
        shares = [Share(actor, int(one["rows"]), int(one["failed"]), one["steps"] / max(one["rows"] - one["failed"], 1),
                        one["rows"] / max(one["last"] - one["first"], 1e-3),
                        one["useful"] / one["computed"] if one["computed"] else None)
                  for actor, one in sorted(self.actors.items())]
        return Summary(run, depth, budget, self.rows - self.failed, self.failed, self.mean_depth,
                       self.last - self.first, max(self.first - self.started, 0.0), before, failed_before,
                       self.repeated, out, shares)
