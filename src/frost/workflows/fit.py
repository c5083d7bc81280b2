"""`frost.fit(model, loader, epochs=10)`: train any model of ours on any iterable of (inputs, targets) batches.

The same loop, logbook, checkpoints and exact resume as `frost train`. What a loader draws at random comes from
PyTorch's random numbers, set by (seed, epoch) before each epoch, so that a training that is resumed sees what it would
have seen without the interruption.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from frost import checkpoint
from frost.config import to_dict
from frost.core.inputs import row
from frost.core.precision import Device, device_of, dtype_of, resolve_device, resolve_precision
from frost.core.task import Judge
from frost.core.trajectory import IterativeModel
from frost.data.augment import Augmentation
from frost.halting.ranking import HaltingConfig
from frost.training.evaluate import Validation, validate
from frost.training.loop import StepRecord, Training
from frost.training.refit import refit_on
from frost.training.settings import TrainConfig
from frost.training.sources import LoaderSource
from frost.workflows.interrupt import stop_wish
from frost.workflows.progress import progress
from frost.workflows.runfolder import alone_in, begin_facts, has_ended, may_begin
from frost.workflows.runner import Runner

DEFAULTS = TrainConfig(epochs=10, deep_supervision=1.0, precision="float32")    # every step counts alike


class Fitted(NamedTuple):
    """What a training came to."""

    steps: int
    seconds: float
    last: StepRecord | None           # None if it had ended before
    validation: Validation | None     # of the last epoch, if there were held-out batches


def fit(model: IterativeModel, loader: Iterable[Any], epochs: int | None = None, *,
        learning_rate: float | None = None, seed: int | None = None, device: Device | None = None,
        validation: Iterable[Any] | None = None, loss: Judge | None = None, quality: Judge | None = None,
        config: TrainConfig = DEFAULTS, halting: HaltingConfig | None = None, out: Path | str | None = None,
        resume: bool = False, steps: int | None = None, is_shown: bool = True) -> Fitted:
    """Train a model in place: its answers at every step, and its halting score.

    Args:
        loader: any iterable of (inputs, targets) batches: a DataLoader, a list, a generator for one epoch.
        epochs, learning_rate, seed, device: those of `config`, unless they are given here.
        validation: held-out batches, looked at after each epoch; something that can be read again and again.
        loss: (outputs, targets) → one number a sample, where not as the head says; the model remembers it.
        quality: (outputs, targets) → one number in [0, 1] a sample, where not as the head says; likewise.
        config: all else, such as the supervision of early steps. `frost.fit`'s own has ten epochs, a learning rate of
            0.003, float32, and supervises every step; a `frost.TrainConfig(…)` of yours begins from the paper's.
        halting: how the halting score is taught; None ranks by the gain that is left.
        out: a folder for logbook and checkpoints; in the end it is a run that `frost.load(out, model=…)` reads.
        resume: go on from the newest checkpoint in `out`; start if there is none.
        steps: batches in an epoch, for a loader that has no length and gives its batches once.
    """
    given = {"epochs": epochs, "learning_rate": learning_rate, "seed": seed, "device": device}
    config = replace(config, **{name: value for name, value in given.items() if value is not None})    # type: ignore
    halting = _checked(model, config, halting)
    place = resolve_device(config.device)
    resolve_precision(config.precision, place)
    if resume and out is None:
        raise ValueError("resume=True goes on from a checkpoint in out=…; name the folder.")
    source = LoaderSource(loader, config.seed, steps)
    if source.is_once and config.epochs > 1:
        raise ValueError(f"the loader gives its batches once and cannot be rewound for {config.epochs} epochs; set "
                         "epochs=1, or pass a list or a DataLoader.")
    model.judges = loss or model.judges[0], quality or model.judges[1]
    task = model.judged_by()
    folder = None if out is None else Path(out)
    facts = {"fit": type(model).__name__, "depth": model.depth, "halting": to_dict(halting), "train": to_dict(config)}
    if folder is not None and not may_begin(folder, facts, resume):
        checkpoint.load(folder, model=model)
        return Fitted(source.batches * config.epochs, 0.0, None, None)
    with ExitStack() as files:
        if folder is not None:
            files.enter_context(alone_in(folder))
            if not has_ended(folder, facts, resume):
                begin_facts(folder, facts, {"batches": source.batches}, ("frost.fit",))
        wish = files.enter_context(stop_wish())
        training = Training.begin(model.to(place), config)
        runner = Runner(folder, training, _Learning(source, model), config, halting, task, wish, facts,
                        f"frost.fit(…, out={str(out)!r}, resume=True)",
                        None if validation is None else lambda kept: validate(kept, validation, task),
                        unit="batches", is_shown=is_shown)
        runner.open(files)
        runner.to_the_end()
        _finish(runner, model, source)
    return Fitted(training.step, runner.seconds, runner.last, None if validation is None else
                  validate(model, validation, task))


class _Learning(LoaderSource):
    """A loader from whose first batch the model learns what its inputs look like."""

    def __init__(self, source: LoaderSource, model: IterativeModel) -> None:
        self.__dict__.update(source.__dict__)
        self._model = model

    def epoch(self, number: int, first: int, device: Any, dtype: Any) -> Iterator[Any]:
        """The batches of an epoch."""
        for batch in super().epoch(number, first, device, dtype):
            if self._model.signature is None:
                self._model.expects(row(batch.inputs, 0))
            yield batch


def _finish(runner: Runner, model: IterativeModel, source: LoaderSource) -> None:
    """Keep the averaged weights if there are any, teach the score once more if asked, leave a run."""
    result = runner.training.result
    if result is not model:
        model.load_state_dict(result.state_dict())
    if runner.halting.refit:
        if source.is_once:
            raise ValueError("halting.refit needs the training batches again, and this loader gives them once; set it "
                             "to 0, or pass a list or a DataLoader.")
        with progress("teaching the score", runner.halting.refit, is_shown=runner.is_shown, unit="inputs") as report:
            def seen(done: int, words: str) -> None:
                runner.stop_if_wished()
                report(done, words)

            again = ((batch.inputs, batch.targets) for batch in source.epoch(1, 0, device_of(model), dtype_of(model)))
            refit_on(model, again, runner.halting, runner.train.seed, runner.task, seen)
    model.eval()
    if runner.out is not None:
        config = {**runner.config, "inputs": None if model.signature is None else model.signature.to_json()}
        place = device_of(model)
        checkpoint.finish(runner.out, model.cpu(), config)
        model.to(place)


def _checked(model: IterativeModel, config: TrainConfig, halting: HaltingConfig | None) -> HaltingConfig:
    """How the score is taught; what cannot be is refused."""
    if not isinstance(model, IterativeModel):
        raise ValueError(f"fit takes a model with begin, step and read, such as frost.Frost, got "
                         f"{type(model).__name__}; frost.iterate makes one of any recurrence.")
    if config.augment != Augmentation():
        raise ValueError("augment is for data sets of `frost train`; change inputs in the loader instead.")
    if halting is None:
        halting = HaltingConfig(rank_by="gain" if model.depth > 1 else "loss")
    if not model.has_score:    # there is nothing to teach
        halting = replace(halting, relative_weight=0.0, anchoring_weight=0.0)
    return halting
