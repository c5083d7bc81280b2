"""App. B: whether trained models contract, and whether the bounds hold where they are promised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frost.paper.checks import Check, Units, accuracy_of, close_to, seeds_of
from frost.paper.intervals import Measured, difference, exact, of_mean
from frost.paper.measurements.trained_step import CONTRACTION
from frost.paper.section import Finding, Section
from frost.paper.sizes import Size, with_model
from frost.paper.units import BASE, Unit, base
from frost.report.drawing import CYCLE, MARKS, Values, legend_above, panels

ROUNDING = 1e-9     # relative, of a bound in double precision
RULES = {"residual": BASE, "gated": "frost-gated", "contractive": "frost-contractive", "theorem": "frost-theorem"}
AS_MEANS = {"jacobian_at_end": "jacobian_at_end", "jacobian_of_all_steps": "jacobian_of_all_steps",
            "jacobian_from_first": "jacobian_from_first", "mean_square_singular_value": "mean_square_at_end"}
Rows = Mapping[str, Mapping[str, Any]]    # by update rule, what was measured of its step


def units(size: Size) -> list[Unit]:
    """FROST with each update rule."""
    narrow = size.bounded or size.base.model.channels
    return [base(size, CONTRACTION),
            Unit(name="frost-gated", run=with_model(size.base, update="gated"), wants=(CONTRACTION,)),
            *(Unit(name=f"frost-{update}", run=with_model(size.base, update=update, channels=narrow),
                   wants=(CONTRACTION,)) for update in ("contractive", "theorem"))]


def judge(units: Units) -> Finding:
    """Do trained models contract, and do the bounds hold where they are promised?"""
    runs = {name: units[unit] for name, unit in RULES.items()}
    found = {name: unit["theory"] for name, unit in runs.items() if "theory" in unit}
    largest = {name: max(row["worst_expansion"], *row["jacobian_at_end"]) for name, row in found.items()}
    proven = {name: row for name, row in found.items() if row["lipschitz"] is not None}
    accuracy = {name: accuracy_of(runs[name]) for name in found}
    best = max(proven, key=lambda name: accuracy[name].value)
    is_alike = _channels(runs[best]) == _channels(runs["residual"])
    as_good = close_to(difference(accuracy[best], accuracy["residual"]), accuracy["residual"].value)
    sentence = "; ".join(f"{name}: expansion {largest[name]:.3f}" + (
        "" if row["lipschitz"] is None else f" (L = {row['lipschitz']:.3f})") + f", accuracy "
        f"{100 * accuracy[name].value:.1f} % with {_channels(runs[name])} channels" for name, row in found.items())
    return Finding(
        _numbers(found, largest, accuracy), _checks(found["residual"], largest["residual"]),
        f"Largest expansion of a step that was found: {sentence}. As printed, ‖∂h_T / ∂h_1‖ reaches "
        f"{max(found['residual']['jacobian_from_first']):.3g}, and the move of step 8T is "
        f"{found['residual']['last_move']:.2g} of the first.", [runs["residual"]], seeds_of(*runs.values()),
        compared=[[f"{name}: largest expansion of a step", "below 1", f"{largest[name]:.3f}"] for name in found] +
                 [[f"{name}: ‖∂h_T / ∂h_1‖, largest", "at most L^(T−1)", f"{max(row['jacobian_from_first']):.3g}"]
                  for name, row in found.items()],
        beyond={"a rule that contracts by construction is as accurate, to a thirtieth (not decided if it has fewer "
                "channels)": as_good if is_alike else None},
        sanity=_sanity(proven, largest))


def _checks(residual: Mapping[str, Any], largest: float) -> dict[str, Check]:
    return {
        "the trained update as printed contracts: no direction and no pair of states is found that it pulls apart":
            0 < largest < 1,
        "its states come to rest: after 8T steps they move by at most a thousandth of the first move":
            residual["rests"],
        "its gradients do not grow: ‖∂h_T / ∂h_1‖ < 1 (∂h_1 / ∂h_0 is left out: at h_0 = 0 a normalisation has no "
        "slope, or an enormous one)": max(residual["jacobian_from_first"]) < 1,
        "moves get smaller with every step up to 8T": all(ratio < 1 for ratio in residual["move_ratio"]),
    }


def _sanity(proven: Rows, largest: Mapping[str, float]) -> dict[str, bool]:
    """What App. B proves must be found."""
    return {
        "where a bound is proven (contractive, theorem) no pair of states that was found breaks ‖Φ(h) − Φ(h′)‖ ≤ "
        "L ‖h − h′‖": all(largest[name] <= row["lipschitz"] * (1 + ROUNDING) for name, row in proven.items()),
        "there ‖h_t − h*‖ stays within L^t / (1 − L) ‖h_1 − h_0‖ at every step":
            all(_within(row) for row in proven.values()),
        "there ‖∂h_T / ∂h_0‖ ≤ L^T": all(max(row["jacobian_of_all_steps"]) <= row["gradient_bound"] * (1 + ROUNDING)
                                       for row in proven.values()),
    }


def _numbers(found: Rows, largest: Mapping[str, float], accuracy: Mapping[str, Measured]) -> dict[str, Any]:
    return {name: {"lipschitz": _or_none(row["lipschitz"]), "largest_expansion": exact(largest[name])._asdict(),
                   "worst_expansion": exact(row["worst_expansion"])._asdict(),
                   **{key: of_mean(row[inside])._asdict() for key, inside in AS_MEANS.items()},
                   "last_move": exact(row["last_move"])._asdict(),
                   "gradient_bound": _or_none(row["gradient_bound"]),
                   **{key: row[key] for key in ("errors", "error_bound", "move_ratio", "rests")},
                   "full_depth_accuracy": accuracy[name]._asdict()} for name, row in found.items()}


def _within(row: Mapping[str, Any]) -> bool:
    return all(error is not None and error <= bound * (1 + ROUNDING)
               for error, bound in zip(row["errors"], row["error_bound"], strict=True))


def _channels(unit: Mapping[str, Any]) -> int:
    return int(unit["config"]["model"]["channels"])


def _or_none(number: float | None) -> dict[str, float] | None:
    return None if number is None else exact(number)._asdict()


def draw(paper: Values, ours: Values, _: Values) -> Any:
    """Expansion, error and gradient of every update rule, each with its bound."""
    figure, (here, there, last) = panels(3, 3.0)
    for place, (name, row) in enumerate(ours.items()):
        _bar(here, place, row["largest_expansion"], row["lipschitz"], "proven bound L", name)
        _bar(last, place, row["jacobian_of_all_steps"], row["gradient_bound"], "proven bound $L^T$", name)
        known = [(t + 1, error) for t, error in enumerate(row["errors"]) if error]
        if known:
            rests = "" if row["rests"] else " (does not rest)"
            there.semilogy(*zip(*known, strict=True), "-", marker=MARKS[place], ms=4, color=CYCLE[place],
                           label=name + rests)
        if row["error_bound"]:
            there.semilogy(range(1, len(row["error_bound"]) + 1), row["error_bound"], ":", color=CYCLE[place],
                           label=f"{name}, bound")
    for cell, what in ((here, "largest expansion\nof a step that was found"),
                       (last, "gradient through all steps\n‖$\\partial h_T / \\partial h_0$‖")):
        cell.axhline(1, color="#888888", lw=0.8)
        cell.set(xticks=range(len(ours)), xticklabels=list(ours), ylabel=what)
        legend_above(cell)
    last.set_yscale("log")
    there.set(xlabel="step t ($h^*$: the state after 8T steps)", ylabel="‖$h_t$ − $h^*$‖ ÷ ‖$h_1$ − $h_0$‖")
    legend_above(there)
    return figure


def _bar(cell: Any, place: int, value: Values, bound: Values | None, label: str, name: str) -> None:
    """One update rule's number, and its bound where there is one."""
    cell.bar(place, value["value"], 0.6, color=CYCLE[place])
    if bound is not None:
        cell.plot([place - 0.36, place + 0.36], [bound["value"]] * 2, "k--", lw=1.4,
                  label=label if name == "contractive" else None)


SECTION = Section(
    name="theory", title="App. B: contraction",
    claim="A FROST step is a contraction: states converge to a fixed point, the error decays as L^t, gradients are "
          "bounded (App. B).",
    paper={"lipschitz": "L ≤ λ < 1", "error": "L^t / (1 − L) · ‖h_1 − h_0‖", "gradient": "L^T"},
    units=units, judge=judge, draw=draw)
