"""What is measured of one trained model: plain numbers, from which the sections are made without the model."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from frost.analysis.consistency import consistency, cosine_to_final, flattened
from frost.analysis.dimension import box_dimension, increments_exponent
from frost.analysis.intervals import of_bootstrap, of_mean
from frost.analysis.stability import gradient_conflict
from frost.core.layout import channel_axis, normalised_pool
from frost.core.precision import device_of
from frost.core.trajectory import IterativeModel, Trajectory, evaluating
from frost.data.splits import DataSet, Images
from frost.evaluation.datasets import batches_of
from frost.evaluation.halting_table import EIGHTHS, depths_at, per_step_accuracy
from frost.evaluation.traces import Traces
from frost.halting.calibration import Calibration
from frost.halting.ranking import HaltingConfig
from frost.halting.signals import SIGNALS, along
from frost.training.evaluate import run_frozen
from frost.training.logbook import read
from frost.training.objective import objective, step_losses
from frost.training.records import LOGBOOK, PROBES
from frost.workflows.kit.adaptive import with_intervals

POINTS = 60                                          # of a curve over a training
PROBED = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)      # shares of a training at which gradients are compared
PROBE_IMAGES = 64


def outcome(model: IterativeModel, calibration: Calibration | None, test: Images) -> dict[str, Any]:
    """Accuracy after each step, the halting table, and how far the scores differ."""
    trajectory = run_frozen(model, test)
    rows = [] if calibration is None else _at_quantiles(trajectory, test.labels, calibration)
    return {"images": len(test), "depth": trajectory.depth, "classes": trajectory.outputs.shape[2],
            "per_step_accuracy": per_step_accuracy(trajectory.outputs, test.labels),
            "rows": rows, "score_deviation": trajectory.scores.double().std(correction=0).item(),
            "score_and_loss": _rank_correlation(-trajectory.score_logits, step_losses(trajectory.outputs,
                                                                                     test.labels))}


def _rank_correlation(first: Tensor, second: Tensor) -> list[float | None]:
    """Spearman's, over images, for each step, (b, t), (b, t) → T numbers; None where all are alike."""
    ranks = [values.double().argsort(dim=0).argsort(dim=0).double() for values in (first, second)]
    centred = [values - values.mean(dim=0) for values in ranks]
    found = (centred[0] * centred[1]).sum(dim=0) / (centred[0].norm(dim=0) * centred[1].norm(dim=0)).clamp_min(1e-300)
    is_flat = (first == first[:1]).all(dim=0) | (second == second[:1]).all(dim=0)
    return [None if flat else value for value, flat in zip(found.tolist(), is_flat.tolist(), strict=True)]


def _at_quantiles(trajectory: Trajectory, labels: Tensor, calibration: Calibration) -> list[dict[str, Any]]:
    """Table 2, each number with its interval."""
    traces = Traces.of(trajectory.outputs, labels, {})
    signal = along(SIGNALS[calibration.rule], trajectory.outputs, trajectory.score_logits)
    return [{"quantile": quantile, "threshold": rule.threshold,
             **with_intervals(calibration.rule, depths.numpy(), traces)}
            for quantile, rule, depths in depths_at(EIGHTHS, calibration, signal)]


def geometry(model: IterativeModel, test: Images, paths: int) -> dict[str, Any]:
    """Cosines to the last state, pooled as the readout sees them and flattened; dimension and exponent of the path."""
    pooled, flat, kept = [], [], []
    with evaluating(model):
        for features, states in _along(model, batches_of(test, 128)):
            pooled.append(cosine_to_final(features))
            flat.append(cosine_to_final(flattened(states)))
            kept.append(features)
    features = torch.cat(kept)[:paths]
    found = box_dimension(features)
    return {"pooled": consistency(torch.cat(pooled))._asdict(), "flattened": consistency(torch.cat(flat))._asdict(),
            "dimension": of_bootstrap(found.value.numpy())._asdict(),
            "r_squared": of_mean(found.r_squared.numpy())._asdict(),
            "smallest_box": found.smallest.mean().item(),
            "exponent": of_mean(increments_exponent(features).numpy())._asdict()}


def extrapolation(model: IterativeModel, test: Images) -> dict[str, Any]:
    """Right answers after T/2, T, 2T and 4T steps, and after every step up to 4T."""
    hits: list[Tensor] = []
    with evaluating(model):
        for images, labels in zip(batches_of(test), test.labels.split(256), strict=True):
            outputs = model(images.to(device_of(model)), depth=4 * model.depth, keep_states=False).outputs.cpu()
            hits.append(outputs.argmax(dim=-1) == labels[:, None])
    each, depth = torch.cat(hits).double(), model.depth
    right = each.mean(dim=0).tolist()
    places = {"half": max(1, depth // 2), "full": depth, "double": 2 * depth, "fourfold": 4 * depth}
    return {"per_step_accuracy": right, "images": len(test),
            "at": {name: right[steps - 1] for name, steps in places.items()},
            "against_full": {name: of_mean((each[:, steps - 1] - each[:, depth - 1]).numpy())._asdict()
                             for name, steps in places.items() if name != "full"}}


def over_training(run: Path) -> dict[str, Any]:
    """λ, H and the scores of easy, hard and median pairs, as the logbook has them; at most `POINTS` of each."""
    book = read(run / LOGBOOK)
    step = max(1, len(book) // POINTS)
    chosen = book[::step] + ([] if (len(book) - 1) % step == 0 else book[-1:])
    names = ("scale", "hurst", "easy_score", "hard_score", "median_score")
    return {"share": [line["step"] / line["steps"] for line in chosen],
            **{name: [line[name] for line in chosen] for name in names},
            "least_scale": min((line["scale"] for line in book if line["scale"] is not None), default=None),
            "largest_scale": max((line["scale"] for line in book if line["scale"] is not None), default=None),
            "conflict": read(run / PROBES)}


def conflict_probe(data: DataSet[Images], halting: HaltingConfig) -> Callable[..., Mapping[str, Any] | None]:
    """A probe for a training: the cosine between the gradients of the task and of the ranking losses, App. D.

    θ is what both reach: neither the readout nor the score's own weights. The losses are those of the paper, whatever
    weight the training gives them.
    """
    rows = torch.arange(min(PROBE_IMAGES, len(data.validation)))
    images, labels = data.validation.batch(rows), data.validation.labels[rows]
    halting = HaltingConfig(reduce=halting.reduce, rank_by=halting.rank_by)

    def probe(model: IterativeModel, step: int, steps: int) -> Mapping[str, Any] | None:
        if step not in {round(share * steps) for share in PROBED}:
            return None
        twin = copy.deepcopy(model).eval()    # gradients, modes and statistics of the training stay as they are
        place = device_of(twin)
        loss = objective(twin(images.to(place), keep_states=False), labels.to(place), halting)
        shared = [value for name, value in twin.named_parameters() if not name.startswith("head.")]
        task = _gradient(loss.task, shared)
        conflicts = {name: finite(gradient_conflict(task, _gradient(part, shared))) for name, part in
                     (("relative", loss.relative), ("anchoring", loss.anchoring))}
        return {"share": step / steps, **conflicts}

    return probe


def finite(number: float) -> float | None:
    """A number as JSON takes it."""
    return number if math.isfinite(number) else None


def _gradient(loss: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    if not loss.requires_grad:
        return [torch.zeros_like(part) for part in parameters]
    found = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(part) if grad is None else grad for part, grad in zip(parameters, found, strict=True)]


def _along(model: IterativeModel, batches: Iterator[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """The features that the readout sees, (b, t, c), and the states, (b, t, …), one batch at a time."""
    norm: Any = model.norm
    head: Any = model.head
    for images in batches:
        trajectory: Trajectory = model(images.to(device_of(model)))
        assert trajectory.states is not None
        axis = channel_axis(trajectory.states[:, 0].shape, head.channels, model.layout)    # type: ignore[arg-type]
        features = [normalised_pool(norm, hidden, axis) for hidden in trajectory.states.unbind(dim=1)]
        yield torch.stack(features, dim=1), trajectory.states
