"""`frost.cluster.predict`: the answers for a Ray data set, from actors that hold an asynchronous engine each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from frost.checkpoint import Run, load
from frost.cluster.identity import identity
from frost.cluster.joining import needed
from frost.cluster.worker import Task, Worker
from frost.evaluation.budget import policy_of
from frost.halting.budget import Budget

if TYPE_CHECKING:
    from ray.data import Dataset

BLOCKS = 3         # of rows that share an actor's slots; with one, slots would stay empty while its last rows finish
WAITING = 6        # blocks in front of an actor: Ray looks only every 0.1 s for what it may send
FULL_DEPTH = Budget()


def predict(dataset: Dataset, run: Path | str, *, column: str = "image", key: str = "file", slots: int = 64,
            actors: int = 1, threads: int = 1, rows: int = 256, quantile: float | None = None,
            mean_depth: float | None = None, accuracy_loss: float | None = None, depth: int | None = None) -> Dataset:
    """A data set with an answer for each row: the key, `label`, `class`, `confidence`, `depth`, `score` and `error`.

    A run without classes has `output`, its numbers, in place of the first three. Rows come in no order: their key says
    which they are. The answers for equal inputs are equal, bit for bit, at the same slots and threads.

    Args:
        run: a folder that every machine sees, the name of a run that comes with the package, or an address on the hub.
        column: with file names, image files as bytes, pixels (height, width, channels), or arrays as the model takes.
        key: a column that is handed on.
        slots: rows that run together in an actor.
        actors: processes; leave processors for reading the data set, or Ray waits for them for ever.
        threads: of PyTorch, and processors that Ray keeps for an actor.
        rows: in a block, which is what is lost and done again when a machine dies.
    """
    needed("ray.data")
    budget = Budget(quantile, mean_depth, accuracy_loss, depth)
    opened = load(run)
    task = task_of(opened, run, budget, slots, threads)._replace(column=column, key=key)
    return answering(dataset.repartition(target_num_rows_per_block=rows), task, actors, rows)


def task_of(opened: Run, run: Path | str, budget: Budget, slots: int, threads: int) -> Task:
    """What the actors shall do; what cannot be done is refused here, before there are any."""
    for name, value in (("slots", slots), ("threads", threads)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
    policy_of(opened, budget)
    where = str(Path(run).absolute()) if Path(run).exists() else str(run)
    return Task(where, identity(opened), budget, slots, threads, "image", "file")


def answering(dataset: Dataset, task: Task, actors: int, rows: int, waiting: int = WAITING) -> Dataset:
    """The data set through actors; a block is a call, of which several share an actor's slots.

    Ray starts an actor that has died anew, and sends it its blocks again, as often as that takes.
    """
    compute = needed("ray.data").ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=BLOCKS + waiting,
                                                   max_concurrent_calls_per_actor=BLOCKS)
    return dataset.map_batches(Worker, fn_constructor_args=(task,), compute=compute, batch_size=rows,
                               batch_format="pyarrow", zero_copy_batch=True, num_cpus=task.threads)
