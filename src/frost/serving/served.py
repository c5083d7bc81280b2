"""One run behind a name: its engine, what it takes, how it answers, and whether its inputs have drifted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from frost.checkpoint import Run, load
from frost.config import from_dict
from frost.core.inputs import Signature
from frost.core.task import Gives
from frost.data.catalogue import PROBLEMS
from frost.evaluation.budget import command_for, policy_of
from frost.halting.budget import Budget
from frost.runtime.async_engine import BATCHES, FULL_DEPTH, AsyncEngine
from frost.runtime.backend import BackendName
from frost.runtime.budgets import UnderLoad
from frost.serving.decode import Reader
from frost.serving.drift import Drift, FirstStep
from frost.serving.limits import LIMITS
from frost.zoo.registry import ModelConfig

HISTORY = 120    # seconds of the live view


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How the engine of each run is made."""

    slots: int = 64
    budget: Budget = FULL_DEPTH
    max_queue: int | None = None
    under_load: UnderLoad = "shed"
    floor: float | None = None
    backend: BackendName | Literal["auto"] = "eager"
    ladder: bool = True
    own_process: bool = False    # of each engine


@dataclass(slots=True, kw_only=True)
class ServedRun:
    """A run that answers."""

    name: str
    run: Run
    engine: AsyncEngine
    reader: Reader
    signature: Signature
    watch: FirstStep | None
    names: list[str]                                # of the classes
    gives: Gives
    facts: dict[str, Any] | None = None             # what the page shows; made when it is first asked for
    shape: tuple[int, ...] = ()                     # of an output; known once the engine is warm
    rates: deque[int] = field(default_factory=lambda: deque(maxlen=HISTORY))    # answers in each of the last seconds

    @property
    def drift(self) -> Drift | None:
        """What was found at the last look; None before, and without a calibration."""
        return None if self.watch is None else self.watch.drift

    @property
    def recalibrate(self) -> str:
        """The command against drift."""
        return command_for(self.run.path)

    @property
    def efficiency(self) -> float | None:
        """The share of computed rows that held an input which had not stopped."""
        work = self.engine.work
        computed = work.begun + work.stepped
        return (work.begun_for + work.stepped_for) / computed if computed else None

    def stats(self) -> dict[str, Any]:
        """For the live view: plain numbers."""
        progress, counts, drift = self.engine.progress, self.engine.counts, self.drift
        steps = sum(depth * count for depth, count in enumerate(counts.depths, 1))
        return {**progress._asdict(), "depth": self.run.model.depth, "depths": list(counts.depths),
                "answered": counts.answered, "failed": counts.failed, "late": counts.late, "expired": counts.expired,
                "cancelled": counts.cancelled, "reduced": counts.reduced, "rates": list(self.rates),
                "mean_depth": steps / counts.answered if counts.answered else None, "efficiency": self.efficiency,
                "is_watched": self.watch is not None,
                "budget": self.engine.default.budget.named() or "full depth",
                "drift": None if drift is None else {**drift._asdict(), "has_drifted": drift.has_drifted}}


def open_run(name: str, path: str, options: EngineOptions) -> ServedRun:
    """Load and verify a run and make its engine, which is not started yet; slow."""
    run = load(path, device="auto")
    policy_of(run, options.budget)    # says how to calibrate a run that has to be
    return serve_model(name, run, options)


def serve_model(name: str, run: Run, options: EngineOptions) -> ServedRun:
    """The same for a run that is there, such as one of a model of your own."""
    signature: Signature | None = run.model.signature
    if signature is None:
        raise ValueError(f"{run.path} does not say what one input looks like; calibrate it again: "
                         f"{command_for(run.path)}")
    calibration = run.calibration if run.calibration is not None and run.calibration.pooled.count else None
    watch = None if calibration is None else FirstStep(calibration)
    queue = max(BATCHES * options.slots, LIMITS.images) * run.model.depth    # room for a full request, too
    engine = AsyncEngine(run.model, calibration, slots=options.slots, budget=options.budget,
                         max_queue=options.max_queue or queue, under_load=options.under_load, floor=options.floor,
                         backend=options.backend, ladder=options.ladder, watch=watch,
                         process_of=run if options.own_process else None)
    names = run.config.get("classes")
    return ServedRun(name=name, run=run, engine=engine, signature=signature, watch=watch,
                     reader=_reader(run, signature), gives=run.model.task.gives,
                     names=[str(label) for label in names] if isinstance(names, list) else [])


def _reader(run: Run, signature: Signature) -> Reader:
    """Whether a run takes image files, and of which size."""
    if not isinstance(run.config.get("model"), dict) or run.config.get("data") in PROBLEMS:
        return Reader(signature, None, 0)
    config = from_dict(ModelConfig, run.config["model"], "model")
    return Reader(signature, config.image_size, config.image_channels)


def named_runs(words: list[str], pretrained: Callable[[], dict[str, Path]]) -> dict[str, str]:
    """`RUN` or `NAME=RUN`, by name; two of one name are a ValueError."""
    found: dict[str, str] = {}
    for word in words:
        name, _, path = word.partition("=") if "=" in word and not Path(word).exists() else ("", "", word)
        name = name or (path if path in pretrained() and not Path(path).exists() else Path(path).absolute().name)
        name = name if not path.startswith("hf://") or "=" in word else path.rsplit("/", 1)[-1].split("@")[0]
        if not name or not all(letter.isalnum() or letter in "-_." for letter in name):
            raise ValueError(f"a run's name has letters, digits, '-', '_' and '.', got '{name}'; write NAME={path}.")
        if name in found:
            raise ValueError(f"two runs are named '{name}'; write NAME=RUN for one of them.")
        found[name] = path
    return found
