"""Beyond the paper: the spectrum of the step's Jacobian along the path.

App. B bounds the norm of ∂Φ/∂h by L < 1 at every state. Here the leading singular values are measured where a trained
model really is, at h_1 … h_T (at h_0 = 0 a normalisation has no slope, or an enormous one), in double precision.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from frost.core.trajectory import IterativeModel
from frost.data.splits import Images
from frost.paper.checks import Check, Units, below, seeds_of, shown
from frost.paper.intervals import Measured, of_mean
from frost.paper.measurements.contraction_and_jacobian import StateMap
from frost.paper.measurements.trained_step import frozen_twin, path_of, step_of
from frost.paper.section import Finding, Section
from frost.paper.sizes import Size
from frost.paper.units import BASE, Measurement, Unit, base, ours
from frost.report.drawing import CYCLE, MARKS, TITLES, Values, legend_above, panels

IMAGES = 8         # that are looked at
LEADING = 8        # singular values that are found, and directions at random for the mean of all
ITERATIONS = 25    # of the block of directions


def spectrum_along(model: IterativeModel, test: Images) -> dict[str, Any]:
    """The leading singular values of ∂Φ/∂h at h_1 … h_T, (t, image, k), and the mean square of all, (t, image)."""
    with frozen_twin(model, test, IMAGES) as (twin, images):
        with torch.no_grad():
            start = twin.begin(images)
            path = path_of(twin, start, twin.depth)[1:]
        step = step_of(twin, start.mapped(lambda part: part.repeat_interleave(LEADING, dim=0)))
        return {"singular_values": [leading_singular_values(step, hidden).tolist() for hidden in path],
                "mean_square": [mean_square(step, hidden).tolist() for hidden in path]}


JACOBIAN = Measurement(name="jacobian", take=lambda model, data, size: spectrum_along(model, data.test),
                       settings=lambda size: {"jacobian": [IMAGES, LEADING, ITERATIONS]})


def leading_singular_values(step: StateMap, hidden: Tensor) -> Tensor:
    """By power iteration on JᵀJ of a block of orthogonal directions, (b, …) → (b, k), the largest first.

    Args:
        step: takes each state `LEADING` times over, one row for each direction.
    """
    block = _random_block(hidden)
    images = block
    for _ in range(ITERATIONS):
        block = torch.linalg.qr(block).Q
        images = _block(torch.autograd.functional.jvp(step, _wide(hidden), _rows(block, hidden))[1], hidden)
        block = _block(torch.autograd.functional.vjp(step, _wide(hidden), _rows(images, hidden))[1], hidden)
    return torch.linalg.svdvals(images)


def mean_square(step: StateMap, hidden: Tensor) -> Tensor:
    """The mean square of all singular values, by random directions: E‖Jv‖² / ‖v‖², (b, …) → (b,)."""
    block = _random_block(hidden)
    images = _block(torch.autograd.functional.jvp(step, _wide(hidden), _rows(block, hidden))[1], hidden)
    return (images.square().sum(dim=1) / block.square().sum(dim=1)).mean(dim=1)


def _random_block(hidden: Tensor) -> Tensor:
    """Directions at random, (b, n, k)."""
    generator = torch.Generator().manual_seed(0)
    shape = (len(hidden), hidden[0].numel(), LEADING)
    return torch.randn(shape, generator=generator, dtype=hidden.dtype).to(hidden.device)


def _wide(hidden: Tensor) -> Tensor:
    return hidden.repeat_interleave(LEADING, dim=0)


def _rows(block: Tensor, hidden: Tensor) -> Tensor:
    """(b, n, k) → a state for each direction, (b·k, …)."""
    return block.transpose(1, 2).reshape(-1, *hidden.shape[1:])


def _block(rows: Tensor, hidden: Tensor) -> Tensor:
    """The way back."""
    return rows.reshape(len(hidden), LEADING, -1).transpose(1, 2)


def units(size: Size) -> list[Unit]:
    """FROST in our form, and as the paper prints it."""
    return [ours(size, JACOBIAN), base(size, JACOBIAN)]


class Spectrum(NamedTuple):
    """Of one model, over images."""

    leading: list[list[Measured]]    # (t, k)
    mean_square: list[Measured]      # (t,)
    change: Measured                 # of the largest from h_1 to h_T, image by image

    @classmethod
    def of(cls, unit: Mapping[str, Any]) -> Spectrum:
        """From a unit's numbers."""
        found = unit["jacobian"]
        steps = [list(zip(*images, strict=True)) for images in found["singular_values"]]    # (t, k, image)
        change = [last - first for first, last in zip(steps[0][0], steps[-1][0], strict=True)]
        return cls([[of_mean(values) for values in step] for step in steps],
                   [of_mean(images) for images in found["mean_square"]], of_mean(change))

    def checks(self) -> dict[str, Check]:
        """Does the step settle along the path, and does it contract where the path ends?"""
        return {"the largest singular value is smaller at h_T than at h_1": below(self.change),
                "at h_T it is below 1: no direction grows": below(self.leading[-1][0], 1.0),
                "in the mean over directions the step contracts at h_T: the mean square singular value is below 1":
                    below(self.mean_square[-1], 1.0)}


def judge(units: Units) -> Finding:
    """Does the step expand less and less along the path, and not at all at its end?"""
    runs = {"ours": units["ours"], "as-printed": units[BASE]}
    found = {name: Spectrum.of(run) for name, run in runs.items()}
    return Finding(
        {name: {"leading": [[value._asdict() for value in row] for row in spectrum.leading],
                "mean_square": [value._asdict() for value in spectrum.mean_square],
                "change_of_the_largest": spectrum.change._asdict()} for name, spectrum in found.items()},
        {f"as printed, {check}": met for check, met in found["as-printed"].checks().items()},
        " ".join(f"{TITLES[name].capitalize()}: largest singular value {spectrum.leading[0][0].value:.3f} at h_1 and "
                 f"{spectrum.leading[-1][0].value:.3f} at h_T, mean square of all {spectrum.mean_square[0].value:.3f} "
                 f"and {spectrum.mean_square[-1].value:.3f}." for name, spectrum in found.items()),
        list(runs.values()), seeds_of(*runs.values()),
        compared=[[f"{TITLES[name]}: largest singular value at h_1, at h_T; mean square at h_T", "at most L < 1",
                   f"{shown(spectrum.leading[0][0], 3)}, {shown(spectrum.leading[-1][0], 3)}; "
                   f"{shown(spectrum.mean_square[-1], 3)}"] for name, spectrum in found.items()],
        beyond={f"in our form, {check}": met for check, met in found["ours"].checks().items()})


def draw(paper: Values, ours: Values, _: Values) -> Any:
    """The leading singular values at every state of the path, and the root of the mean square of all."""
    figure, axes = panels(2)
    for cell, (name, rows) in zip(axes, ours.items(), strict=True):
        steps = range(1, len(rows["leading"]) + 1)
        for rank in range(LEADING):
            values = [row[rank] for row in rows["leading"]]
            cell.errorbar(steps, [value["value"] for value in values], fmt="o-", ms=3, capsize=2, color=CYCLE[0],
                          alpha=1 - 0.1 * rank, label=f"the {LEADING} largest singular values" if not rank else None,
                          yerr=[[value["value"] - value["low"] for value in values],
                                [value["high"] - value["value"] for value in values]] if not rank else None)
        cell.plot(steps, [value["value"] ** 0.5 for value in rows["mean_square"]], "--", marker=MARKS[1], ms=4,
                  color=CYCLE[1], label="root mean square of all")
        cell.axhline(1, color="#888888", lw=0.8)
        cell.set_yscale("log", base=2)
        cell.yaxis.set_major_formatter("{x:g}")
        cell.set(xlabel="at the state $h_t$, step t", ylabel="singular values of\n$\\partial\\Phi / \\partial h$",
                 xticks=list(steps))
        cell.set_title(TITLES[name], loc="right")
        legend_above(cell, 1)
    return figure


SECTION = Section(
    name="jacobian", title="Beyond: the step's Jacobian along the path",
    claim="Ours, not the paper's: as states settle, the step settles. Along the path of a trained FROST a step "
          "expands less and less, and where the path ends no direction grows (App. B proves as much for a "
          "contraction).",
    paper={"statement": "not measured; ‖∂Φ/∂h‖ ≤ L < 1 at every state of a contraction"},
    units=units, judge=judge, draw=draw)
