"""Everything that a training writes as it goes: logbook, validations, probes, and TensorBoard's curves if asked for.

A logbook has one JSON object a line, in the order of the steps, each step once. Lines are appended while the run goes
on. When it goes on from a checkpoint, lines of later steps are cut off, so that the file reads as if the run had never
been interrupted. Of several processes rank 0 writes; the others hold records that write nothing.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from frost.directory import explained, replace_file
from frost.training.loop import StepRecord
from frost.training.validation import Validation

LOGBOOK, VALIDATIONS, PROBES, TENSORBOARD = "logbook.jsonl", "validation.jsonl", "probes.jsonl", "tensorboard"
CURVES = ("loss", "task", "relative", "anchoring", "accuracy", "scale", "hurst", "learning_rate", "gradient_norm",
          "easy_score", "hard_score", "median_score")


class Records:
    """The files of a run in training, cut back to the step that it goes on from."""

    def __init__(self, out: Path, last_step: int, files: ExitStack, writes: bool, tensorboard: bool,
                 probes: bool = False) -> None:
        def book(name: str, after: int = last_step) -> Logbook | None:
            return files.enter_context(Logbook(out / name, after)) if writes else None

        self.logbook, self.validations = book(LOGBOOK), book(VALIDATIONS)
        self.probes = book(PROBES, last_step or -1) if probes else None    # step 0 is probed again
        self.tensorboard = (files.enter_context(TensorBoard(out / TENSORBOARD, last_step))
                            if writes and tensorboard else None)

    @property
    def last_validation(self) -> int:
        """The step of the last validation in the file; 0 if there is none."""
        return 0 if self.validations is None else self.validations.last_step

    def step(self, record: StepRecord) -> None:
        """A training step."""
        if self.logbook is not None:
            self.logbook.write(record._asdict())
        if self.tensorboard is not None:
            self.tensorboard.write(record)

    def validation(self, validation: Validation, place: dict[str, Any]) -> None:
        """A validation, and where in the training it was."""
        if self.validations is not None:
            self.validations.write({**place, **validation._asdict()})
        if self.tensorboard is not None:
            self.tensorboard.write_validation(validation, place["step"])

    def probe(self, step: int, found: Mapping[str, Any] | None) -> None:
        """What a probe found in the model at this step, if anything."""
        if self.probes is not None and found is not None:
            self.probes.write({"step": step, **found})

    def sync(self) -> None:
        """Return when everything is on the disk; called before a checkpoint that counts on it."""
        for book in (self.logbook, self.validations, self.probes):
            if book is not None:
                book.sync()
        if self.tensorboard is not None:
            self.tensorboard.flush()


class Logbook:
    """A file of JSON lines that carry a `step`."""

    def __init__(self, path: Path, last_step: int = 0) -> None:
        """Open for appending, after cutting off what lies beyond `last_step`."""
        kept = cut_back(path, last_step)
        self.path = path
        self.last_step = kept[-1]["step"] if kept else 0
        self._file = path.open("a", encoding="utf-8")

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append a line; it is in the hands of the system at once, so that a kill does not lose it."""
        with explained(self.path):
            self._file.write(json.dumps(entry, allow_nan=False) + "\n")
            self._file.flush()
        self.last_step = entry["step"]

    def sync(self) -> None:
        """Return when all lines are on the disk; called before a checkpoint that counts on them."""
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def read_logbook(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a logbook; half a line at its end, left by a kill, is not one."""
    if not path.exists():
        return []
    *lines, _ = path.read_text(encoding="utf-8").split("\n")
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise ValueError(f"{path} holds a line that is not JSON ({error}); move the file away and go on.") from error


def cut_back(path: Path, last_step: int) -> list[dict[str, Any]]:
    """Remove everything after `last_step`, whatever it is; what is kept is returned.

    Lines up to the last checkpoint were on the disk before it. What a power cut leaves behind them may be anything.
    """
    if not path.exists():
        return []
    kept: list[dict[str, Any]] = []
    for line in path.read_bytes().split(b"\n"):
        try:
            entry = json.loads(line)
            if entry["step"] > last_step:
                break
        except (ValueError, TypeError, LookupError):
            break
        kept.append(entry)
    replace_file(path, "".join(json.dumps(entry, allow_nan=False) + "\n" for entry in kept).encode())
    return kept


def check_tensorboard() -> None:
    """Refuse before anything is written if TensorBoard is not installed."""
    if not importlib.util.find_spec("tensorboard"):
        raise ValueError("--tensorboard needs tensorboard: pip install -e '.[train]' in a clone of frost; the logbook "
                         "is written in any case.")


class TensorBoard:
    """Writes event files that `tensorboard --logdir RUN` shows (extra `train`)."""

    def __init__(self, folder: Path, last_step: int = 0) -> None:
        check_tensorboard()
        from torch.utils.tensorboard import SummaryWriter  # here, because importing it takes seconds

        self._writer = SummaryWriter(str(folder), purge_step=last_step + 1)

    def write(self, record: StepRecord) -> None:
        """The curves of a training step."""
        for name in CURVES:
            value = getattr(record, name)
            if value is not None:
                self._writer.add_scalar(f"train/{name}", value, record.step)
        for step, accuracy in enumerate(record.accuracy_per_step or (), 1):
            self._writer.add_scalar(f"train-accuracy/t{step:02d}", accuracy, record.step)

    def write_validation(self, validation: Validation, step: int) -> None:
        """The depth–accuracy curve on held-out images."""
        for name, curve in (("accuracy", validation.accuracy), ("loss", validation.loss)):
            for t, value in enumerate(curve or (), 1):
                self._writer.add_scalar(f"validation-{name}/t{t:02d}", value, step)

    def flush(self) -> None:
        """Hand everything to the disk; called before a checkpoint."""
        self._writer.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()
