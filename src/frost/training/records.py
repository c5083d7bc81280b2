"""Everything that a training writes as it goes: logbook, validations, and curves if they are wanted.

Of several processes the first one writes; the others hold records that write nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from frost.training.board import Board
from frost.training.evaluate import Validation
from frost.training.logbook import Logbook
from frost.training.loop import StepRecord

LOGBOOK, VALIDATIONS, PROBES = "logbook.jsonl", "validation.jsonl", "probes.jsonl"


class Records:
    """The files of a run in training, cut back to the step that it goes on from."""

    def __init__(self, out: Path, last_step: int, files: ExitStack, writes: bool, tensorboard: bool,
                 probes: bool = False) -> None:
        self.logbook = files.enter_context(Logbook(out / LOGBOOK, last_step)) if writes else None
        self.validations = files.enter_context(Logbook(out / VALIDATIONS, last_step)) if writes else None
        before = last_step or -1    # what was seen before the first step is seen again
        self.probes = files.enter_context(Logbook(out / PROBES, before)) if writes and probes else None
        self.board = files.enter_context(Board(out / "tensorboard", last_step)) if writes and tensorboard else None

    @property
    def last_validation(self) -> int:
        """The step of the last validation in the file; 0 if there is none."""
        return 0 if self.validations is None else self.validations.last_step

    def step(self, record: StepRecord) -> None:
        """A training step."""
        if self.logbook is not None:
            self.logbook.write(record._asdict())
        if self.board is not None:
            self.board.write(record)

    def validation(self, validation: Validation, place: dict[str, Any]) -> None:
        """A validation, and where in the training it was."""
        if self.validations is not None:
            self.validations.write({**place, **validation._asdict()})
        if self.board is not None:
            self.board.write_validation(validation, place["step"])

    def probe(self, step: int, seen: Mapping[str, Any] | None) -> None:
        """What somebody wanted to know of the model at this step, if anything."""
        if self.probes is not None and seen is not None:
            self.probes.write({"step": step, **seen})

    def sync(self) -> None:
        """Return when everything is on the disk; called before a checkpoint that counts on it."""
        for book in (self.logbook, self.validations, self.probes):
            if book is not None:
                book.sync()
        if self.board is not None:
            self.board.flush()
