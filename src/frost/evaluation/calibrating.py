"""Calibrate a model: gather what stopping rules look at on held-out inputs.

Which signal a run stops by, with one threshold for all steps or one for each, is chosen for each budget on the held-out
images (`halting.rule_choice`), unless one is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from frost.checkpoint import Run, weights_hash
from frost.config import suggest
from frost.core.block import FAILURES
from frost.core.inputs import pair_of, row
from frost.core.precision import Device, resolve_device
from frost.core.task import Judge
from frost.core.trajectory import IterativeModel, evaluating
from frost.data.splits import Images, labelled
from frost.evaluation.complexity import Complexity, measure
from frost.evaluation.traces import Traces, trace
from frost.halting.calibration import Calibration
from frost.halting.cost import Cost
from frost.halting.signals import SIGNALS
from frost.report.progress import progress

OF_CLASSES = ("confidence", "margin", "entropy")    # signals of an answer that any classifier gives
FRACTIONS = (0.35, 0.5, 0.75)    # of full depth, that tables show


def calibrate(model: IterativeModel, held_out: Iterable[Any], signal: str | None = None, *,
              quality: Judge | None = None, device: Device | None = None, is_shown: bool = True) -> Calibration:
    """Gather what a model does on held-out inputs, from which stopping rules for any budget follow.

    The model remembers it, and `model.save` keeps it with the weights.

    Args:
        held_out: batches of (inputs, targets) that were not trained on: a DataLoader, a list.
        signal: what the rules look at: `rank` is the halting score; or confidence, margin, entropy, change, …; None
            compares those that fit and keeps the one that clearly wins at each budget, else fixed depth.
        quality: how good an answer is, in [0, 1] a sample, where not as the head says.
        device: where to compute; None leaves the model where it is.
    """
    if not isinstance(model, IterativeModel):
        raise ValueError(f"calibrate takes a model with begin, step and read, such as frost.Frost, got "
                         f"{type(model).__name__}.")
    if signal is not None:
        check_policy(signal)
    if device is not None:
        model.to(resolve_device(device))
    task, names = model.judged_by(quality), [signal] if signal else candidates(model)
    first: list[Any] = []

    def batches() -> Iterator[Any]:
        for item in held_out:
            first[:] = first or [item]
            yield item

    with progress("calibrating", None, is_shown=is_shown, unit="inputs") as report, evaluating(model):
        traces = trace(model, batches(), names, task, report)
    model.expects(row(pair_of(first[0])[0], 0))    # from now on an engine knows what one input looks like
    if not traces.is_finite:
        raise ValueError("the model answers with NaN or infinity; it diverged, train it again with a smaller "
                         "learning rate.")
    model.calibration = from_traces(model, traces)
    return model.calibration


def candidates(model: IterativeModel, score: str = "rank") -> list[str]:
    """The signals that are compared where none is asked for: the score as it was taught, and those of the answer."""
    names = ([score] if model.has_score else []) + (list(OF_CLASSES) if model.task.gives == "classes" else [])
    return names or ["change"]


def gather(model: IterativeModel, held_out: Images, names: Sequence[str]) -> Calibration:
    """The calibration of a model from held-out images; quantiles are those of the first signal."""
    with progress("calibrating", len(held_out)) as report:
        traces = trace(model, labelled(held_out), names, report=report)
    return from_traces(model, traces)


def from_traces(model: IterativeModel, traces: Traces) -> Calibration:
    """The calibration of a model from what it did for held-out inputs."""
    return Calibration.gather(traces.signals, traces.quality, weights_hash=weights_hash(model), cost=counted(model),
                              choose=True)


def counted(model: IterativeModel) -> Cost | None:
    """What a step costs; None for a block whose operations cannot be counted without data."""
    try:
        return cost_of(measure(model))
    except FAILURES:
        return None


def cost_of(complexity: Complexity) -> Cost:
    """FLOPs as an engine spends them, the first step from the cache where there is one."""
    later = (complexity.depth - 1) * complexity.flops_per_step
    first = complexity.flops_full_depth_cached - complexity.flops_once - later
    return Cost(complexity.flops_once, max(first, 0), complexity.flops_per_step)


def check_policy(policy: str) -> None:
    """Refuse a name that is no stopping rule."""
    if not isinstance(policy, str):
        raise ValueError(f"a stopping rule goes by its name, such as 'confidence', got a {type(policy).__name__}; "
                         "targets stand beside the inputs: calibrate(model, [(inputs, targets)]).")
    if policy not in SIGNALS:
        raise ValueError(f"there is no stopping rule '{policy}'. {suggest(policy, SIGNALS)}")


def trained_by(run: Run) -> str:
    """The objective that taught a run's score: rank, act or ponder."""
    return str(run.config.get("halting", {}).get("objective", "rank"))


def check_trained_for(run: Run, policy: str) -> None:
    """Refuse a rule whose score the run was not taught."""
    if policy in ("rank", "act", "ponder") and policy != trained_by(run):
        raise ValueError(f"{run.path} was trained with halting.objective={trained_by(run)}, so its score answers "
                         f"'{trained_by(run)}' and not '{policy}'; train one with --set halting.objective={policy}.")


