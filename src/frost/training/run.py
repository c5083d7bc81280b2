"""`frost train RECIPE --out RUN`: train, keep resume points, calibrate on validation, leave a run.

What lies in the folder, and when it may be gone on with, is in `runfolder`.
"""

from __future__ import annotations

import copy
import json
import shlex
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch

from frost import checkpoint, directory
from frost.config import to_dict
from frost.core.precision import resolve_device, resolve_precision
from frost.core.trajectory import IterativeModel, Trajectory
from frost.data.augment import check_kornia
from frost.data.splits import DataSet, Images
from frost.evaluation.calibrating import candidates, from_traces
from frost.evaluation.datasets import check_fits, open_data
from frost.evaluation.traces import Traces
from frost.halting.calibration import Calibration
from frost.halting.signals import SIGNALS, along
from frost.interrupt import Stopped, stop_wish
from frost.recipes import RunConfig
from frost.report.progress import progress
from frost.training.beginning import first_model
from frost.training.board import check_board
from frost.training.evaluate import Validation, run_shared, validated
from frost.training.loop import Training
from frost.training.memory import explained_memory
from frost.training.refit import refit
from frost.training.runfolder import ORIGIN, alone_in, begin, has_ended, may_begin
from frost.training.runner import Probe, Runner
from frost.training.sources import ImageSource
from frost.training.team import Team, joined


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
        run = _Run(out, config, data, command, first_hash)
        run.runner = Runner(
            out, Training.begin(model, config.train, team), ImageSource(data.train, config.train, team), config.train,
            config.halting, model.task, wish, run.final_config(),
            shlex.join([*(word for word in command if word != "--resume"), "--resume"]),
            lambda model: run.validated(model)[1], config.train.batch * team.size, probe=probe)
        run.runner.open(files, tensorboard)
        run.runner.to_the_end()
        run.calibrate()
    return False


@dataclass
class _Run:
    """What a recipe's training is judged by, and what it leaves."""

    out: Path
    config: RunConfig
    data: DataSet[Images]
    command: tuple[str, ...]
    first_hash: str | None = None          # of the weights of another run that it began with
    runner: Runner = field(init=False)

    def final_config(self) -> dict[str, Any]:
        """What is written beside the weights."""
        return {**to_dict(self.config), "classes": list(self.data.classes)}

    def validated(self, model: IterativeModel) -> tuple[Trajectory, Validation]:
        """Trajectories of the held-out images, and how good they are."""
        batch = self.config.train.batch
        with explained_memory(batch):
            trajectory = run_shared(model, self.data.validation, batch, self.runner.team,
                                    report=lambda *_: self.runner.stop_if_wished())
        return trajectory, self.runner.checked(validated(trajectory, self.data.validation.labels))

    def calibrate(self) -> None:
        """Teach the score once more if that is asked for, calibrate, and leave a run."""
        kept = self._kept()
        trajectory, validation = self.validated(kept)
        if not self.runner.team.is_first:
            return
        model = kept.cpu()
        if self.config.halting.calibrate == "held-out":
            signals = {name: along(SIGNALS[name], trajectory.outputs, trajectory.score_logits)
                       for name in candidates(model, self.config.halting.objective)}
            calibration = from_traces(model, Traces.of(trajectory.outputs, self.data.validation.labels, signals))
        else:
            calibration = Calibration.gather(torch.cat(self.runner.scores),
                                             weights_hash=checkpoint.weights_hash(model))
        training = self.runner.training
        origin = {"command": shlex.join(self.command), "recipe": self.config.recipe, "seed": self.config.train.seed,
                  "seconds": self.runner.seconds, "steps": training.step, "precision": training.precision,
                  "threads": torch.get_num_threads(), "processes": self.runner.team.size, "torch": torch.__version__,
                  "validation_accuracy": validation.accuracy, "validation_loss": validation.loss}
        if self.first_hash is not None:
            origin["first_weights"] = self.first_hash
        checkpoint.finish(self.out, model, self.final_config(), calibration,
                          {ORIGIN: (json.dumps(origin, indent=2) + "\n").encode()})

    def _kept(self) -> IterativeModel:
        """What is kept in the end: with `halting.refit` a copy whose score was taught once more.

        A copy, so that a checkpoint made from here on holds the training as it was.
        """
        result, halting, train = self.runner.training.result, self.config.halting, self.config.train
        if not halting.refit:
            return result
        kept = copy.deepcopy(result)
        with progress("teaching the score", min(halting.refit, len(self.data.train)),
                      is_shown=self.runner.team.is_first) as report:
            def seen(done: int, words: str) -> None:
                self.runner.stop_if_wished()
                report(done, words)

            refit(kept, self.data.train, halting, train.augment, train.seed, seen)
        return kept


