"""λ and H over training (§6.2, Figure 1), and the bounds of App. B."""

from __future__ import annotations

import itertools
from typing import Any

from frost.analysis.claims.verdict import (
    Check,
    Section,
    Units,
    accuracy_of,
    close_to,
    every,
    section,
    seeds_differ_by,
    seeds_of,
    shown,
)
from frost.analysis.intervals import difference, exact, of_mean
from frost.analysis.published import SCALE

DIP = 0.005         # of λ: a fall that small is not called a phase
LATE = 0.75         # of a training: a minimum after it is no phase that λ recovers from
ROUNDING = 1e-9     # relative, of a bound in double precision


def scale(units: Units) -> Section:
    """Does λ fall and recover below 1, the more so the larger H, and does a learned H pass 1?"""
    runs = {_hurst(name, unit): unit for name, unit in units.items() if _has_curve(unit)
            and not (name.startswith("frost-mean-") and name != "frost-mean-s0")}
    seeds = [unit["over_training"] for name, unit in units.items() if name.startswith("frost-mean-") and
             _has_curve(unit)]
    fixed = {hurst: unit for hurst, unit in runs.items() if hurst != "learned"}
    base = runs["0.8"]["over_training"]
    ends = {hurst: unit["over_training"]["scale"][-1] for hurst, unit in fixed.items()}
    start, least = runs["0.8"]["config"]["model"]["scale_init"], min(base["scale"])
    learned_hurst = runs["learned"]["over_training"]["hurst"]
    last = of_mean([book["scale"][-1] for book in seeds])
    checks: dict[str, Check] = {
        f"at H = 0.8 λ first falls, by more than {DIP}, before it rises, with every seed":
            all(_falls_first(book, start) for book in seeds),
        "and then recovers from that minimum (not decided if it does not fall)": every(
            book["scale"][-1] > min(book["scale"]) + DIP if _falls_first(book, start) else None for book in seeds),
        "at H = 0.8 λ stays below 1": all(book["largest_scale"] < 1 for book in seeds),
        "the larger H, the smaller λ at the end, by more than seeds differ": _inverse(ends, [book["scale"][-1]
                                                                                            for book in seeds]),
        "at H = 0.2 λ passes 1": runs["0.2"]["over_training"]["largest_scale"] > 1,
        "a learned H passes 1": max(learned_hurst) > 1,
    }
    spectrum = runs["0.8"]["theory"]["by_scale"]
    beyond: dict[str, Check] = {"the smaller λ, the nearer to 1 is the largest singular value of a step": all(
        max(below["largest"]) <= max(above["largest"]) for below, above in itertools.pairwise(spectrum))}
    theories = {hurst: unit["theory"] for hurst, unit in runs.items() if "theory" in unit}
    ours = {"curves": {hurst: {key: unit["over_training"][key] for key in ("share", "scale", "hurst")}
                       for hurst, unit in runs.items()},
            "end": {hurst: exact(value)._asdict() for hurst, value in ends.items()} | {"0.8": last._asdict()},
            "least": exact(least)._asdict(), "largest": exact(base["largest_scale"])._asdict(),
            "learned_hurst_end": exact(learned_hurst[-1])._asdict(),
            "jacobian": {hurst: of_mean(row["jacobian_at_end"])._asdict() for hurst, row in theories.items()},
            "mean_square_singular_value": {hurst: of_mean(row["mean_square_at_end"])._asdict()
                                           for hurst, row in theories.items()},
            "by_scale": [{"scale": row["scale"], "largest": of_mean(row["largest"])._asdict(),
                          "mean_square": of_mean(row["mean_square"])._asdict()} for row in spectrum],
            "full_depth_accuracy": {hurst: accuracy_of(unit)._asdict() for hurst, unit in runs.items()}}
    return section(
        "lambda", ours, checks,
        f"At H = 0.8 λ went from {start:.2f} to a minimum of {least:.2f}, a maximum of {base['largest_scale']:.2f} and "
        f"ended at {base['scale'][-1]:.2f}; at the end of training: " + ", ".join(
            f"{ends[hurst]:.2f} at H = {hurst}" for hurst in sorted(ends, key=float)) +
        f". A learned H ended at {learned_hurst[-1]:.2f}.",
        list(fixed.values()), seeds_of(*units.values()),
        compared=[["λ: start, minimum, end at H = 0.8",
                   f"{SCALE['start']}, {SCALE['least']}, {SCALE['end']}",
                   f"{start}, {least:.2f}, {shown(last)}"],
                  ["λ at H = 0.2, its largest", "above 1",
                   f"{runs['0.2']['over_training']['largest_scale']:.2f}"],
                  ["a learned H, at the end", "above 1", f"{learned_hurst[-1]:.2f}"]], beyond=beyond)


def theory(units: Units) -> Section:
    """Do trained models contract, and do the bounds hold where they are promised?"""
    rules = {"residual": units["frost-mean-s0"], "gated": units["frost-gated"],
             "contractive": units["frost-contractive"], "theorem": units["frost-theorem"]}
    found = {name: unit["theory"] for name, unit in rules.items() if "theory" in unit}
    largest = {name: max(row["worst_expansion"], *row["jacobian_at_end"]) for name, row in found.items()}
    proven = {name: values for name, values in found.items() if values["lipschitz"] is not None}
    sanity = {
        "where a bound is proven (contractive, theorem) no pair of states that was found breaks ‖Φ(h) − Φ(h′)‖ ≤ "
        "L ‖h − h′‖": all(largest[name] <= row["lipschitz"] * (1 + ROUNDING) for name, row in proven.items()),
        "there ‖h_t − h*‖ stays within L^t / (1 − L) ‖h_1 − h_0‖ at every step": all(_within(row)
                                                                                 for row in proven.values()),
        "there ‖∂h_T / ∂h_0‖ ≤ L^T": all(max(row["jacobian_of_all_steps"]) <= row["gradient_bound"] * (1 + ROUNDING)
                                       for row in proven.values()),
    }
    residual = found["residual"]
    checks: dict[str, Check] = {
        "the trained update as printed contracts: no direction and no pair of states is found that it pulls apart":
            0 < largest["residual"] < 1,
        "its states come to rest: after 8T steps they move by at most a thousandth of the first move":
            residual["rests"],
        "its gradients do not grow: ‖∂h_T / ∂h_1‖ < 1 (∂h_1 / ∂h_0 is left out: at h_0 = 0 a normalisation has no "
        "slope, or an enormous one)": max(residual["jacobian_from_first"]) < 1,
        "moves get smaller with every step up to 8T": all(ratio < 1 for ratio in residual["move_ratio"]),
    }
    accuracy = {name: accuracy_of(rules[name]) for name in found}
    best = max(proven, key=lambda name: accuracy[name].value)
    is_alike = _channels(rules[best]) == _channels(rules["residual"])
    as_good = close_to(difference(accuracy[best], accuracy["residual"]), accuracy["residual"].value)
    beyond: dict[str, Check] = {"a rule that contracts by construction is as accurate, to a thirtieth (not decided if "
                                "it has fewer channels)": as_good if is_alike else None}
    ours = {name: {"lipschitz": _or_none(row["lipschitz"]), "largest_expansion": exact(largest[name])._asdict(),
                   "worst_expansion": exact(row["worst_expansion"])._asdict(),
                   "jacobian_at_end": of_mean(row["jacobian_at_end"])._asdict(),
                   "jacobian_of_all_steps": of_mean(row["jacobian_of_all_steps"])._asdict(),
                   "jacobian_from_first": of_mean(row["jacobian_from_first"])._asdict(),
                   "mean_square_singular_value": of_mean(row["mean_square_at_end"])._asdict(),
                   "last_move": exact(row["last_move"])._asdict(),
                   "gradient_bound": _or_none(row["gradient_bound"]), "errors": row["errors"],
                   "error_bound": row["error_bound"], "move_ratio": row["move_ratio"], "rests": row["rests"],
                   "full_depth_accuracy": accuracy[name]._asdict()} for name, row in found.items()}
    sentence = "; ".join(f"{name}: expansion {largest[name]:.3f}" + (
        "" if row["lipschitz"] is None else f" (L = {row['lipschitz']:.3f})") + f", accuracy "
        f"{100 * accuracy[name].value:.1f} % with {_channels(rules[name])} channels" for name, row in found.items())
    return section(
        "theory", ours, checks,
        f"Largest expansion of a step that was found: {sentence}. As printed, ‖∂h_T / ∂h_1‖ reaches "
        f"{max(residual['jacobian_from_first']):.3g}, and the move of step 8T is {residual['last_move']:.2g} of the "
        "first.", [rules["residual"]], seeds_of(*rules.values()),
        compared=[[f"{name}: largest expansion of a step", "below 1", f"{largest[name]:.3f}"] for name in found] +
                 [[f"{name}: ‖∂h_T / ∂h_1‖, largest", "at most L^(T−1)", f"{max(row['jacobian_from_first']):.3g}"]
                  for name, row in found.items()], beyond=beyond, sanity=sanity)


def _channels(unit: Any) -> int:
    return int(unit["config"]["model"]["channels"])


def _falls_first(book: Any, start: float) -> bool:
    """Whether λ dips before it rises, and not at the very end only."""
    least = min(range(len(book["scale"])), key=book["scale"].__getitem__)
    return (book["scale"][least] < start - DIP and book["share"][least] < LATE and
            max(book["scale"][:least + 1]) < start + DIP)


def _inverse(ends: dict[str, float], same: list[float]) -> Check:
    """Whether λ at the end falls as H rises; not decided where seeds of one H differ by as much."""
    order = sorted(ends, key=float)
    gap, noise = ends[order[0]] - ends[order[-1]], seeds_differ_by(same)
    if noise is None or abs(gap) <= noise:
        return None
    return gap > 0 and all(ends[a] >= ends[b] for a, b in itertools.pairwise(order))


def _within(row: dict[str, Any]) -> bool:
    return all(error is not None and error <= bound * (1 + ROUNDING)
               for error, bound in zip(row["errors"], row["error_bound"], strict=True))


def _or_none(number: float | None) -> dict[str, float] | None:
    return None if number is None else exact(number)._asdict()


def _hurst(name: str, unit: Any) -> str:
    return "learned" if name == "frost-learned-hurst" else f"{unit['config']['model']['hurst']:g}"


def _has_curve(unit: Any) -> bool:
    return bool(unit.get("over_training", {}).get("scale"))
