"""λ and H over training (§6.2, Figure 1), and the bounds of App. B."""

from __future__ import annotations

import itertools
from typing import Any

from frost.analysis.claims.verdict import Section, Units, accuracy_of, seeds_of, verdict_of
from frost.analysis.intervals import exact, of_mean
from frost.analysis.published import SCALE

NEAR = 0.01         # of an accuracy
DIP = 0.005         # of λ: a fall that small is not called a phase
ROUNDING = 1e-9     # relative, of a bound in double precision


def scale(units: Units) -> Section:
    """Does λ fall and recover below 1, the more so the larger H, and does a learned H pass 1?"""
    runs = {_hurst(name, unit): unit for name, unit in units.items() if _has_curve(unit)}
    fixed = {hurst: unit for hurst, unit in runs.items() if hurst != "learned"}
    base = runs["0.8"]["over_training"]
    ends = {hurst: unit["over_training"]["scale"][-1] for hurst, unit in fixed.items()}
    order = sorted(ends, key=float)
    start = runs["0.8"]["config"]["model"]["scale_init"]
    checks = {
        "at H = 0.8 λ first falls below its start": base["least_scale"] < start - DIP,
        "and then recovers above it": base["scale"][-1] > start + DIP,
        "at H = 0.8 λ stays below 1": base["largest_scale"] < 1,
        "the larger H, the smaller λ at the end": ends[order[0]] > ends[order[-1]] + DIP and all(
            ends[a] >= ends[b] for a, b in itertools.pairwise(order)),
        "at H = 0.2 λ passes 1": units["frost-hurst-0.2"]["over_training"]["largest_scale"] > 1,
        "a learned H passes 1": max(runs["learned"]["over_training"]["hurst"]) > 1,
    }
    ours = {"curves": {hurst: {key: unit["over_training"][key] for key in ("share", "scale", "hurst")}
                       for hurst, unit in runs.items()},
            "end": {hurst: exact(value)._asdict() for hurst, value in ends.items()},
            "least": exact(base["least_scale"])._asdict(), "largest": exact(base["largest_scale"])._asdict(),
            "learned_hurst_end": exact(runs["learned"]["over_training"]["hurst"][-1])._asdict(),
            "jacobian": {hurst: of_mean(unit["theory"]["jacobian_at_end"])._asdict() for hurst, unit in runs.items()
                         if "theory" in unit},
            "mean_square_singular_value": {hurst: of_mean(unit["theory"]["mean_square_at_end"])._asdict()
                                           for hurst, unit in runs.items() if "theory" in unit},
            "full_depth_accuracy": {hurst: accuracy_of(unit)._asdict() for hurst, unit in runs.items()}}
    return Section(
        "λ falls, then recovers to 0.59 and stays below 1; it is inversely related to H, passes 1 at H = 0.2, and a "
        "learned H runs beyond 1 (§6.2, Figure 1).",
        dict(SCALE), ours, verdict_of(checks, *fixed.values()), "; ".join(checks),
        f"At H = 0.8 λ went from {start:.2f} to a minimum of {base['least_scale']:.2f} and ended at "
        f"{base['scale'][-1]:.2f}; at the end of training: " + ", ".join(
            f"{ends[hurst]:.2f} at H = {hurst}" for hurst in order) +
        f". A learned H ended at {runs['learned']['over_training']['hurst'][-1]:.2f}.",
        checks, seeds_of(*runs.values()))


def theory(units: Units) -> Section:
    """Do trained models contract, and do the bounds hold where they are promised?"""
    rules = {"residual": units["frost-mean-s0"], "gated": units["frost-gated"],
             "contractive": units["frost-contractive"], "theorem": units["frost-theorem"]}
    found = {name: unit["theory"] for name, unit in rules.items() if "theory" in unit}
    proven = {name: values for name, values in found.items() if values["lipschitz"] is not None}
    sanity = {
        "where a bound is proven (contractive, theorem) no pair of states found by ascent breaks ‖Φ(h) − Φ(h′)‖ ≤ "
        "L ‖h − h′‖": all(row["worst_expansion"] <= row["lipschitz"] * (1 + ROUNDING) for row in proven.values()),
        "there ‖h_t − h*‖ stays within L^t / (1 − L) ‖h_1 − h_0‖ at every step": all(_within(row)
                                                                                 for row in proven.values()),
        "there ‖∂h_T / ∂h_0‖ ≤ L^T": all(max(row["jacobian_of_all_steps"]) <= row["gradient_bound"] * (1 + ROUNDING)
                                       for row in proven.values()),
    }
    residual = found["residual"]
    checks = {
        "the trained update as printed contracts: ascent finds no pair of states that it pulls apart":
            0 < residual["worst_expansion"] < 1,
        "its states come to rest": residual["rests"],
        "its gradients do not grow: ‖∂h_T / ∂h_0‖ < 1": max(residual["jacobian_of_all_steps"]) < 1,
        "moves get smaller with every step": all(ratio < 1 for ratio in residual["move_ratio"]),
        "a rule that is a contraction by construction costs at most 1 point of accuracy": max(
            rules[name]["per_step_accuracy"][-1] for name in proven) >= rules["residual"]["per_step_accuracy"][-1] -
        NEAR,
    }
    ours = {name: {"lipschitz": _or_none(row["lipschitz"]), "worst_expansion": exact(row["worst_expansion"])._asdict(),
                   "jacobian_at_end": of_mean(row["jacobian_at_end"])._asdict(),
                   "jacobian_of_all_steps": of_mean(row["jacobian_of_all_steps"])._asdict(),
                   "mean_square_singular_value": of_mean(row["mean_square_at_end"])._asdict(),
                   "gradient_bound": _or_none(row["gradient_bound"]), "errors": row["errors"],
                   "error_bound": row["error_bound"], "move_ratio": row["move_ratio"], "rests": row["rests"],
                   "full_depth_accuracy": accuracy_of(rules[name])._asdict()} for name, row in found.items()}
    sentence = "; ".join(f"{name}: expansion {row['worst_expansion']:.3f}" + (
        "" if row["lipschitz"] is None else f" (L = {row['lipschitz']:.3f})") + f", accuracy "
        f"{100 * rules[name]['per_step_accuracy'][-1]:.1f} %" for name, row in found.items())
    return Section(
        "A FROST step is a contraction: states converge to a fixed point, the error decays as L^t, gradients are "
        "bounded (App. B).",
        {"lipschitz": "L ≤ λ < 1", "error": "L^t / (1 − L) · ‖h_1 − h_0‖", "gradient": "L^T"},
        ours, verdict_of(checks, rules["residual"]), "; ".join(checks),
        f"Largest expansion found by ascent: {sentence}.", checks, seeds_of(*rules.values()), sanity)


def _within(row: dict[str, Any]) -> bool:
    return all(error is not None and error <= bound * (1 + ROUNDING)
               for error, bound in zip(row["errors"], row["error_bound"], strict=True))


def _or_none(number: float | None) -> dict[str, float] | None:
    return None if number is None else exact(number)._asdict()


def _hurst(name: str, unit: Any) -> str:
    return "learned" if name == "frost-learned-hurst" else f"{unit['config']['model']['hurst']:g}"


def _has_curve(unit: Any) -> bool:
    return bool(unit.get("over_training", {}).get("scale"))
