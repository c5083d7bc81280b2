"""`frost train RECIPE --out RUN`: train, keep resume points, calibrate on validation, leave a run.

    RUN/run.json            the configuration and the command, from the first moment on
    RUN/logbook.jsonl       one object a training step
    RUN/validation.jsonl    one object a validation: accuracy and loss after each refinement step
    RUN/checkpoints/        resume points, while the run goes on and the last one after it
    RUN/weights.safetensors config.json calibration.json origin.json MANIFEST.json    when it has ended
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from frost import checkpoint, directory
from frost.config import to_dict
from frost.core.trajectory import IterativeModel, Trajectory
from frost.data.splits import DataSet, Images
from frost.halting.calibration import Calibration
from frost.recipes import RunConfig
from frost.report.tables import percent, table
from frost.training.board import Board
from frost.training.evaluate import Validation, run_frozen, validated
from frost.training.logbook import Logbook
from frost.training.loop import StepRecord, Training, go_on, steps_in
from frost.training.snapshot import restore_newest, save_snapshot
from frost.workflows.dataset import check_fits, open_data
from frost.workflows.interrupt import Stopped, Wish, stop_wish
from frost.workflows.progress import progress
from frost.zoo.registry import build

RUN, ORIGIN, LOGBOOK, VALIDATIONS = "run.json", "origin.json", "logbook.jsonl", "validation.jsonl"
SAVE_SECONDS = 300.0   # between checkpoints, if not every so many steps


class TrainResult(NamedTuple):
    """What a training left."""

    out: Path
    origin: dict[str, Any]     # command, seed, seconds, steps, validation
    was_there: bool            # nothing was done: the run had ended before

    def to_json(self) -> dict[str, Any]:
        """The same numbers as the text."""
        return {"out": str(self.out), "was_there": self.was_there, **self.origin}


@dataclass
class _Ledger:
    """What the loop keeps besides the training itself."""

    seconds_before: float = 0.0
    started: float = field(default_factory=time.monotonic)
    last_save: float = field(default_factory=time.monotonic)
    scores: list[Tensor] = field(default_factory=list)     # score logits of the last epoch, if they calibrate
    validation: Validation | None = None

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.started


def train(config: RunConfig, out: Path, *, data_folder: Path | None = None, resume: bool = False,
          download: bool = False, tensorboard: bool = False, command: Sequence[str] = ()) -> TrainResult:
    """Train a recipe's model, or go on with it.

    Args:
        command: the words that started this, to be printed when it is interrupted and kept with the run.
    """
    values = to_dict(config)
    if _has_ended(out, values, resume):
        return TrainResult(out, directory.read_json(out / ORIGIN), True)
    _check_folder(out, values, resume)
    data = open_data(config.data, data_folder, config.model.image_size, download)
    check_fits(config.model, data)
    out.mkdir(parents=True, exist_ok=True)
    with _alone_in(out), stop_wish() as wish, ExitStack() as files:
        if not (out / RUN).exists():
            content = {"config": values, "command": shlex.join(command), "classes": list(data.classes)}
            directory.replace_file(out / RUN, (json.dumps(content, indent=2) + "\n").encode())
        training = Training.begin(build(config.model, seed=config.train.seed), config.train)
        ledger = _Ledger()
        found = restore_newest(out / checkpoint.CHECKPOINTS, training)
        if found is not None:
            ledger.seconds_before = found[0]["seconds"]
            ledger.scores = [] if found[1] is None else [found[1]]
        logbook = files.enter_context(Logbook(out / LOGBOOK, training.step))
        validations = files.enter_context(Logbook(out / VALIDATIONS, training.step))
        board = files.enter_context(Board(out / "tensorboard", training.step)) if tensorboard else None
        run = _Run(out, config, values, data, training, ledger, logbook, validations, board, wish, tuple(command))
        run.to_the_end()
    return TrainResult(out, directory.read_json(out / ORIGIN), False)


@dataclass
class _Run:
    """One training with everything that it writes to."""

    out: Path
    config: RunConfig
    values: dict[str, Any]
    data: DataSet[Images]
    training: Training
    ledger: _Ledger
    logbook: Logbook
    validations: Logbook
    board: Board | None
    wish: Wish
    command: tuple[str, ...]

    def to_the_end(self) -> None:
        """Take the remaining steps, then calibrate and leave the run."""
        batches, steps = steps_in(self.data.train, self.config.train)
        shown = self._validate_if_due(batches, steps)    # if it was stopped inside a validation
        if self.training.step < steps:
            with progress("training", steps, self.training.step, self.config.train.batch) as report:
                for record in go_on(self.training, self.data.train, self.config.train, self.config.halting,
                                    self._watch):
                    self.logbook.write(record._asdict())
                    if self.board is not None:
                        self.board.write(record)
                    shown = self._validate_if_due(batches, steps) or shown
                    report(record.step, _line(record) + shown)
                    self._save_if_due(record.step == steps)
        self._calibrate()

    def _watch(self, epoch: int, trajectory: Trajectory) -> None:
        if self.config.halting.calibrate == "last-epoch" and epoch == self.config.train.epochs:
            self.ledger.scores.append(trajectory.score_logits.cpu())

    def _save_if_due(self, is_last: bool) -> None:
        every = self.config.train.save_every
        is_due = (self.training.step % every == 0 if every
                  else time.monotonic() - self.ledger.last_save >= SAVE_SECONDS)
        if is_due or is_last:
            self._save()
        self._stop_if_wished()

    def _save(self) -> None:
        ledger = self.ledger
        self.logbook.sync()
        self.validations.sync()
        scores = torch.cat(ledger.scores) if ledger.scores else None
        save_snapshot(self.out / checkpoint.CHECKPOINTS, self.training, self._final_config(),
                      {"seconds": ledger.seconds}, scores)
        ledger.last_save = time.monotonic()

    def _stop_if_wished(self) -> None:
        """Save and leave if somebody asked to; between steps and inside validations, where weights do not change."""
        if self.wish:
            self._save()
            words = [word for word in self.command if word != "--resume"]
            raise Stopped(f"stopped after step {self.training.step}; nothing is lost. To go on: "
                          f"{shlex.join([*words, '--resume'])}", self.wish.number)

    def _final_config(self) -> dict[str, Any]:
        return {**self.values, "classes": list(self.data.classes)}

    def _frozen_trajectory(self, model: IterativeModel, what: str) -> Trajectory:
        with progress(what, len(self.data.validation)) as report:
            def watch(done: int, text: str) -> None:
                report(done, text)
                self._stop_if_wished()
            return run_frozen(model, self.data.validation, report=watch)

    def _validate_if_due(self, batches: int, steps: int) -> str:
        """At the end of an epoch, once: the depth–accuracy curve; what the progress line shows of it."""
        epoch, rest = divmod(self.training.step, batches)
        is_due = epoch and not rest and (epoch % self.config.train.validate_every == 0 or self.training.step == steps)
        if not is_due or self.validations.last_step == self.training.step:
            return ""
        trajectory = self._frozen_trajectory(self.training.result, "validation")
        validation = validated(trajectory, self.data.validation.labels)
        self.validations.write({"step": self.training.step, "epoch": epoch, "seconds": self.ledger.seconds,
                                **validation._asdict()})
        if self.board is not None:
            self.board.write_validation(validation, self.training.step)
        return f"  validation {percent(validation.accuracy[-1])}"

    def _calibrate(self) -> None:
        model = self.training.result
        trajectory = self._frozen_trajectory(model, "calibration")
        held_out = self.config.halting.calibrate == "held-out"
        scores = trajectory.score_logits if held_out else torch.cat(self.ledger.scores)
        calibration = Calibration.gather(scores, weights_hash=checkpoint.weights_hash(model))
        validation = validated(trajectory, self.data.validation.labels)
        origin = {"command": shlex.join(self.command), "recipe": self.config.recipe, "seed": self.config.train.seed,
                  "seconds": self.ledger.seconds, "steps": self.training.step, "precision": self.training.precision,
                  "threads": torch.get_num_threads(), "torch": torch.__version__,
                  "validation_accuracy": validation.accuracy, "validation_loss": validation.loss}
        checkpoint.finish(self.out, model, self._final_config(), calibration,
                          {ORIGIN: (json.dumps(origin, indent=2) + "\n").encode()})


def text(result: TrainResult) -> str:
    """What a person wants to know after a training, and what to type next."""
    origin, out = result.origin, result.out
    accuracy = origin["validation_accuracy"]
    rows = [[str(t), percent(value)] for t, value in enumerate(accuracy, 1)]
    verb = "had ended before, and nothing was done" if result.was_there else "has ended"
    return "\n".join([
        f"{out} {verb}: recipe {origin['recipe']}, seed {origin['seed']}, {origin['steps']} steps in "
        f"{origin['seconds'] / 60:.1f} minutes.", "",
        table(["step t", "validation accuracy"], rows), "",
        f"Next: frost evaluate {out}   (add --data DIR unless it is digits)"])


def _line(record: StepRecord) -> str:
    scale = "" if record.scale is None else f"  λ {record.scale:.3f}"
    return f"epoch {record.epoch}  loss {record.loss:.3f}  accuracy {record.accuracy:.2f}{scale}"


def _has_ended(out: Path, values: Mapping[str, Any], resume: bool) -> bool:
    """Whether the run is there already; then it is verified, and must be the one that is asked for."""
    if not (out / directory.MANIFEST).exists():
        return False
    if not resume:
        raise ValueError(f"{out} holds a run that has ended; choose another --out, or remove it.")
    checkpoint.verify(out)
    _check_same(out, values)
    return True


def _check_folder(out: Path, values: Mapping[str, Any], resume: bool) -> None:
    """Refuse a folder that holds something else, another run, or this one when nobody asked to go on with it."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} exists and is not a folder; choose another --out.")
    if not out.exists() or not any(out.iterdir()):
        return
    if not (out / RUN).is_file():
        raise ValueError(f"{out} holds something that is no run (it has no {RUN}); choose another --out.")
    _check_same(out, values)
    if not resume:
        raise ValueError(f"{out} holds a run that has not ended; add --resume to go on with it, or choose another "
                         "--out.")


def _check_same(out: Path, values: Mapping[str, Any]) -> None:
    """Refuse to go on with a run under another configuration, naming the first difference."""
    theirs, ours = _flat(directory.read_json(out / RUN).get("config", {})), _flat(dict(values))
    for path in sorted(theirs.keys() | ours.keys()):
        if theirs.get(path) != ours.get(path):
            raise ValueError(f"{out} is another run: its {path} is {theirs.get(path)}, here it is {ours.get(path)}; "
                             "choose another --out, or the recipe and the settings that it began with.")


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


@contextmanager
def _alone_in(out: Path) -> Iterator[None]:
    """Refuse to train where another process does; the lock goes with the process, however it ends."""
    try:
        import fcntl
    except ImportError:    # Windows has no such locks: there it is up to the user
        yield
        return
    with (out / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ValueError(f"another process is training in {out}; wait for it, or choose another --out.") from error
        yield
