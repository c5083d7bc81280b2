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
from frost.core.task import Judge, Task
from frost.core.trajectory import IterativeModel, evaluating
from frost.data.augment import Augmentation
from frost.halting.ranking import HaltingConfig
from frost.interrupt import stop_requests
from frost.training.loop import StepRecord, Training
from frost.training.refit import refit_on
from frost.training.runfolder import alone_in, begin_facts, may_begin
from frost.training.runner import Runner
from frost.training.settings import RuntimeConfig, TrainConfig
from frost.training.sources import LoaderSource
from frost.training.validation import Validation, validate

DEFAULTS = TrainConfig(epochs=10, supervision="all", precision="float32")


class Fitted(NamedTuple):
    """What a training came to."""

    steps: int
    seconds: float
    last: StepRecord | None           # None if it had ended before
    validation: Validation | None     # of the last epoch, if there were held-out batches


def fit(model: IterativeModel, loader: Iterable[Any], epochs: int | None = None, *,
        learning_rate: float | None = None, seed: int | None = None, device: Device | None = None,
        validation: Iterable[Any] | None = None, loss: Judge | None = None, quality: Judge | None = None,
        config: TrainConfig = DEFAULTS, halting: HaltingConfig | None = None, runtime: RuntimeConfig | None = None,
        out: Path | str | None = None, resume: bool = False, steps: int | None = None,
        is_shown: bool = True) -> Fitted:
    """Train a model in place: its answers at every step, and its halting score.

    Args:
        loader: any iterable of (inputs, targets) batches: a DataLoader, a list, a generator for one epoch.
        epochs, learning_rate, seed: those of `config`, unless they are given here; `device` that of `runtime`.
        validation: held-out batches, looked at after each epoch; something that can be read again and again.
        loss: (outputs, targets) → one number a sample, where not as the head says; the model remembers it.
        quality: (outputs, targets) → one number in [0, 1] a sample, where not as the head says; likewise.
        config: all else, such as the supervision of early steps. `frost.fit`'s own has ten epochs, a learning rate of
            0.003, float32, and supervises every step; a `frost.TrainConfig(…)` of yours begins from the paper's.
        halting: how the halting score is taught; None ranks by the gain that is left.
        runtime: how the work is done, such as steps between checkpoints; a resumed training may have another.
        out: a folder for logbook and checkpoints; in the end it is a run that `frost.load(out, model=…)` reads.
        resume: go on from the newest checkpoint in `out`; start if there is none.
        steps: batches in an epoch, for a loader that has no length and gives its batches once.
    """
    config = _with(config, epochs=epochs, learning_rate=learning_rate, seed=seed)
    source = LoaderSource(loader, config.seed, steps)
    halting = _checked(model, config, halting, source, validation)
    runtime = runtime or RuntimeConfig()
    place = resolve_device(device or runtime.device)
    resolve_precision(config.precision, place)    # what cannot be is refused now
    if resume and out is None:
        raise ValueError("resume=True goes on from a checkpoint in out=…; name the folder.")
    task = model.task.with_judges(loss, quality)
    _try_first(model.to(place), source, task, halting)    # before anything is written
    folder = None if out is None else Path(out)
    facts = {"fit": type(model).__name__, "depth": model.depth, "halting": to_dict(halting), "train": to_dict(config)}
    if folder is not None and not may_begin(folder, facts, resume):
        checkpoint.load(folder, model=model)
        return Fitted(source.batches * config.epochs, 0.0, None, None)
    with ExitStack() as files:
        training = Training.begin(model, config, runtime=runtime)
        runner = _runner(files, folder, training, source, config, halting, task, facts)
        runner.validate = None if validation is None else lambda kept: validate(kept, validation, task)
        runner.is_shown = is_shown
        _run(runner, files, model, source)
    model.quality_of_fit = quality
    return Fitted(runner.training.step, runner.seconds, runner.last, runner.validation)


def _with(config: TrainConfig, **given: float | None) -> TrainConfig:
    """The configuration with what is given in place of its own."""
    return replace(config, **{name: value for name, value in given.items() if value is not None})    # type: ignore


def _run(runner: Runner, files: ExitStack, model: IterativeModel, source: LoaderSource) -> None:
    """Train to the end; a model whose training fails or is stopped is in the mode that it was in."""
    was_training = model.training
    try:
        runner.open(files)
        runner.to_the_end()
        _finish(runner, model, source)
    except BaseException:
        model.train(was_training)
        raise


def _runner(files: ExitStack, folder: Path | None, training: Training, source: LoaderSource, config: TrainConfig,
            halting: HaltingConfig, task: Task, facts: dict[str, Any]) -> Runner:
    """The training, alone in its folder if it has one."""
    if folder is not None:
        files.enter_context(alone_in(folder))
        begin_facts(folder, facts, {"batches": source.batches}, ("frost.fit",))
    return Runner(folder, training, source, config, halting, task, files.enter_context(stop_requests()), facts,
                  f"frost.fit(…, out={str(folder)!r}, resume=True)", unit="batches")


def _try_first(model: IterativeModel, source: LoaderSource, task: Task, halting: HaltingConfig) -> None:
    """Refuse what does not fit at the first batch; the model learns from it what its inputs look like."""
    batch = source.first(device_of(model), dtype_of(model))
    with evaluating(model):
        outputs = model(batch.inputs, keep_states=False).outputs
        task.losses(outputs, batch.targets)
        if task.quality is not None or halting.rank_by == "wins":
            task.qualities(outputs, batch.targets)
    model.expects(row(batch.inputs, 0))


def _finish(runner: Runner, model: IterativeModel, source: LoaderSource) -> None:
    """Keep the averaged weights if there are any, teach the score once more if asked, leave a run."""
    result = runner.training.result
    if result is not model:
        model.load_state_dict(result.state_dict())
    if runner.halting.refit:
        again = ((batch.inputs, batch.targets) for batch in source.epoch(1, 0, device_of(model), dtype_of(model)))
        with runner.refitting(runner.halting.refit, "inputs") as report:
            refit_on(model, again, runner.halting, runner.train.seed, runner.task, report)
    model.eval()
    if runner.out is not None:
        config = {**runner.config, "inputs": None if model.signature is None else model.signature.to_json()}
        place = device_of(model)
        checkpoint.finish(runner.out, model.cpu(), config)
        model.to(place)


def _checked(model: IterativeModel, config: TrainConfig, halting: HaltingConfig | None, source: LoaderSource,
             validation: Iterable[Any] | None) -> HaltingConfig:
    """How the score is taught; what cannot be is refused before anything is done."""
    if not isinstance(model, IterativeModel):
        raise ValueError(f"fit takes a model with begin, step and read, such as frost.Frost, got "
                         f"{type(model).__name__}; frost.iterate makes one of any recurrence.")
    if config.augment != Augmentation():
        raise ValueError("augment is for data sets of `frost train`; change inputs in the loader instead.")
    if source.is_once and config.epochs > 1:
        raise ValueError(f"the loader gives its batches once and cannot be rewound for {config.epochs} epochs; set "
                         "epochs=1, or pass a list or a DataLoader.")
    if isinstance(validation, Iterator):
        raise ValueError("validation gives its batches once, and they are looked at after every epoch; pass a list or "
                         "a DataLoader.")
    if halting is None:
        halting = HaltingConfig(rank_by="gain" if model.depth > 1 else "loss")
    if halting.calibrate == "last-epoch":
        raise ValueError("halting.calibrate='last-epoch' is for `frost train`; calibrate on held-out inputs: "
                         "frost.calibrate(model, held_out).")
    if halting.refit and source.is_once:
        raise ValueError("halting.refit needs the training batches again, and this loader gives them once; set it to "
                         "0, or pass a list or a DataLoader.")
    if not model.has_score and (halting.objective != "rank" or halting.refit):
        raise ValueError("this model has no halting score to be taught; give frost.iterate channels=…, or leave "
                         "halting= out.")
    return halting if model.has_score else replace(halting, relative_weight=0.0, anchoring_weight=0.0)
