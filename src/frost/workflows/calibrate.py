"""`frost calibrate RUN`: gather the signals of a stopping rule on held-out images, and keep them in the run.

Which form of thresholds a run answers with, one for all steps or one for each, is decided here, on the held-out images,
by which is right more often at three depths when each half of them is judged with the thresholds of the other half.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from frost import directory
from frost.analysis.complexity import Complexity, measure
from frost.analysis.traces import Traces, trace
from frost.checkpoint import CHECKPOINTS, Run, load, pretrained, recalibrate, weights_hash
from frost.config import suggest
from frost.core.inputs import pair_of, row
from frost.core.precision import Device, resolve_device
from frost.core.task import Judge
from frost.core.trajectory import IterativeModel, evaluating
from frost.core.transition import FAILURES
from frost.data.splits import Images
from frost.halting.budget import per_step_at_mean_depth, pooled_at_mean_depth, stops_at
from frost.halting.calibration import Calibration, Cost
from frost.halting.signals import SIGNALS
from frost.report.tables import percent, table
from frost.workflows.dataset import data_of, labelled
from frost.workflows.progress import progress

FRACTIONS = (0.35, 0.5, 0.75)    # of full depth, where forms and rules are compared


class Calibrated(NamedTuple):
    """A run with a new calibration."""

    run: str
    calibration: Calibration
    seconds: float


def calibrate_run(run_path: Path | str, data_folder: Path | None = None, policy: str = "rank",
              download: bool = False) -> Calibrated:
    """Calibrate a run anew on the validation images of its data set, for one stopping rule."""
    started = time.monotonic()
    check_policy(policy)
    run = load(run_path, with_calibration=False, device="auto")
    if run.path.parent.name == CHECKPOINTS:
        raise ValueError(f"{run_path} is still being trained; a training that ends calibrates its run: go on with "
                         "--resume.")
    if run.path in pretrained().values():
        raise ValueError(f"{run_path} comes with the package and is calibrated; copy {run.path} to a folder of your "
                         "own to change it.")
    check_trained_for(run, policy)
    directory.check_writable(run.path)
    with directory.alone_with(run.path, f"another process is calibrating {run.path}; wait for it, then try again."):
        held_out = data_of(run, data_folder, download).validation
        calibration = gather(run.model, held_out, policy)
        recalibrate(run.path, calibration)
    return Calibrated(str(run.path), calibration, time.monotonic() - started)


def calibrate(model: IterativeModel, held_out: Iterable[Any], signal: str = "rank", *, quality: Judge | None = None,
              device: Device | None = None, is_shown: bool = True) -> Calibration:
    """Gather what a model does on held-out inputs, from which stopping rules for any budget follow.

    The model remembers it, and `model.save` keeps it with the weights.

    Args:
        held_out: batches of (inputs, targets) that were not trained on: a DataLoader, a list.
        signal: what the rules look at: `rank` is the halting score; or confidence, margin, entropy, change, …
        quality: how good an answer is, in [0, 1] a sample, where not as the head says.
        device: where to compute; None leaves the model where it is.
    """
    if not isinstance(model, IterativeModel):
        raise ValueError(f"calibrate takes a model with begin, step and read, such as frost.Frost, got "
                         f"{type(model).__name__}.")
    check_policy(signal)
    if device is not None:
        model.to(resolve_device(device))
    task = model.judged_by(quality)
    first: list[Any] = []

    def batches() -> Iterator[Any]:
        for item in held_out:
            first[:] = first or [item]
            yield item

    with progress("calibrating", None, is_shown=is_shown, unit="inputs") as report, evaluating(model):
        traces = trace(model, batches(), [signal], task, report)
    model.expects(row(pair_of(first[0])[0], 0))    # from now on an engine knows what one input looks like
    if not traces.is_finite:
        raise ValueError("the model answers with NaN or infinity; it diverged, train it again with a smaller "
                         "learning rate.")
    model.calibration = from_traces(model, traces, signal)
    return model.calibration


def gather(model: IterativeModel, held_out: Images, policy: str = "rank") -> Calibration:
    """The calibration of a model for one rule, from held-out images."""
    with progress("calibrating", len(held_out)) as report:
        traces = trace(model, labelled(held_out), [policy], report=report)
    return from_traces(model, traces, policy)


def from_traces(model: IterativeModel, traces: Traces, policy: str) -> Calibration:
    """The calibration of a model for one rule, from what it did for held-out inputs."""
    return Calibration.gather(traces.signals[policy], traces.quality, weights_hash=weights_hash(model), rule=policy,
                              cost=counted(model), per_step_thresholds=prefers_per_step(traces, policy))


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


def prefers_per_step(traces: Traces, policy: str) -> bool:
    """Whether a threshold for each step is right more often, each half of the images judged by the other."""
    values, quality = traces.signals[policy].numpy().astype(np.float32), traces.quality.numpy()
    halves = np.random.default_rng(0).permutation(len(values)) % 2 == 0
    if min(halves.sum(), (~halves).sum()) < 50 or traces.depth < 2:
        return False    # too few to tell
    margin = 0.0
    for then, now in ((halves, ~halves), (~halves, halves)):
        for fraction in FRACTIONS:
            wish = max(1.0, fraction * traces.depth)
            rules = (per_step_at_mean_depth(values[then], quality[then], wish),
                     pooled_at_mean_depth(values[then], wish))
            each, pooled = (_worth(values[now], quality[now], rule.thresholds) for rule in rules)
            margin += each - pooled
    return margin > 0


def _worth(values: np.ndarray, quality: np.ndarray, thresholds: tuple[float, ...]) -> float:
    """Accuracy above the fixed-depth line at the mean depth taken."""
    depths = stops_at(values, thresholds)
    line = np.interp(depths.mean(), np.arange(1, quality.shape[1] + 1), quality.mean(axis=0))
    return float(quality[np.arange(len(quality)), depths - 1].mean() - line)


def command_for(path: Path) -> str:
    """The command that calibrates a run, to be typed as it stands."""
    return shlex.join(["frost", "calibrate", str(path)])


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


def as_json(result: Calibrated) -> dict[str, Any]:
    """What the calibration answers at some depths."""
    ours = result.calibration
    return {"run": result.run, "policy": ours.rule, "images": len(ours.values), "depth": ours.depth,
            "dropped": ours.dropped, "per_step_thresholds": ours.per_step_thresholds, "rows": _rows(ours),
            "weights_hash": ours.weights_hash, "seconds": result.seconds}


def text(result: Calibrated) -> str:
    """The same for a person."""
    ours = result.calibration
    rows = [[f"{row['fraction']:.2f}", f"{row['mean_depth']:.2f}", percent(row["accuracy"])] for row in _rows(ours)]
    form = "one threshold for each step" if ours.per_step_thresholds else "one threshold for all steps"
    head = f"{result.run} · rule {ours.rule} · {len(ours.values):,} held-out images · depth {ours.depth}"
    return "\n".join([head, "", table(["of T", "mean depth", "accuracy"], rows), "",
                      f"{form.capitalize()}, which was right more often on these images. Measured in "
                      f"{result.seconds:.1f} s."])


def _rows(ours: Calibration) -> list[dict[str, Any]]:
    rows = []
    for fraction in (*FRACTIONS, 1.0):
        wish = max(1.0, fraction * ours.depth)
        assert ours.quality is not None
        reached = (per_step_at_mean_depth(ours.values, ours.quality, wish) if ours.per_step_thresholds else
                   pooled_at_mean_depth(ours.values, wish))
        depths = stops_at(ours.values, reached.thresholds)
        right = float(ours.quality[np.arange(len(depths)), depths - 1].mean())
        rows.append({"fraction": fraction, "mean_depth": float(depths.mean()), "accuracy": right})
    return rows
