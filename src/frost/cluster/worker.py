"""The actor of Ray Data: one asynchronous engine, whose slots several blocks share.

A row joins the engine when it is read and gives its slot up when it stops, whichever block it came with. An input that
cannot be read or answered is a row with an error. An engine that dies or hangs ends the process with status 1: Ray
starts an actor anew that crashes, and gives up one that leaves by itself.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from frost.checkpoint import load
from frost.cluster import rows
from frost.cluster.identity import Identity, check_same, identity
from frost.config import from_dict
from frost.core.interpreter import share_interpreter
from frost.core.malloc import keep_pages
from frost.data.catalogue import PROBLEMS
from frost.data.images import image_of_pixels, load_image
from frost.data.splits import as_float
from frost.halting.budget import Budget
from frost.runtime.async_engine import AsyncEngine, EngineStopped
from frost.runtime.engine_thread import Outcome
from frost.zoo.registry import ModelConfig

DECODERS = 2             # threads
LOOKS = 1.0              # seconds between two looks at the engine
ENDLESS = 2**60          # steps: Ray decides how many blocks come, none is refused
GROUPS_KEPT = 2          # row groups of Parquet files


class Task(NamedTuple):
    """What every actor of a job does."""

    run: str
    identity: Identity      # of the run where the job was started
    budget: Budget
    slots: int
    threads: int
    column: str             # with the inputs
    key: str                # a column that is handed on
    is_traced: bool = False    # row numbers and figures of the actor beside each answer


class Worker:
    """Answers blocks of rows."""

    def __init__(self, task: Task) -> None:
        keep_pages()
        torch.set_num_threads(task.threads)
        run = load(task.run, device="auto")
        check_same(identity(run), task.identity, task.run)
        reads_images = run.config.get("data") not in PROBLEMS
        self.image = from_dict(ModelConfig, run.config["model"], "model") if reads_images else None
        self.task, self.has_classes = task, run.model.task.gives == "classes" and reads_images
        names = run.config.get("classes")
        self.names = [str(name) for name in names] if isinstance(names, list) else []
        self.engine = AsyncEngine(run.model, run.calibration, slots=task.slots, budget=task.budget,
                                  max_queue=ENDLESS, ladder=False)
        self.threads = ThreadPoolExecutor(DECODERS, "frost-decode")
        self.number = f"{os.uname().nodename}:{os.getpid()}"
        self.watcher: asyncio.Task[None] | None = None

    async def __call__(self, block: Any) -> AsyncIterator[Any]:
        """The answers of a block, once all of it has stopped: Ray hands on whole blocks."""
        if self.watcher is None:
            self.engine.start()
            self.watcher = asyncio.get_running_loop().create_task(self._look_after())
            share_interpreter()
        inputs = await asyncio.get_running_loop().run_in_executor(self.threads, self._inputs, block)
        places = [self._enqueued(value) for value in inputs]
        waiting = [place for place in places if isinstance(place, asyncio.Future)]
        if waiting:
            await asyncio.wait(waiting)
        yield self._table(block, [self._answer(place) for place in places])

    def _enqueued(self, value: Any) -> asyncio.Future[Outcome] | Unread:
        """A place in the queue, or why there is none."""
        if isinstance(value, Unread):
            return value
        try:
            return self.engine.enqueue([value], self.engine.default)[0]
        except EngineStopped:
            os._exit(1)
        except ValueError as error:    # no input of this model
            return Unread(str(error))

    def _answer(self, place: asyncio.Future[Outcome] | Unread) -> dict[str, Any]:
        if isinstance(place, Unread):
            return {"error": place.error}
        if place.exception() is not None:    # the engine has died
            os._exit(1)
        return rows.answer(place.result(), self.has_classes, self.names)

    def _inputs(self, block: Any) -> list[Any]:
        """The inputs of a block, as the model takes them, or why there is none."""
        values = stored(block) if "source" in block.column_names else plain(block.column(self.task.column))
        return [self._input(value) for value in values]

    def _input(self, value: Any) -> Any:
        try:
            if self.image is not None and isinstance(value, str | bytes):
                source = value if isinstance(value, bytes) else Path(value)
                return as_float(load_image(source, self.image.image_size, self.image.image_channels))
            if isinstance(value, str | bytes) or value is None:
                raise ValueError(f"an input must be an array, got {type(value).__name__}.")
            array = np.asarray(value)
            if self.image is not None and array.dtype == np.uint8:
                return as_float(image_of_pixels(array, self.image.image_size, self.image.image_channels))
            return torch.from_numpy(np.array(array, copy=True))
        except (ValueError, OSError, TypeError) as error:
            return Unread(str(error))

    def _table(self, block: Any, answers: list[dict[str, Any]]) -> Any:
        import pyarrow as pa

        kinds = rows.schema(block.schema.field(self.task.key), self.has_classes)
        columns: dict[str, Any] = {self.task.key: block.column(self.task.key)}
        if self.task.is_traced:
            kinds = rows.traced(kinds)
            work = self.engine.work
            trace = (self.number, time.time(), work.begun_for + work.stepped_for, work.begun + work.stepped)
            columns["row"] = block.column("row")
            columns |= {name: [value] * len(answers) for name, value in zip(rows.TRACE, trace, strict=True)}
        columns |= {name: [found.get(name) for found in answers] for name in kinds.names if name not in columns}
        return pa.table({name: columns[name] for name in kinds.names}, schema=kinds)

    async def _look_after(self) -> None:
        """End the process if the engine does not move any more."""
        while True:
            await asyncio.sleep(LOOKS)
            if self.engine.progress.state in ("dead", "stalled"):
                os._exit(1)


class Unread(NamedTuple):
    """An input that could not be read."""

    error: str


def plain(column: Any) -> list[Any]:
    """The values of an Arrow column: text, bytes, or arrays."""
    if hasattr(column.type, "value_type") or hasattr(column.type, "storage_type"):    # lists, and Ray's tensors
        combined = column.combine_chunks()
        if hasattr(combined, "chunks"):
            combined = combined.chunk(0) if combined.num_chunks else combined
        if hasattr(combined, "to_numpy") and hasattr(column.type, "storage_type"):
            return list(combined.to_numpy(zero_copy_only=False))
    found: list[Any] = column.to_pylist()
    return found


def stored(block: Any) -> list[Any]:
    """The values of rows of Parquet files, which the block names."""
    found: list[Any] = []
    for source, column, group, place in zip(*(block.column(name).to_pylist() for name in
                                              ("source", "column", "group", "place")), strict=True):
        try:
            found.append(row_group(source, column, group)[place])
        except (OSError, ValueError, IndexError) as error:
            found.append(Unread(f"{source} cannot be read: {error}."))
    return found


@lru_cache(maxsize=GROUPS_KEPT)
def row_group(source: str, column: str, group: int) -> list[Any]:
    """A column of a row group."""
    import pyarrow.parquet as pq

    return plain(pq.ParquetFile(source).read_row_group(group, [column]).column(column))
