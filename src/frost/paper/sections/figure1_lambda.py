"""Figure 1: λ over training, for fixed H and for a learned one (§6.2)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from frost.paper.checks import Check, Units, accuracy_of, every, seeds_differ_by, seeds_of, shown
from frost.paper.intervals import Measured, exact, of_mean
from frost.paper.measurements.trained_step import CONTRACTION
from frost.paper.section import Finding, Section
from frost.paper.sizes import Size, with_model
from frost.paper.units import BASE, Unit, at_other_hursts, base, grid
from frost.report.drawing import CYCLE, MARKS, Values, legend_above, panels

PAPER = {"start": 0.5, "least": 0.43, "end": 0.59, "hurst": 0.8}    # λ is above 1 at H = 0.2, and so is a learned H
DIP = 0.005         # of λ: a fall that small is not called a phase
LATE = 0.75         # of a training: a minimum after it is no phase that λ recovers from
Runs = Mapping[str, Mapping[str, Any]]    # one for each H, and one for a learned H


def units(size: Size) -> list[Unit]:
    """FROST with every seed, at other H, and with a learned H."""
    return [base(size, CONTRACTION), *(grid(size, "frost", "mean", seed) for seed in size.seeds[1:]),
            *at_other_hursts(size, CONTRACTION),
            Unit(name="frost-learned-hurst", run=with_model(size.base, learn_hurst=True), wants=(CONTRACTION,))]


def judge(units: Units) -> Finding:
    """Does λ fall and recover below 1, the more so the larger H, and does a learned H pass 1?"""
    runs = {_hurst(name, unit): unit for name, unit in units.items() if _has_curve(unit)
            and not (name.startswith("frost-mean-") and name != BASE)}
    seeds = [unit["over_training"] for name, unit in units.items() if name.startswith("frost-mean-") and
             _has_curve(unit)]
    books = {hurst: unit["over_training"] for hurst, unit in runs.items()}
    ends = {hurst: book["scale"][-1] for hurst, book in books.items() if hurst != "learned"}
    start, least, largest = runs["0.8"]["config"]["model"]["scale_init"], min(books["0.8"]["scale"]), \
        books["0.8"]["largest_scale"]
    last, learned = of_mean([book["scale"][-1] for book in seeds]), books["learned"]["hurst"][-1]
    spectrum = runs["0.8"]["theory"]["by_scale"]
    return Finding(
        _numbers(runs, ends, last), _checks(books, seeds, ends, start),
        f"At H = 0.8 λ went from {start:.2f} to a minimum of {least:.2f}, a maximum of {largest:.2f} and "
        f"ended at {books['0.8']['scale'][-1]:.2f}; at the end of training: " + ", ".join(
            f"{ends[hurst]:.2f} at H = {hurst}" for hurst in sorted(ends, key=float)) +
        f". A learned H ended at {learned:.2f}.",
        [unit for hurst, unit in runs.items() if hurst != "learned"], seeds_of(*units.values()),
        compared=[["λ: start, minimum, end at H = 0.8", f"{PAPER['start']}, {PAPER['least']}, {PAPER['end']}",
                   f"{start}, {least:.2f}, {shown(last)}"],
                  ["λ at H = 0.2, its largest", "above 1", f"{books['0.2']['largest_scale']:.2f}"],
                  ["a learned H, at the end", "above 1", f"{learned:.2f}"]],
        beyond={"the smaller λ, the nearer to 1 is the largest singular value of a step": all(
            max(below["largest"]) <= max(above["largest"]) for below, above in itertools.pairwise(spectrum))})


def _checks(books: Runs, seeds: list[Any], ends: dict[str, float], start: float) -> dict[str, Check]:
    return {
        f"at H = 0.8 λ first falls, by more than {DIP}, before it rises, with every seed":
            all(falls_first(book, start) for book in seeds),
        "and then recovers from that minimum (not decided if it does not fall)": every(
            book["scale"][-1] > min(book["scale"]) + DIP if falls_first(book, start) else None for book in seeds),
        "at H = 0.8 λ stays below 1": all(book["largest_scale"] < 1 for book in seeds),
        "the larger H, the smaller λ at the end, by more than seeds differ":
            is_inverse(ends, [book["scale"][-1] for book in seeds]),
        "at H = 0.2 λ passes 1": books["0.2"]["largest_scale"] > 1,
        "a learned H passes 1": max(books["learned"]["hurst"]) > 1,
    }


def _numbers(runs: Runs, ends: dict[str, float], last: Measured) -> dict[str, Any]:
    theories = {hurst: unit["theory"] for hurst, unit in runs.items() if "theory" in unit}
    base = runs["0.8"]["over_training"]
    return {"curves": {hurst: {key: unit["over_training"][key] for key in ("share", "scale", "hurst")}
                       for hurst, unit in runs.items()},
            "end": {hurst: exact(value)._asdict() for hurst, value in ends.items()} | {"0.8": last._asdict()},
            "least": exact(min(base["scale"]))._asdict(), "largest": exact(base["largest_scale"])._asdict(),
            "learned_hurst_end": exact(runs["learned"]["over_training"]["hurst"][-1])._asdict(),
            "jacobian": {hurst: of_mean(row["jacobian_at_end"])._asdict() for hurst, row in theories.items()},
            "mean_square_singular_value": {hurst: of_mean(row["mean_square_at_end"])._asdict()
                                           for hurst, row in theories.items()},
            "by_scale": [{"scale": row["scale"], "largest": of_mean(row["largest"])._asdict(),
                          "mean_square": of_mean(row["mean_square"])._asdict()}
                         for row in runs["0.8"]["theory"]["by_scale"]],
            "full_depth_accuracy": {hurst: accuracy_of(unit)._asdict() for hurst, unit in runs.items()}}


def falls_first(book: Mapping[str, Any], start: float) -> bool:
    """Whether λ dips before it rises, and not at the very end only."""
    least = min(range(len(book["scale"])), key=book["scale"].__getitem__)
    return bool(book["scale"][least] < start - DIP and book["share"][least] < LATE and
                max(book["scale"][:least + 1]) < start + DIP)


def is_inverse(ends: Mapping[str, float], same: list[float]) -> Check:
    """Whether λ at the end falls as H rises; not decided where seeds of one H differ by as much."""
    order = sorted(ends, key=float)
    gap, noise = ends[order[0]] - ends[order[-1]], seeds_differ_by(same)
    if noise is None or abs(gap) <= noise:
        return None
    return gap > 0 and all(ends[a] >= ends[b] for a, b in itertools.pairwise(order))


def _hurst(name: str, unit: Mapping[str, Any]) -> str:
    return "learned" if name == "frost-learned-hurst" else f"{unit['config']['model']['hurst']:g}"


def _has_curve(unit: Mapping[str, Any]) -> bool:
    return bool(unit.get("over_training", {}).get("scale"))


def draw(paper: Values, ours: Values, _: Values) -> Any:
    """λ over training for every H, and what λ does to a step's Jacobian."""
    figure, (here, there) = panels(2)
    for index, (hurst, curve) in enumerate(sorted(ours["curves"].items())):
        here.plot(curve["share"], curve["scale"], "--" if hurst == "learned" else "-", color=CYCLE[index],
                  label="H learned" if hurst == "learned" else f"H = {hurst}")
    here.axhline(1, color="#888888", lw=0.8)
    here.plot([1], [paper["end"]], "k*", ms=9, label="paper, H = 0.8, at the end")
    here.set(xlabel="share of the training", ylabel="λ")
    legend_above(here, 3)
    scales = [row["scale"] for row in ours["by_scale"]]
    for index, (key, label) in enumerate((("largest", "largest singular value"), ("mean_square", "root mean square"))):
        values = [row[key]["value"] ** (0.5 if key == "mean_square" else 1) for row in ours["by_scale"]]
        there.plot(scales, values, ("-", "--")[index], marker=MARKS[index], ms=4, color=CYCLE[index], label=label)
    there.axhline(1, color="#888888", lw=0.8)
    there.axvline(ours["end"]["0.8"]["value"], color="#888888", lw=0.8, ls=":")
    there.set(xlabel="λ put in place of the trained one (dotted), H = 0.8",
              ylabel="singular values of a\nstep's Jacobian at $h_T$")
    legend_above(there)
    return figure


SECTION = Section(
    name="lambda", title="Figure 1: λ and H",
    claim="λ falls, then recovers to 0.59 and stays below 1; it is inversely related to H, passes 1 at H = 0.2, and a "
          "learned H runs beyond 1 (§6.2, Figure 1).",
    paper=PAPER, units=units, judge=judge, draw=draw)
