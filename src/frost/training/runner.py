"""A training with everything that it writes as it goes: records, checkpoints, validations, and how it is stopped.

The same for `frost train` and `frost.fit`; where no folder is given, nothing is written and nothing can be resumed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from frost import checkpoint
from frost.core.task import Task
from frost.core.trajectory import IterativeModel, Trajectory
from frost.halting.ranking import HaltingConfig
from frost.interrupt import Stopped, Wish
from frost.report.progress import progress
from frost.report.tables import percent
from frost.training.evaluate import Validation
from frost.training.loop import StepRecord, Training, go_on
from frost.training.records import Records
from frost.training.settings import TrainConfig
from frost.training.snapshot import restore_all, save_snapshot
from frost.training.sources import Source
from frost.training.steprecord import check_finite, line_of
from frost.training.team import Team

SAVE_SECONDS = 300.0   # between checkpoints, if not every so many steps
Probe = Callable[[IterativeModel, int, int], Mapping[str, Any] | None]    # of the model, after so many of all steps


@dataclass
class Runner:
    """One training, from where it stands to its last step."""

    out: Path | None
    training: Training
    source: Source
    train: TrainConfig
    halting: HaltingConfig
    task: Task
    wish: Wish
    config: dict[str, Any]                                 # goes with every checkpoint
    to_go_on: str                                          # what to type or write to go on
    validate: Callable[[IterativeModel], Validation] | None = None
    per_step: int = 1                                      # samples in a step, for the rate that is shown
    unit: str = "images"
    probe: Probe | None = None
    is_shown: bool = True
    seconds_before: float = 0.0
    started: float = field(default_factory=time.monotonic)
    last_save: float = field(default_factory=time.monotonic)
    scores: list[Tensor] = field(default_factory=list)     # score logits of the last epoch, if they calibrate
    validated_at: int = 0                                  # the step of the last validation
    records: Records | None = None
    last: StepRecord | None = None
    validation: Validation | None = None                   # the last one

    def open(self, files: ExitStack, tensorboard: bool = False) -> None:
        """Set the training back to its newest checkpoint, if it has one, and the files with it."""
        if self.out is None:
            return
        found = restore_all(self.out / checkpoint.CHECKPOINTS, self.training)
        if found is not None:
            self.seconds_before = found[0]["seconds"]
            self.scores = [] if found[1] is None else [found[1]]
        self.records = Records(self.out, self.training.step, files, self.team.is_first, tensorboard,
                               self.probe is not None)
        self.validated_at = self.team.agree(self.records.last_validation)

    @property
    def team(self) -> Team:
        """The processes of this training."""
        return self.training.team

    @property
    def steps(self) -> int:
        """Of the whole training."""
        return self.train.epochs * self.source.batches

    @property
    def seconds(self) -> float:
        """Time spent on this run, by all processes that worked on it."""
        return self.seconds_before + time.monotonic() - self.started

    def to_the_end(self) -> None:
        """Take the remaining steps."""
        shown = self._validate_if_due()    # if it was stopped inside a validation
        if self.training.step == 0:
            self._probe()
        if self.training.step >= self.steps:
            return
        with progress("training", self.steps, self.training.step, self.per_step, self.team.is_first and self.is_shown,
                      self.unit) as report:
            for record in go_on(self.training, self.source, self.train, self.halting, self._watch, self.task):
                check_finite(record, self.train.learning_rate)
                self.last = record
                if self.records is not None:
                    self.records.step(record)
                self._probe()
                shown = self._validate_if_due() or shown
                report(record.step, line_of(record) + shown)
                self._save_if_due(record.step == self.steps)

    def stop_if_wished(self) -> None:
        """Save and leave if somebody asked any process to; between steps and inside validations, where weights rest."""
        number = self.team.agree(self.wish.number)
        if number:
            self.save()
            kept = "nothing is lost. To go on: " + self.to_go_on if self.out is not None else (
                "without out=… nothing was written, and the model stays as it is now.")
            raise Stopped(f"stopped after step {self.training.step}; {kept}", number)

    def save(self) -> None:
        """Write a checkpoint."""
        if self.out is None or self.records is None or not self.team.is_first:
            return
        self.records.sync()
        scores = torch.cat(self.scores) if self.scores else None
        save_snapshot(self.out / checkpoint.CHECKPOINTS, self.training, self.config, {"seconds": self.seconds}, scores)
        self.last_save = time.monotonic()

    def checked(self, validation: Validation) -> Validation:
        """The validation, unless the model has diverged."""
        if not all(map(math.isfinite, validation.loss)):
            raise FloatingPointError(f"the validation loss is not finite after step {self.training.step}; lower "
                                     "train.learning_rate, in a new --out.")
        return validation

    def _watch(self, epoch: int, trajectory: Trajectory) -> None:
        if self.halting.calibrate == "last-epoch" and epoch == self.train.epochs:
            self.scores.append(trajectory.score_logits.cpu())

    def _probe(self) -> None:
        if self.probe is not None and self.records is not None and self.team.is_first:
            seen = self.probe(self.training.model, self.training.step, self.steps)
            self.records.probe(self.training.step, seen)

    def _save_if_due(self, is_last: bool) -> None:
        every = self.train.save_every
        is_due = self.training.step % every == 0 if every else time.monotonic() - self.last_save >= SAVE_SECONDS
        if is_due or is_last:
            self.save()
        self.stop_if_wished()

    def _validate_if_due(self) -> str:
        """At the end of an epoch, once: the depth–accuracy curve; what the progress line shows of it."""
        epoch, rest = divmod(self.training.step, self.source.batches)
        is_due = epoch and not rest and (epoch % self.train.validate_every == 0 or self.training.step == self.steps)
        if self.validate is None or not is_due or self.validated_at == self.training.step:
            return ""
        validation = self.validation = self.checked(self.validate(self.training.result))
        if self.records is not None:
            self.records.validation(validation, {"step": self.training.step, "epoch": epoch, "seconds": self.seconds})
        self.validated_at = self.training.step
        if validation.accuracy is None:
            return f"  validation loss {validation.loss[-1]:.4f}"
        return f"  validation {percent(validation.accuracy[-1])}"
