"""The dimension of the latent path (§6.1), beside what the estimator makes of curves of known dimension."""

from __future__ import annotations

from typing import Any, NamedTuple

from frost.paper.checks import Check, Units, above, every, seeds_differ_by, seeds_of, shown
from frost.paper.intervals import Measured, difference, exact, of_mean
from frost.paper.measurements.curves import KNOWN, seen_with
from frost.paper.measurements.geometry import GEOMETRY, depth_of, groups_of, path_units
from frost.paper.measurements.state_similarity import is_rising
from frost.paper.section import Finding, Section
from frost.paper.sizes import Size
from frost.paper.units import Unit, at_other_hursts
from frost.report.drawing import CYCLE, TITLES, Values, colour_of, legend_above, panels

PAPER = {"vanilla": 1.262, "basic-ssm": 1.262, "frost": 1.295}
PAPER_GAP = PAPER["frost"] - PAPER["basic-ssm"]
COMPARED = ("frost", "vanilla", "basic-ssm", "frost-untrained")
CURVE_NAMES = {"line": "a line", "koch": "a Koch curve"}


def units(size: Size) -> list[Unit]:
    """The models of Table 1, and FROST at other H."""
    return path_units(size) + at_other_hursts(size, GEOMETRY)


class Ruler(NamedTuple):
    """What the estimator makes of known curves with as many points as a path has."""

    known: dict[str, dict[str, Measured]]    # by curve and number of points
    few: dict[str, float]                    # with T points
    bias: float                              # the largest
    seen: float                              # of a true difference, with T points

    @classmethod
    def at(cls, depth: int) -> Ruler:
        """For paths of T points."""
        known = {name: {str(count): seen_with(name, count) for count in (depth, 16, 1000)} for name in KNOWN}
        few = {name: known[name][str(depth)].value for name in ("line", "koch")}
        return cls(known, few, max(abs(few[name] - KNOWN[name]) for name in few),
                   (few["koch"] - few["line"]) / (KNOWN["koch"] - KNOWN["line"]))


def judge(units: Units) -> Finding:
    """Is FROST's path rougher than the others', by as much as the estimator can tell?"""
    groups = groups_of(units)
    found = {name: _measured(runs, "dimension") for name, runs in groups.items()}
    depth = depth_of(groups["frost"])
    ruler, hursts = Ruler.at(depth), _exponents(units)
    gaps = {name: difference(found["frost"], found[name]) for name in ("vanilla", "basic-ssm", "frost-untrained")}
    checks: dict[str, Check] = {
        "FROST's dimension is above Vanilla's": above(gaps["vanilla"]),
        "it is above BasicSSM's": above(gaps["basic-ssm"]),
        f"each difference is at least what the estimator makes of the paper's {PAPER_GAP:.3f} with T points":
            every(above(gaps[name], ruler.seen * PAPER_GAP) for name in ("vanilla", "basic-ssm"))
            if ruler.seen > 0 else None,
    }
    beyond: dict[str, Check] = {
        "training raised it: it is above the untrained FROST's": above(gaps["frost-untrained"]),
        "the exponent of increments rises with H at every H tried, and between the extremes by more than seeds "
        "differ": _follows(hursts),
    }
    return Finding(
        _numbers(groups, found, ruler, hursts), checks,
        ", ".join(f"{TITLES[name]} {found[name].value:.3f}" for name in COMPARED) +
        f". With {depth} points the estimator gives {ruler.few['koch']:.3f} for a Koch curve of {KNOWN['koch']:.3f} "
        f"and {ruler.few['line']:.3f} for a line: a bias of up to {ruler.bias:.3f}, and {100 * ruler.seen:.0f} % of a "
        f"true difference are seen, {ruler.seen * PAPER_GAP:.3f} of the paper's {PAPER_GAP:.3f}.",
        [*groups["frost"], *groups["basic-ssm"]], seeds_of(*groups["frost"], *groups["basic-ssm"], *groups["vanilla"]),
        compared=[[f"{TITLES[name]}: dimension", f"{PAPER[name]:.3f}" if name in PAPER else "–",
                   shown(found[name], 3)] for name in COMPARED] +
                 [[f"{name}, true {KNOWN[name]:.3f}: seen with {depth}, 16 and 1,000 points", "–",
                   ", ".join(f"{rows[str(count)].value:.3f}" for count in (depth, 16, 1000))]
                  for name, rows in ruler.known.items()], beyond=beyond)


def _numbers(groups: dict[str, list[Any]], found: dict[str, Measured], ruler: Ruler,
             hursts: dict[float, list[float]]) -> dict[str, Any]:
    return {"dimension": {name: value._asdict() for name, value in found.items()},
            "r_squared": {name: _measured(runs, "r_squared")._asdict() for name, runs in groups.items()},
            "smallest_box": {name: exact(runs[0]["geometry"]["smallest_box"])._asdict()
                             for name, runs in groups.items()},
            "exponent": {name: _measured(runs, "exponent")._asdict() for name, runs in groups.items()},
            "known_curves": {name: {count: value._asdict() for count, value in rows.items()}
                             for name, rows in ruler.known.items()},
            "exponent_by_hurst": {f"{hurst:g}": of_mean(values)._asdict() for hurst, values in sorted(hursts.items())},
            "true_dimension": dict(KNOWN), "bias": exact(ruler.bias)._asdict(),
            "seen_of_a_difference": exact(ruler.seen)._asdict()}


def _measured(runs: list[Any], what: str) -> Measured:
    """Over seeds; with one seed, over its images."""
    if len(runs) > 1:
        return of_mean([run["geometry"][what]["value"] for run in runs])
    return Measured(**runs[0]["geometry"][what])


def _exponents(units: Units) -> dict[float, list[float]]:
    """The exponent of increments of every run with a given H; the paper's H has several seeds."""
    found: dict[float, list[float]] = {}
    for name, unit in units.items():
        if name.startswith(("frost-hurst-", "frost-mean-s")) and "geometry" in unit:
            found.setdefault(unit["config"]["model"]["hurst"], []).append(unit["geometry"]["exponent"]["value"])
    return found


def _follows(exponents: dict[float, list[float]]) -> Check:
    """Whether exponents rise with H; what seeds differ by is known where there are several."""
    means = [sum(values) / len(values) for _, values in sorted(exponents.items())]
    noise = seeds_differ_by(max(exponents.values(), key=len))
    return None if noise is None else is_rising(means) and means[-1] - means[0] > noise


def draw(paper: Values, ours: Values, _: Values) -> Any:
    """Dimension of every model's path beside known curves, and the exponent of increments against H."""
    figure, (here, there) = panels(2, 3.8)
    names = list(ours["dimension"])
    for place, name in enumerate(names):
        row = ours["dimension"][name]
        here.errorbar(row["value"], place, xerr=[[row["value"] - row["low"]], [row["high"] - row["value"]]], fmt="o",
                      color=colour_of(name), capsize=3)
        if name in paper:
            here.plot(paper[name], place, "k*", ms=9, label="paper" if name == "frost" else None)
    few = sorted(ours["known_curves"]["koch"], key=int)[0]
    for index, (curve, line) in enumerate((("line", ":"), ("koch", "--"))):
        here.axvline(ours["known_curves"][curve][few]["value"], ls=line, color=CYCLE[6 - index], lw=1,
                     label=f"{CURVE_NAMES[curve]} of dimension {ours['true_dimension'][curve]:.2f}, seen with {few} "
                           "points")
    here.set(yticks=range(len(names)), xlabel="estimated dimension (95 % interval)", yticklabels=[
        TITLES[name].replace(" from a", "\nfrom a") + f"\nR² {ours['r_squared'][name]['value']:.3f}" for name in names])
    here.tick_params(axis="y", labelsize=7)
    legend_above(here, 1)
    found = sorted((float(hurst), row) for hurst, row in ours["exponent_by_hurst"].items())
    there.errorbar([hurst for hurst, _ in found], [row["value"] for _, row in found], fmt="o-", color=CYCLE[0],
                   capsize=3, yerr=[[row["value"] - row["low"] for _, row in found],
                                    [row["high"] - row["value"] for _, row in found]], label="FROST, trained")
    there.plot([0, 1], [0, 1], ":", color="#888888", label="a path that scales as H says")
    there.set(xlabel="H of the model (interval: several seeds)", xlim=(0, 1.05), ylim=(0, 1.05),
              ylabel="exponent of $\\|h_t - h_s\\|$\nover |t − s|")
    legend_above(there)
    return figure


SECTION = Section(
    name="dimension", title="§6.1: dimension of the path",
    claim="FROST's latent path has a higher Minkowski dimension, 1.295 against 1.262, than Vanilla's and BasicSSM's "
          "(§6.1).",
    paper=PAPER, units=units, judge=judge, draw=draw, spares_seeds=True)
