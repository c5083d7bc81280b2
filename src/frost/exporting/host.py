"""Runs a package that `frost export` wrote. Needs numpy and onnxruntime; Pillow for image files.

    host = Host("DIR")
    answers = host.predict(inputs, budget=4)     # a batch of any size → .outputs  .depths  .scores  .errors
    for answer in host.run(stream, budget=4):    # single inputs → .number  .output  .depth  .score  .error

    python host.py IMAGE… [--budget D]           python host.py --check

`begin.onnx` takes the first step of a batch, `step.onnx` one more of every row, whatever step that row is at. A row
that has stopped gives its slot to the next input.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Table = tuple[Array, int]    # thresholds of each signal for each step, (s, t), and the most steps
DIVERGED = "the model answers this input with NaN or infinity; it diverged"


class Answers(NamedTuple):
    """The answers for a batch; a row without one is NaN at depth 0 and in `errors`."""

    outputs: Array             # (n, …)
    depths: Array              # steps taken, (n,)
    scores: Array              # the halting score in [0, 1], (n,); NaN of a model without one
    errors: dict[int, str]


class Answer(NamedTuple):
    """The answer for one input of a stream."""

    number: int
    output: Array | None
    depth: int
    score: float
    error: str | None = None


class _Batch:
    """Rows between two steps; `numbers` are those of the inputs, −1 in a free row."""

    def __init__(self, held: dict[str, Array], answers: dict[str, Array], numbers: Array) -> None:
        self.held, self.answers, self.numbers = held, answers, numbers
        self.steps = np.ones(len(numbers), np.int64)

    def done(self, limit: int) -> list[dict[str, Array]]:
        """The answers of rows that stop here, which become free."""
        ours = self.answers
        rows = np.flatnonzero((ours["stops"] | ours["is_bad"] | (self.steps >= limit)) & (self.numbers >= 0))
        if not rows.size:
            return []
        found = {name: ours[name][rows] for name in ("output", "score_logit", "is_bad")}
        found |= {"numbers": self.numbers[rows], "depths": self.steps[rows]}
        self.numbers[rows] = -1
        return [found]

    def fill_from(self, stage: _Batch) -> None:
        """Move staged rows to free ones, first come, first served; each row is copied once."""
        moves = list(zip(np.flatnonzero(self.numbers < 0).tolist(), np.flatnonzero(stage.numbers >= 0).tolist(),
                         strict=False))
        for name, part in self.held.items():
            source = stage.held[name]
            for slot, row in moves:
                part[slot] = source[row]
        for slot, row in moves:
            self.steps[slot], self.numbers[slot], stage.numbers[row] = 1, stage.numbers[row], -1

    def shrunk(self, slots: int) -> _Batch:
        """The rows in use as a smaller batch, once half or less are; else the same batch."""
        used = np.flatnonzero(self.numbers >= 0)
        rows = rung(len(used), slots)
        if not used.size or rows >= len(self.numbers):
            return self
        places = np.concatenate([used, np.repeat(used[-1:], rows - len(used))])    # what is left over repeats a row
        batch = _Batch({name: part[places] for name, part in self.held.items()}, {}, self.numbers[places])
        batch.numbers[len(used):] = -1
        batch.steps = self.steps[places]
        return batch


class Host:
    """A package, ready to run.

    Args:
        folder: the package; None is where this file lies.
        slots: most inputs that run together.
        open_with: makes a session of a graph's file, for options of your own; None is `open_session`.
    """

    def __init__(self, folder: str | Path | None = None, slots: int = 16,
                 open_with: Callable[[str], Any] | None = None) -> None:
        if slots < 1:
            raise ValueError(f"slots must be at least 1, got {slots}.")
        self.folder, self.slots = Path(__file__).parent if folder is None else Path(folder), slots
        self.check_files("policy.json", "begin.onnx", "step.onnx")
        self.policy: dict[str, Any] = json.loads((self.folder / "policy.json").read_text(encoding="utf-8"))
        opened = open_with or open_session
        self._begin, self._step = (opened(str(self.folder / name)) for name in ("begin.onnx", "step.onnx"))
        self._takes = [{part.name for part in session.get_inputs()} for session in (self._begin, self._step)]
        self._gives = [[part.name for part in session.get_outputs()] for session in (self._begin, self._step)]

    def predict(self, inputs: Any, budget: float | None = None) -> Answers:
        """The answers for a batch, or for a tuple or dict of batches where the model takes several.

        Args:
            budget: mean depth; the nearest one of the package's. None is the rule that was chosen at export.
        """
        parts = self._checked(inputs)
        count = len(parts[0])
        chunks = ([part[start:start + self.slots] for part in parts] for start in range(0, count, self.slots))
        outputs = np.empty((0, 0), np.float32)
        depths, scores = np.zeros(count, np.int64), np.full(count, np.nan)
        errors: dict[int, str] = {}
        for found in self._refilled(chunks, self.thresholds(budget)):
            numbers, is_bad = found["numbers"], found["is_bad"]
            if not len(outputs):
                outputs = np.full((count, *found["output"].shape[1:]), np.nan, np.float32)
            good = numbers[~is_bad]
            outputs[good], depths[good] = found["output"][~is_bad], found["depths"][~is_bad]
            scores[good] = self._scores(found["score_logit"][~is_bad])
            errors |= dict.fromkeys(numbers[is_bad].tolist(), DIVERGED)
        return Answers(outputs, depths, scores, errors)

    def run(self, stream: Iterable[Any], budget: float | None = None) -> Iterator[Answer]:
        """The answers for a stream of single inputs, in its order; no more than a batch is read ahead."""
        held: dict[int, Answer] = {}
        turn = 0
        for found in self._refilled(self._chunks(iter(stream)), self.thresholds(budget)):
            scores = self._scores(found["score_logit"])
            for row, number in enumerate(found["numbers"].tolist()):
                held[number] = Answer(number, None, 0, math.nan, DIVERGED) if found["is_bad"][row] else Answer(
                    number, found["output"][row], int(found["depths"][row]), float(scores[row]))
            while turn in held:
                yield held.pop(turn)
                turn += 1

    def check_files(self, *names: str) -> None:
        """Refuse files that are not as the manifest says."""
        manifest = self.folder / "MANIFEST.json"
        if not manifest.is_file():
            raise ValueError(f"{self.folder} is no package: it has no {manifest.name}.")
        files = json.loads(manifest.read_text(encoding="utf-8"))["files"]
        for name in names:
            if name not in files or not (self.folder / name).is_file():
                raise ValueError(f"{self.folder / name} is missing.")
            if hashlib.sha256((self.folder / name).read_bytes()).hexdigest() != files[name]["sha256"]:
                raise ValueError(f"{self.folder / name} is damaged: its SHA-256 is not that of the manifest.")

    def _refilled(self, chunks: Iterator[list[Array]], table: Table) -> Iterator[dict[str, Array]]:
        """Answers as they become known, some rows at a time."""
        limit, rows = table[1], np.repeat(table[0][None], self.slots, axis=0)
        live: _Batch | None = None
        stage: _Batch | None = None
        first, is_over = 0, False
        while True:
            while not is_over and (live is None or (live.numbers < 0).any()):
                if stage is None:
                    parts = next(chunks, None)
                    is_over = parts is None
                    if parts is None:
                        break
                    stage, first = self._begun(parts, rows, first), first + len(parts[0])
                    yield from stage.done(limit)
                if live is None or (live.numbers < 0).all():
                    live, stage = stage, None
                else:
                    live.fill_from(stage)
                    stage = stage if (stage.numbers >= 0).any() else None
            if live is None or (live.numbers < 0).all():
                return
            if is_over:
                live = live.shrunk(self.slots)
            self._stepped(live, rows)
            yield from live.done(limit)

    def _begun(self, parts: list[Array], table: Array, first: int) -> _Batch:
        """Stem and first step of up to `slots` inputs; what is left over of a shape repeats the last one."""
        count = len(parts[0])
        rows = rung(count, self.slots)
        padded = [np.concatenate([part, np.repeat(part[-1:], rows - count, axis=0)]) for part in parts] \
            if rows > count else parts
        names = [part["name"] for part in self.policy["inputs"]]
        found = self._ran(0, {**dict(zip(names, padded, strict=True)), "table": table[:rows]})
        numbers = np.where(np.arange(rows) < count, np.arange(first, first + rows), -1)
        return _Batch({name: part for name, part in found.items() if name in self._takes[1]}, found, numbers)

    def _stepped(self, batch: _Batch, table: Array) -> None:
        """One more step of every row."""
        batch.steps += 1
        batch.answers = self._ran(1, {**batch.held, "steps": batch.steps, "table": table[:len(batch.steps)]})
        for name in batch.held:
            batch.held[name] = batch.answers.pop(f"next.{name}", batch.held[name])

    def _ran(self, which: int, given: dict[str, Array]) -> dict[str, Array]:
        session = (self._begin, self._step)[which]
        takes = self._takes[which]
        found = session.run(None, {name: part for name, part in given.items() if name in takes})
        return dict(zip(self._gives[which], found, strict=True))

    def _chunks(self, stream: Iterator[Any]) -> Iterator[list[Array]]:
        while items := [self._parts(item) for item in islice(stream, self.slots)]:
            yield self._checked(tuple(np.stack(part) for part in zip(*items, strict=True)))

    def _parts(self, inputs: Any) -> list[Array]:
        """The arrays of an input, in the order of the graphs: one array, a tuple or a dict of them."""
        named = self.policy["inputs"]
        if isinstance(inputs, dict):
            inputs = tuple(inputs[part["key"]] for part in named if part["key"] in inputs)
        parts = [np.asarray(part) for part in (inputs if isinstance(inputs, tuple) else (inputs,))]
        if len(parts) != len(named):
            raise ValueError(f"the model takes {len(named)} arrays ({', '.join(part['name'] for part in named)}), got "
                             f"{len(parts)}.")
        return parts

    def _checked(self, inputs: Any) -> list[Array]:
        """Arrays of the model's kinds, with the batch in front; anything else is a ValueError."""
        named, arrays = self.policy["inputs"], self._parts(inputs)
        for part, array in zip(named, arrays, strict=True):
            wanted, name = np.dtype(part["dtype"]), part["name"]
            if array.shape != (*arrays[0].shape[:1], *part["shape"]):
                raise ValueError(f"{name} must have the shape (n, {', '.join(map(str, part['shape']))}), got "
                                 f"{array.shape}.")
            if array.dtype.kind.replace("u", "i") != wanted.kind.replace("u", "i"):
                raise ValueError(f"{name} must be {wanted}, got {array.dtype}.")
            if wanted.kind == "f" and not np.isfinite(array).all():
                raise ValueError(f"{name} holds NaN or infinity.")
        return [np.ascontiguousarray(array, part["dtype"]) for part, array in zip(named, arrays, strict=True)]

    def _scores(self, logits: Array) -> Array:
        """s = σ(z) in double precision."""
        exact = logits.astype(np.float64) if self.policy["has_score"] else np.full(len(logits), np.nan)
        small = np.exp(-np.abs(exact))
        found: Array = np.where(exact >= 0, 1 / (1 + small), small / (1 + small))
        return found

    def thresholds(self, budget: float | None = None) -> Table:
        """The thresholds of a mean depth, and the most steps."""
        rule, depth = self.policy["rule"], self.policy["depth"]
        if budget is not None:
            if not 1 <= budget <= depth:
                raise ValueError(f"budget is a mean depth between 1 and {depth}, got {budget}.")
            rule = min(self.policy["budgets"], key=lambda known: abs(known["mean_depth"] - budget))
        numbers = [[float(number) for number in row] for row in rule["thresholds"]]
        return np.array(numbers, np.float32).reshape(len(self.policy["signals"]), depth), rule["limit"]

def rung(count: int, slots: int) -> int:
    """The shape that so many rows run at: 1, 2, 4, … up to `slots`."""
    return min(slots, 1 << max(count - 1, 0).bit_length())


def open_session(graph: str) -> Any:
    """A session on the CPU; all sessions of a process share one pool of threads.

    The idle threads of a pool of its own would go on waiting, busily, on the core that the other session needs.
    """
    import onnxruntime

    if not _pool:
        threads = os.environ.get("OMP_NUM_THREADS", "")
        count = int(threads) if threads.isdecimal() and int(threads) > 0 else os.cpu_count() or 1
        onnxruntime.set_global_thread_pool_sizes(count, 1)
        _pool.append(count)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.use_per_session_threads = False
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


_pool: list[int] = []    # threads of the pool, once it is made


if __name__ == "__main__":
    sys.exit(import_module("host_cli").main(Host))    # it lies beside this file
