"""Table 1 and the dimension of the path (§6.1)."""

from __future__ import annotations

from typing import Any

from frost.analysis.claims.known import seen_with
from frost.analysis.claims.verdict import (
    Check,
    Section,
    Units,
    above,
    below,
    every,
    section,
    seeds_differ_by,
    seeds_of,
    shown,
)
from frost.analysis.consistency import is_rising, random_walk
from frost.analysis.curves import KNOWN
from frost.analysis.intervals import NORMAL, Measured, difference, exact, of_mean
from frost.analysis.published import DIMENSION, TABLE_1

GROUPS = {"vanilla": "vanilla-none-", "basic-ssm": "basic-ssm-none-", "basic-ssm-folded": "basic-ssm-folded-none-",
          "frost-unranked": "frost-none-", "frost": "frost-mean-"}
UNTRAINED = ("vanilla-untrained", "basic-ssm-untrained", "frost-untrained")
SLACK = 0.005    # of a cosine: a fall that small is not called one
PAPER_GAP = DIMENSION["frost"] - DIMENSION["basic-ssm"]


def consistency(units: Units) -> Section:
    """Is each FROST state more like the last one than the state before, more so and with less spread than others'?"""
    groups = _groups(units)
    ours: dict[str, Any] = {name: {
        "cosine": [_over(runs, "pooled", "mean", t)._asdict() for t in range(_depth(runs))],
        "deviation": [_over(runs, "pooled", "deviation", t)._asdict() for t in range(_depth(runs))],
        "cosine_flattened": [_over(runs, "flattened", "mean", t)._asdict() for t in range(_depth(runs))]}
        for name, runs in groups.items()}
    depth = _depth(groups["frost"])
    walk = random_walk(depth)
    ours["random-walk"] = {"cosine": [exact(value)._asdict() for value in walk]}
    early = {name: _early(runs, "mean") for name, runs in groups.items()}
    spread = {name: _early(runs, "deviation") for name, runs in groups.items()}
    ours["early"] = {name: {"cosine": early[name]._asdict(), "deviation": spread[name]._asdict()} for name in groups}
    first_seed = [run for run in groups["frost-unranked"] if run["seed"] == groups["basic-ssm-folded"][0]["seed"]]
    checks: dict[str, Check] = {
        f"FROST's mean cosine to h_T rises at every step (a fall of up to {SLACK} is not called one)": all(
            is_rising(run["geometry"]["pooled"]["mean"], SLACK) for run in groups["frost"]),
        "its mean over steps 1 to T/2 is above BasicSSM's": above(difference(early["frost"], early["basic-ssm"])),
        "it is above Vanilla's": above(difference(early["frost"], early["vanilla"])),
        "its spread over images, over the same steps, is below BasicSSM's":
            below(difference(spread["frost"], spread["basic-ssm"])),
    }
    beyond: dict[str, Check] = {
        "without the ranking loss, too, FROST is above BasicSSM":
            above(difference(early["frost-unranked"], early["basic-ssm"])),
        "it is above BasicSSM that starts as a folded FROST (one seed, both without the ranking loss)":
            above(difference(_early(first_seed, "mean"), early["basic-ssm-folded"])) if first_seed else None,
        "training raised it: it is above that of the untrained FROST":
            above(difference(early["frost"], early["frost-untrained"])),
        "it is above a random walk's": above(early["frost"], sum(walk[:max(1, depth // 2)]) / max(1, depth // 2)),
    }
    half = max(0, depth // 2 - 1)
    at = {name: [_over(runs, "pooled", "mean", min(t, _depth(runs) - 1)) for t in (0, half)]
          for name, runs in groups.items()}
    names = {"frost": "FROST", "basic-ssm": "BasicSSM", "vanilla": "Vanilla",
             "basic-ssm-folded": "BasicSSM from a folded FROST", "frost-unranked": "FROST without ranks",
             "frost-untrained": "FROST untrained"}
    printed = {name: f"{row[0][0]:.2f}, {(row[2][0] + row[3][0]) / 2:.2f} (between steps 6 and 9)"
               for name, row in TABLE_1.items()}
    return section(
        "consistency", ours, checks,
        "Cosine to the last state at step 1 and at half depth: " + ", ".join(
            f"{title} {at[name][0].value:.2f} and {at[name][1].value:.2f}" for name, title in names.items()) +
        f", a random walk {walk[0]:.2f} and {walk[half]:.2f}.",
        [*groups["frost"], *groups["basic-ssm"]], seeds_of(*groups["frost"], *groups["basic-ssm"], *groups["vanilla"]),
        compared=[[f"{title}: cosine at step 1, at half depth", printed.get(name, "–"),
                   ", ".join(map(shown, at[name]))] for name, title in names.items()], beyond=beyond)


def dimension(units: Units) -> Section:
    """Is FROST's path rougher than the others', by as much as the estimator can tell?"""
    groups = _groups(units)
    found = {name: _measured(runs, "dimension") for name, runs in groups.items()}
    depth = _depth(groups["frost"])
    known = {name: {str(count): seen_with(name, count) for count in (depth, 16, 1000)} for name in KNOWN}
    few = {name: known[name][str(depth)].value for name in ("line", "koch")}
    bias = max(abs(few[name] - KNOWN[name]) for name in few)
    seen = (few["koch"] - few["line"]) / (KNOWN["koch"] - KNOWN["line"])    # of a true difference, with T points
    gaps = {name: difference(found["frost"], found[name]) for name in ("vanilla", "basic-ssm", "frost-untrained")}
    hursts = _exponents(units)
    checks: dict[str, Check] = {
        "FROST's dimension is above Vanilla's": above(gaps["vanilla"]),
        "it is above BasicSSM's": above(gaps["basic-ssm"]),
        f"each difference is at least what the estimator makes of the paper's {PAPER_GAP:.3f} with T points":
            every(above(gaps[name], seen * PAPER_GAP) for name in ("vanilla", "basic-ssm")) if seen > 0 else None,
    }
    beyond: dict[str, Check] = {
        "training raised it: it is above the untrained FROST's": above(gaps["frost-untrained"]),
        "the exponent of increments rises with H at every H tried, and between the extremes by more than seeds "
        "differ": _follows(hursts),
    }
    ours = {"dimension": {name: value._asdict() for name, value in found.items()},
            "r_squared": {name: _measured(runs, "r_squared")._asdict() for name, runs in groups.items()},
            "smallest_box": {name: exact(runs[0]["geometry"]["smallest_box"])._asdict()
                             for name, runs in groups.items()},
            "exponent": {name: _measured(runs, "exponent")._asdict() for name, runs in groups.items()},
            "known_curves": {name: {count: value._asdict() for count, value in rows.items()}
                             for name, rows in known.items()},
            "exponent_by_hurst": {f"{hurst:g}": of_mean(values)._asdict() for hurst, values in sorted(hursts.items())},
            "true_dimension": dict(KNOWN), "bias": exact(bias)._asdict(), "seen_of_a_difference": exact(seen)._asdict()}
    titles = {"frost": "FROST", "vanilla": "Vanilla", "basic-ssm": "BasicSSM", "frost-untrained": "FROST untrained"}
    return section(
        "dimension", ours, checks,
        ", ".join(f"{title} {found[name].value:.3f}" for name, title in titles.items()) +
        f". With {depth} points the estimator gives {few['koch']:.3f} for a Koch curve of {KNOWN['koch']:.3f} and "
        f"{few['line']:.3f} for a line: a bias of up to {bias:.3f}, and {100 * seen:.0f} % of a true difference are "
        f"seen, {seen * PAPER_GAP:.3f} of the paper's {PAPER_GAP:.3f}.",
        [*groups["frost"], *groups["basic-ssm"]], seeds_of(*groups["frost"], *groups["basic-ssm"], *groups["vanilla"]),
        compared=[[f"{title}: dimension", f"{DIMENSION[name]:.3f}" if name in DIMENSION else "–",
                   shown(found[name], 3)] for name, title in titles.items()] +
                 [[f"{name}, true {true:.3f}: seen with {depth}, 16 and 1,000 points", "–",
                   ", ".join(f"{known[name][str(count)].value:.3f}" for count in (depth, 16, 1000))]
                  for name, true in KNOWN.items()], beyond=beyond)


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


def _groups(units: Units) -> dict[str, list[Any]]:
    """Runs by what they are; those that diverged have no geometry."""
    found = {name: [unit for key, unit in units.items() if key.startswith(prefix) and "geometry" in unit]
             for name, prefix in GROUPS.items()}
    return found | {name: [units[name]] for name in UNTRAINED}


def _early(runs: list[Any], what: str) -> Measured:
    """The mean over steps 1 to T/2, over seeds; with one seed, over its images."""
    steps = range(max(1, _depth(runs) // 2))
    tables = [run["geometry"]["pooled"] for run in runs]
    means = [sum(table[what][t] for t in steps) / len(steps) for table in tables]
    if len(means) > 1 or what != "mean":
        return of_mean(means)
    half = NORMAL * sum(tables[0]["deviation"][t] for t in steps) / len(steps) / tables[0]["images"] ** 0.5
    return Measured(means[0], means[0] - half, means[0] + half, tables[0]["images"])


def _depth(runs: list[Any]) -> int:
    return len(runs[0]["geometry"]["pooled"]["mean"])


def _over(runs: list[Any], which: str, what: str, step: int) -> Measured:
    """Over seeds; with one seed, over its images where that is known."""
    values = [run["geometry"][which][what][step] for run in runs]
    if len(values) > 1 or what != "mean":
        return of_mean(values)
    table = runs[0]["geometry"][which]
    half = NORMAL * table["deviation"][step] / table["images"] ** 0.5
    return Measured(values[0], values[0] - half, values[0] + half, table["images"])


def _measured(runs: list[Any], what: str) -> Measured:
    """Over seeds; with one seed, over its images."""
    if len(runs) > 1:
        return of_mean([run["geometry"][what]["value"] for run in runs])
    return Measured(**runs[0]["geometry"][what])
