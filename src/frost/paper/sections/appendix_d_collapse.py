"""App. D: which models collapse under the ranking loss, and whether its gradient conflicts with the task's.

Paper choice: the paper says "failed to converge" and gives no measure. A training has collapsed if it is not finite, if
its accuracy is below half of the same model's without the ranking loss, or if its scores no longer differ.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from frost.core.precision import device_of
from frost.core.trajectory import IterativeModel
from frost.data.splits import DataSet, Images
from frost.halting.ranking import HaltingConfig
from frost.paper.checks import Check, Units, above, accuracy_of, below, every, measured, seeds_of, shown
from frost.paper.intervals import Measured, exact, of_mean, of_share
from frost.paper.section import Finding, Section
from frost.paper.sizes import Size
from frost.paper.units import FOLDED, Measurement, Unit, grid
from frost.report.drawing import CYCLE, MARKS, TITLES, Values, colour_of, legend_above, panels
from frost.training.losses import objective
from frost.training.runner import Probe

BASELINES = ("vanilla", "recurrent", "basic-ssm")
MODELS = (*BASELINES, FOLDED, "frost")
REDUCES = ("none", "mean", "sum")                    # of the ranking loss over steps; none is without it
LEAST_SHARE = 0.5                                    # of the accuracy without the ranking loss
LEAST_DEVIATION = 0.01                               # of the scores over images and steps
PROBED = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)      # shares of a training at which gradients are compared
PROBE_IMAGES = 64


def conflict_probe(data: DataSet[Images], halting: HaltingConfig) -> Probe:
    """A probe for a training: the cosine between the gradients of the task and of the ranking losses.

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
        cosines = {name: gradient_conflict(task, _gradient(part, shared)) for name, part in
                   (("relative", loss.relative), ("anchoring", loss.anchoring))}
        return {"share": step / steps, **{name: value if math.isfinite(value) else None
                                          for name, value in cosines.items()}}

    return probe


CONFLICT = Measurement(name="conflict", probe=conflict_probe)


def units(size: Size) -> list[Unit]:
    """Every model with the ranking loss and without it, each seed."""
    return [grid(size, model, reduce, seed, CONFLICT) for seed in size.seeds for model in (*BASELINES, "frost")
            for reduce in REDUCES] + [grid(size, FOLDED, reduce, size.seeds[0], CONFLICT) for reduce in REDUCES]


class Outcome(NamedTuple):
    """How one training ended."""

    is_finite: bool
    accuracy: float           # at full depth
    score_deviation: float    # over all pairs of image and step


def why_collapsed(outcome: Outcome, accuracy_without: float) -> str | None:
    """The first reason that applies, in words; None if it did not collapse."""
    if not outcome.is_finite:
        return "not finite"
    if outcome.accuracy < LEAST_SHARE * accuracy_without:
        return "accuracy below half"
    if outcome.score_deviation < LEAST_DEVIATION:
        return "scores alike"
    return None


def judge(units: Units) -> Finding:
    """Do the baselines collapse under the ranking loss, and FROST not; and do gradients conflict?"""
    rows = {model: _grid_row(units, model) for model in MODELS}
    share = {reduce: {model: measured(row[reduce]["collapsed"]) for model, row in rows.items()}
             for reduce in ("sum", "mean")}
    conflicts = {reduce: {model: _conflicts(units, model, reduce) for model in MODELS} for reduce in ("sum", "mean")}
    numbers = {"grid": rows,
               "conflict": {reduce: {model: {name: None if value is None else value._asdict()
                                             for name, value in row.items()} for model, row in found.items()}
                            for reduce, found in conflicts.items()},
               "conflict_over_training": {model: _curve(units, model) for model in MODELS if model != FOLDED}}
    beyond = {f"with the mean over steps, {check}": met
              for check, met in _checks(share["mean"], conflicts["mean"]).items()}
    beyond["as printed, BasicSSM that starts as a folded FROST does not collapse either (one seed)"] = \
        share["sum"][FOLDED].value == 0
    cosines = {model: row["relative"] for model, row in conflicts["sum"].items()}
    return Finding(
        numbers, {f"as printed (sum over steps), {check}": met
                  for check, met in _checks(share["sum"], conflicts["sum"]).items()},
        "Collapsed with the sum and with the mean over steps: " + ", ".join(
            f"{model} {_count(share['sum'][model])} and {_count(share['mean'][model])} of {share['sum'][model].n}"
            for model in MODELS) + ". Mean cosine of the relative loss's gradient to the task's, with the sum: " +
        ", ".join(f"{model} {'none' if value is None else format(value.value, '+.2f')}"
                  for model, value in cosines.items()) + ".",
        [unit for name, unit in units.items() if "-none-" in name], seeds_of(*units.values()),
        compared=[[f"{model}: collapsed with the sum; C(θ) of the relative loss",
                   "does not; C > 0" if model == "frost" else "–" if model == FOLDED else "collapses; C ≪ 0",
                   f"{_count(share['sum'][model])} of {share['sum'][model].n}; "
                   + ("none" if value is None else shown(value))] for model, value in cosines.items()], beyond=beyond)


def _checks(collapsed: Mapping[str, Measured], conflicts: Mapping[str, Any]) -> dict[str, Check]:
    """With one way to reduce the ranking loss over steps."""
    return {"every baseline collapses in more than half of the seeds":
            all(collapsed[model].value > 0.5 for model in BASELINES),
            "FROST collapses in none, where a baseline does (not decided if none does)":
                stands_alone({model: share.value for model, share in collapsed.items()}),
            "the relative loss conflicts with the task in every baseline, C < 0":
                every(_known(below, conflicts[model]["relative"]) for model in BASELINES),
            "it agrees with the task in FROST, C > 0": _known(above, conflicts["frost"]["relative"])}


def stands_alone(collapsed: Mapping[str, float]) -> Check:
    """Whether FROST stands where others fall; where none falls, to stand proves nothing."""
    if collapsed["frost"] > 0:
        return False
    return True if any(collapsed[model] > 0 for model in BASELINES) else None


def _known(check: Callable[[Measured], Check], value: Measured | None) -> Check:
    return None if value is None else check(value)


def _count(share: Measured) -> str:
    return f"{share.value * share.n:.0f}"


def _grid_row(units: Units, model: str) -> dict[str, Any]:
    """One model under each form of the loss, and without it."""
    without = {unit["seed"]: unit for name, unit in units.items() if name.startswith(f"{model}-none-")}
    finite = [unit["per_step_accuracy"][-1] for unit in without.values() if unit["is_finite"]]
    return {**{reduce: _judged(units, f"{model}-{reduce}-", without) for reduce in ("mean", "sum")},
            "none": {"accuracy": of_mean(finite)._asdict() if finite else None}}


def _judged(units: Units, prefix: str, without: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Every seed of one model under one form of the loss, and the share that collapsed."""
    rows = []
    for name, unit in units.items():
        if not name.startswith(prefix):
            continue
        base, is_finite = without[unit["seed"]], unit["is_finite"]    # one that diverged has no numbers
        found = Outcome(is_finite, unit["per_step_accuracy"][-1] if is_finite else 0.0,
                        unit.get("score_deviation", 0.0))
        reason = why_collapsed(found, base["per_step_accuracy"][-1] if base["is_finite"] else 0.0)
        rows.append({"seed": unit["seed"], "accuracy": accuracy_of(unit)._asdict() if is_finite else None,
                     "score_deviation": exact(found.score_deviation)._asdict() if is_finite else None,
                     "collapsed": reason})
    finite = [row["accuracy"]["value"] for row in rows if row["accuracy"] is not None]
    return {"rows": rows, "collapsed": of_share(sum(row["collapsed"] is not None for row in rows), len(rows))._asdict(),
            "accuracy": of_mean(finite)._asdict() if finite else None}


def _conflicts(units: Units, model: str, reduce: str) -> dict[str, Measured | None]:
    """The mean cosine over a training with the ranking loss, the start left out; one number a seed."""
    books = [unit["over_training"]["conflict"][1:] for name, unit in units.items()
             if name.startswith(f"{model}-{reduce}-")]
    means: dict[str, Measured | None] = {}
    for what in ("relative", "anchoring"):
        rows = [[row[what] for row in book if row[what] is not None] for book in books]
        known = [sum(row) / len(row) for row in rows if row]
        means[what] = of_mean(known) if known else None
    return means


def _curve(units: Units, model: str) -> dict[str, list[float]]:
    """The first seed's cosines over its training as printed."""
    book: list[Any] = next((unit["over_training"]["conflict"] for name, unit in units.items()
                            if name.startswith(f"{model}-sum-")), [])
    return {key: [row[key] for row in book] for key in ("share", "relative", "anchoring")}


def gradient_conflict(task: Sequence[Tensor], rank: Sequence[Tensor]) -> float:
    """The cosine between two gradients over the same parameters; below 0 they compete.

        C(θ) = ∇L_task · ∇L_rank / (‖∇L_task‖ ‖∇L_rank‖)        (40)
    """
    first = torch.cat([part.flatten() for part in task]).double()
    second = torch.cat([part.flatten() for part in rank]).double()
    return (first @ second / (first.norm() * second.norm()).clamp_min(1e-300)).item()


def _gradient(loss: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    if not loss.requires_grad:
        return [torch.zeros_like(part) for part in parameters]
    found = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(part) if grad is None else grad for part, grad in zip(parameters, found, strict=True)]


def draw(paper: Values, ours: Values, _: Values) -> Any:
    """Accuracy with each ranking loss, and how its gradient meets the task's."""
    figure, (here, there) = panels(2)
    _draw_grid(here, ours["grid"])
    for index, (model, curve) in enumerate(ours["conflict_over_training"].items()):
        for what, line in (("relative", "-"), ("anchoring", ":")):
            known = [(x, y) for x, y in zip(curve["share"], curve[what], strict=True) if y is not None]
            there.plot([x for x, _ in known], [y for _, y in known], line, marker=MARKS[index], ms=4,
                       color=colour_of(model), label=TITLES[model] if what == "relative" else None)
    there.axhline(0, color="#888888", lw=0.8)
    there.set(xlabel="share of the training (sum over steps, one seed)",
              ylabel="C(θ) with the task's gradient\n(— relative, ··· anchoring)")
    legend_above(there, 4)
    return figure


def _draw_grid(here: Any, rows: Values) -> None:
    """Accuracy of every seed with each form of the loss; hollow where it collapsed, at the foot where it diverged."""
    for index, (reduce, label) in enumerate((("mean", "mean over steps"), ("sum", "sum, as printed"))):
        for place, model in enumerate(rows):
            for row in rows[model][reduce]["rows"]:
                height = 0.0 if row["accuracy"] is None else 100 * row["accuracy"]["value"]
                here.plot(place + 0.22 * index - 0.11, height, ("o", "s")[index],
                          mfc="none" if row["collapsed"] else CYCLE[index], color=CYCLE[index], ms=6, alpha=0.8)
        here.plot([], [], ("o", "s")[index], color=CYCLE[index], label=label)
    for place, model in enumerate(rows):
        row = rows[model]["none"]["accuracy"]
        if row is not None:
            here.plot([place - 0.35, place + 0.35], [100 * row["value"]] * 2, color=CYCLE[6], lw=1)
    here.plot([], [], "o", mfc="none", color=CYCLE[7], label="hollow: collapsed")
    here.plot([], [], color=CYCLE[6], lw=1, label="without the ranking loss")
    names = [TITLES[model].replace(" from a", "\nfrom a\n") for model in rows]
    here.set(xticks=range(len(rows)), xticklabels=names, ylabel="full-depth accuracy (%)", ylim=(0, None))
    legend_above(here)


SECTION = Section(
    name="collapse", title="App. D: collapse",
    claim="With the ranking loss Vanilla, Recurrent and BasicSSM collapse and FROST does not, because only FROST's "
          "gradients agree (App. D).",
    paper={"baselines": "collapse across seeds", "frost": "does not", "conflict": "C ≪ 0 in baselines, C > 0 in FROST"},
    units=units, judge=judge, draw=draw, takes_diverged=True)
