"""`frost train RECIPE --out RUN`: train, keep resume points, calibrate on validation, leave a run.

What lies in the folder, and when it may be gone on with, is in `runfolder`.
"""

from __future__ import annotations

import copy
import json
import math
import shlex
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from frost import checkpoint, directory
from frost.analysis.traces import Traces
from frost.config import to_dict
from frost.core.precision import resolve_device, resolve_precision
from frost.core.trajectory import IterativeModel, Trajectory
from frost.data.augment import check_kornia
from frost.data.splits import DataSet, Images
from frost.halting.calibration import Calibration
from frost.halting.signals import SIGNALS, along
from frost.recipes import RunConfig
from frost.report.tables import percent, table
from frost.training.board import check_board
from frost.training.evaluate import Validation, run_shared, validated
from frost.training.loop import Training, go_on, steps_in
from frost.training.memory import explained_memory
from frost.training.records import Records
from frost.training.refit import refit
from frost.training.snapshot import restore_all, save_snapshot
from frost.training.team import Team, joined
from frost.workflows.beginning import first_model
from frost.workflows.calibrate import from_traces
from frost.workflows.dataset import check_fits, open_data
from frost.workflows.interrupt import Stopped, Wish, stop_wish
from frost.workflows.progress import progress
from frost.workflows.runfolder import ORIGIN, alone_in, begin, has_ended, may_begin
from frost.workflows.steprecord import check_finite, line_of

SAVE_SECONDS = 300.0   # between checkpoints, if not every so many steps
Probe = Callable[[IterativeModel, int, int], Mapping[str, Any] | None]    # of the model, after so many of all steps


class TrainResult(NamedTuple):
    """What a training left."""

    out: Path
    origin: dict[str, Any]     # command, seed, seconds, steps, validation
    was_there: bool            # nothing was done: the run had ended before

    def to_json(self) -> dict[str, Any]:
        """The same numbers as the text."""
        return {"out": str(self.out), "was_there": self.was_there, **self.origin}


def train(config: RunConfig, out: Path, *, data_folder: Path | None = None, resume: bool = False,
          download: bool = False, tensorboard: bool = False, command: Sequence[str] = (),
          source: Path | str | None = None, probe: Probe | None = None) -> TrainResult:
    """Train a recipe's model, or go on with it.

    Args:
        source: another run, whose weights are where this one begins; its optimizer and its steps are not taken over.
        probe: is shown the model before the first step and after each one; what it returns goes to probes.jsonl.
        command: the words that started this, to be printed when it is interrupted and kept with the run.
    """
    device = resolve_device(config.train.device)
    resolve_precision(config.train.precision, device)    # what cannot be is refused before anything is written
    check_kornia(config.train.augment)
    if tensorboard:
        check_board()
    with joined(device, config.train.timeout) as team:
        if download and team.size > 1:
            raise ValueError("--download is for one process; download first, then train with several.")
        was_there = not team.by_first(lambda: may_begin(out, to_dict(config), resume))
        if not was_there:
            model, first_hash = first_model(config, source, team)
            was_there = _train(config, out, team, model.to(device), data_folder, resume, download, tensorboard,
                               tuple(command), first_hash, probe)
        return TrainResult(out, team.by_first(lambda: directory.read_json(out / ORIGIN)), was_there)


def _train(config: RunConfig, out: Path, team: Team, model: IterativeModel, data_folder: Path | None, resume: bool,
           download: bool, tensorboard: bool, command: tuple[str, ...], first_hash: str | None,
           probe: Probe | None) -> bool:
    """Train to the end, unless another process did so while the data were read."""
    values = to_dict(config)
    try:
        data = open_data(config.data, data_folder, config.model.image_size, download)
    except KeyboardInterrupt:
        raise Stopped(f"interrupted while the data were read. To begin again: {shlex.join(command)}",
                      signal.SIGINT) from None
    check_fits(config.model, data)
    with ExitStack() as files:
        if team.is_first:
            files.enter_context(alone_in(out))
        wish = files.enter_context(stop_wish())

        def began() -> bool:
            if has_ended(out, values, resume):    # another process may have ended it while we read the data
                return False
            begin(out, values, command, data, team.size, first_hash)
            return True

        if not team.by_first(began):
            return True
        run = _Run(out, config, values, data, Training.begin(model, config.train, team), wish, command, probe,
                   first_hash)
        run.open(files, tensorboard)
        run.to_the_end()
    return False


@dataclass
class _Run:
    """One training with everything that it writes to."""

    out: Path
    config: RunConfig
    values: dict[str, Any]
    data: DataSet[Images]
    training: Training
    wish: Wish
    command: tuple[str, ...]
    probe: Probe | None = None
    first_hash: str | None = None                          # of the weights of another run that it began with
    seconds_before: float = 0.0
    started: float = field(default_factory=time.monotonic)
    last_save: float = field(default_factory=time.monotonic)
    scores: list[Tensor] = field(default_factory=list)     # score logits of the last epoch, if they calibrate
    validated_at: int = 0                                  # the step of the last validation

    def open(self, files: ExitStack, tensorboard: bool) -> None:
        """Set the training back to its newest checkpoint, if it has one, and the files with it."""
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

    def to_the_end(self) -> None:
        """Take the remaining steps, then calibrate and leave the run."""
        batches, steps = steps_in(self.data.train, self.config.train, self.team.size)
        shown = self._validate_if_due(batches, steps)    # if it was stopped inside a validation
        if self.training.step == 0:
            self._probe(steps)
        if self.training.step < steps:
            images = self.config.train.batch * self.team.size
            with progress("training", steps, self.training.step, images, is_shown=self.team.is_first) as report:
                for record in go_on(self.training, self.data.train, self.config.train, self.config.halting,
                                    self._watch):
                    check_finite(record, self.config.train.learning_rate)
                    self.records.step(record)
                    self._probe(steps)
                    shown = self._validate_if_due(batches, steps) or shown
                    report(record.step, line_of(record) + shown)
                    self._save_if_due(record.step == steps)
        self._calibrate()

    def _probe(self, steps: int) -> None:
        if self.probe is not None and self.team.is_first:
            self.records.probe(self.training.step, self.probe(self.training.model, self.training.step, steps))

    @property
    def seconds(self) -> float:
        """Time spent on this run, by all processes that worked on it."""
        return self.seconds_before + time.monotonic() - self.started

    def _watch(self, epoch: int, trajectory: Trajectory) -> None:
        if self.config.halting.calibrate == "last-epoch" and epoch == self.config.train.epochs:
            self.scores.append(trajectory.score_logits.cpu())

    def _save_if_due(self, is_last: bool) -> None:
        every = self.config.train.save_every
        is_due = self.training.step % every == 0 if every else time.monotonic() - self.last_save >= SAVE_SECONDS
        if is_due or is_last:
            self._save()
        self._stop_if_wished()

    def _save(self) -> None:
        if not self.team.is_first:
            return
        self.records.sync()
        scores = torch.cat(self.scores) if self.scores else None
        save_snapshot(self.out / checkpoint.CHECKPOINTS, self.training, self._final_config(),
                      {"seconds": self.seconds}, scores)
        self.last_save = time.monotonic()

    def _stop_if_wished(self) -> None:
        """Save and leave if somebody asked any process to; between steps and inside validations, where weights rest."""
        number = self.team.agree(self.wish.number)
        if number:
            self._save()
            words = [word for word in self.command if word != "--resume"]
            raise Stopped(f"stopped after step {self.training.step}; nothing is lost. To go on: "
                          f"{shlex.join([*words, '--resume'])}", number)

    def _final_config(self) -> dict[str, Any]:
        return {**self.values, "classes": list(self.data.classes)}

    def _validated(self, model: IterativeModel) -> tuple[Trajectory, Validation]:
        """Trajectories of the held-out images, and how good they are."""
        batch = self.config.train.batch
        with explained_memory(batch):
            trajectory = run_shared(model, self.data.validation, batch, self.team,
                                    report=lambda *_: self._stop_if_wished())
        validation = validated(trajectory, self.data.validation.labels)
        if not all(map(math.isfinite, validation.loss)):
            raise FloatingPointError(f"the validation loss is not finite after step {self.training.step}; lower "
                                     "train.learning_rate, in a new --out.")
        return trajectory, validation

    def _validate_if_due(self, batches: int, steps: int) -> str:
        """At the end of an epoch, once: the depth–accuracy curve; what the progress line shows of it."""
        epoch, rest = divmod(self.training.step, batches)
        is_due = epoch and not rest and (epoch % self.config.train.validate_every == 0 or self.training.step == steps)
        if not is_due or self.validated_at == self.training.step:
            return ""
        _, validation = self._validated(self.training.result)
        self.records.validation(validation, {"step": self.training.step, "epoch": epoch, "seconds": self.seconds})
        self.validated_at = self.training.step
        return f"  validation {percent(validation.accuracy[-1])}"

    def _kept(self) -> IterativeModel:
        """What is kept in the end: with `halting.refit` a copy whose score was taught once more.

        A copy, so that a checkpoint made from here on holds the training as it was.
        """
        if not self.config.halting.refit:
            return self.training.result
        kept = copy.deepcopy(self.training.result)
        halting, train = self.config.halting, self.config.train
        with progress("teaching the score", min(halting.refit, len(self.data.train)),
                      is_shown=self.team.is_first) as report:
            def seen(done: int, words: str) -> None:
                self._stop_if_wished()
                report(done, words)

            refit(kept, self.data.train, halting, train.augment, train.seed, seen)
        return kept

    def _calibrate(self) -> None:
        kept = self._kept()
        trajectory, validation = self._validated(kept)
        if not self.team.is_first:
            return
        model = kept.cpu()
        held_out = self.config.halting.calibrate == "held-out"
        if held_out:
            rule = self.config.halting.objective
            signal = along(SIGNALS[rule], trajectory.outputs, trajectory.score_logits)
            labels = self.data.validation.labels
            calibration = from_traces(model, Traces(trajectory.outputs, labels, {rule: signal}), rule,
                                      self.data.validation.image_shape)
        else:
            calibration = Calibration.gather(torch.cat(self.scores), weights_hash=checkpoint.weights_hash(model))
        origin = {"command": shlex.join(self.command), "recipe": self.config.recipe, "seed": self.config.train.seed,
                  "seconds": self.seconds, "steps": self.training.step, "precision": self.training.precision,
                  "threads": torch.get_num_threads(), "processes": self.team.size, "torch": torch.__version__,
                  "validation_accuracy": validation.accuracy, "validation_loss": validation.loss}
        if self.first_hash is not None:
            origin["first_weights"] = self.first_hash
        checkpoint.finish(self.out, model, self._final_config(), calibration,
                          {ORIGIN: (json.dumps(origin, indent=2) + "\n").encode()})


def text(result: TrainResult) -> str:
    """What a person wants to know after a training, and what to type next."""
    origin, out = result.origin, result.out
    rows = [[str(t), percent(value)] for t, value in enumerate(origin["validation_accuracy"], 1)]
    verb = "had ended before, and nothing was done" if result.was_there else "has ended"
    return "\n".join([
        f"{out} {verb}: recipe {origin['recipe']}, seed {origin['seed']}, {origin['steps']} steps in "
        f"{origin['seconds'] / 60:.1f} minutes.", "",
        table(["step t", "validation accuracy"], rows), "",
        f"Next: {shlex.join(['frost', 'evaluate', str(out)])}   (add --data DIR unless it is digits)"])
