"""Table 1 and the dimension of the path (§6.1)."""

from __future__ import annotations

from typing import Any

from frost.analysis.claims.verdict import Section, Units, seeds_of, verdict_of
from frost.analysis.consistency import is_rising, random_walk
from frost.analysis.curves import KNOWN, known_curve
from frost.analysis.dimension import box_dimension
from frost.analysis.intervals import Measured, difference, exact, of_mean
from frost.analysis.published import DIMENSION, TABLE_1, TABLE_1_DEPTH, TABLE_1_STEPS

GROUPS = {"vanilla": "vanilla-none-", "basic-ssm": "basic-ssm-none-", "basic-ssm-folded": "basic-ssm-folded-none-",
          "frost-unranked": "frost-none-", "frost": "frost-mean-"}
UNTRAINED = ("vanilla-untrained", "basic-ssm-untrained", "frost-untrained")
SLACK = 0.005    # of a cosine: a fall that small is not called one
GRIDS = 8        # of boxes, at random, over which the estimate for a known curve spreads


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
    frost, ssm = groups["frost"], groups["basic-ssm"]
    early = [t for t in range(1, depth - 1) if t + 1 <= depth / 2]    # from step 2: at step 1 the paper's Vanilla leads

    def leads(first: list[Any], second: list[Any]) -> bool:
        return all(difference(_over(first, "pooled", "mean", t), _over(second, "pooled", "mean", t)).low > 0
                   for t in early)

    checks = {
        "FROST's mean cosine rises at every step": all(
            is_rising(run["geometry"]["pooled"]["mean"], SLACK) for run in frost),
        "from step 2 to T/2 it is above BasicSSM's (95 % lower limit of the difference > 0)": leads(frost, ssm),
        "from step 2 to T/2 it is above Vanilla's": leads(frost, groups["vanilla"]),
        "from step 2 to T/2 it is above that of FROST before training": leads(frost, groups["frost-untrained"]),
        "its spread over images at step 1 is below BasicSSM's":
            _over(frost, "pooled", "deviation", 0).value < _over(ssm, "pooled", "deviation", 0).value,
        "from step 2 to T/2 it is above a random walk's": all(_over(frost, "pooled", "mean", t).low > walk[t]
                                                             for t in early),
        "it is λ and H, not their starting values: without the ranking loss FROST is above BasicSSM that starts as a "
        "folded FROST": leads(groups["frost-unranked"], groups["basic-ssm-folded"]),
    }
    first = {name: _over(runs, "pooled", "mean", 0).value for name, runs in groups.items()}
    half = {name: _over(runs, "pooled", "mean", max(0, _depth(runs) // 2 - 1)).value for name, runs in groups.items()}
    return Section(
        "Intermediate states of FROST are coarser views of the last one: their similarity to it rises smoothly, and "
        "from the early steps on more than in Vanilla and BasicSSM (Table 1).",
        {"steps": list(TABLE_1_STEPS), "depth": TABLE_1_DEPTH,
         **{name: [{"mean": mean, "deviation": spread} for mean, spread in row] for name, row in TABLE_1.items()}},
        ours, verdict_of(checks, *frost, *ssm), "; ".join(checks),
        f"Cosine to the last state at step 1 and at half depth: FROST {first['frost']:.2f} and {half['frost']:.2f}, "
        f"BasicSSM {first['basic-ssm']:.2f} and {half['basic-ssm']:.2f}, BasicSSM from a folded FROST "
        f"{first['basic-ssm-folded']:.2f} and {half['basic-ssm-folded']:.2f}, Vanilla {first['vanilla']:.2f} and "
        f"{half['vanilla']:.2f}, FROST untrained {first['frost-untrained']:.2f} and {half['frost-untrained']:.2f}, a "
        f"random walk {walk[0]:.2f} and {walk[max(0, depth // 2 - 1)]:.2f}.",
        checks, seeds_of(*frost, *ssm, *groups["vanilla"]))


def dimension(units: Units) -> Section:
    """Is FROST's path rougher than the others', by more than the estimator's error?"""
    groups = _groups(units)
    found = {name: _measured(runs, "dimension") for name, runs in groups.items()}
    depth = _depth(groups["frost"])
    known = {name: {str(count): _known(name, count) for count in (depth, 16, 1000)} for name in KNOWN}
    hursts = {unit["config"]["model"]["hurst"]: Measured(**unit["geometry"]["exponent"]) for name, unit in units.items()
              if name.startswith(("frost-hurst-", "frost-mean-s0")) and "geometry" in unit}
    gaps = {name: difference(found["frost"], found[name]) for name in ("vanilla", "basic-ssm", "frost-untrained")}
    bias = max(abs(known[name][str(depth)].value - KNOWN[name]) for name in ("line", "koch"))
    checks = {
        "FROST's dimension is above Vanilla's (95 % lower limit of the difference > 0)": gaps["vanilla"].low > 0,
        "it is above BasicSSM's": gaps["basic-ssm"].low > 0,
        "it is above the untrained FROST's": gaps["frost-untrained"].low > 0,
        "the smallest of these differences exceeds the estimator's bias on a line and a Koch curve with T points":
            min(gap.value for gap in gaps.values()) > bias,
        "the exponent of increments follows H (the larger H, the larger the exponent; difference between the extreme "
        "H above 0 with 95 %)": _follows(hursts),
    }
    ours = {"dimension": {name: value._asdict() for name, value in found.items()},
            "r_squared": {name: _measured(runs, "r_squared")._asdict() for name, runs in groups.items()},
            "smallest_box": {name: exact(runs[0]["geometry"]["smallest_box"])._asdict()
                             for name, runs in groups.items()},
            "exponent": {name: _measured(runs, "exponent")._asdict() for name, runs in groups.items()},
            "known_curves": {name: {count: value._asdict() for count, value in rows.items()}
                             for name, rows in known.items()},
            "exponent_by_hurst": {f"{hurst:g}": value._asdict() for hurst, value in sorted(hursts.items())},
            "true_dimension": dict(KNOWN), "bias": exact(bias)._asdict()}
    koch = known["koch"][str(depth)]
    return Section(
        "FROST's latent path has a higher Minkowski dimension, 1.295 against 1.262, than Vanilla's and BasicSSM's "
        "(§6.1).",
        dict(DIMENSION), ours, verdict_of(checks, *groups["frost"], *groups["basic-ssm"]), "; ".join(checks),
        f"FROST {found['frost'].value:.3f}, Vanilla {found['vanilla'].value:.3f}, BasicSSM "
        f"{found['basic-ssm'].value:.3f}, FROST untrained {found['frost-untrained'].value:.3f}. With {depth} points "
        f"the estimator gives {koch.value:.3f} for a Koch curve of {KNOWN['koch']:.3f} and "
        f"{known['line'][str(depth)].value:.3f} for a line: a bias of {bias:.3f}, beside the paper's difference of "
        "0.033.",
        checks, seeds_of(*groups["frost"], *groups["basic-ssm"], *groups["vanilla"]))


def _follows(exponents: dict[float, Measured]) -> bool:
    least, most = exponents[min(exponents)], exponents[max(exponents)]
    return len(exponents) > 1 and difference(most, least).low > 0


def _groups(units: Units) -> dict[str, list[Any]]:
    """Runs by what they are; those that diverged have no geometry."""
    found = {name: [unit for key, unit in units.items() if key.startswith(prefix) and "geometry" in unit]
             for name, prefix in GROUPS.items()}
    return found | {name: [units[name]] for name in UNTRAINED}


def _depth(runs: list[Any]) -> int:
    return len(runs[0]["geometry"]["pooled"]["mean"])


def _over(runs: list[Any], which: str, what: str, step: int) -> Measured:
    """Over seeds; with one seed, over its images where that is known."""
    values = [run["geometry"][which][what][step] for run in runs]
    if len(values) > 1 or what != "mean":
        return of_mean(values)
    table = runs[0]["geometry"][which]
    half = 1.96 * table["deviation"][step] / table["images"] ** 0.5
    return Measured(values[0], values[0] - half, values[0] + half, table["images"])


def _measured(runs: list[Any], what: str) -> Measured:
    """Over seeds; with one seed, over its images."""
    if len(runs) > 1:
        return of_mean([run["geometry"][what]["value"] for run in runs])
    return Measured(**runs[0]["geometry"][what])


def _known(name: str, count: int) -> Measured:
    """What the estimator gives for a curve of known dimension with that many points, over grids at random."""
    path = known_curve(name, count)[None]
    return of_mean([box_dimension(path, seed).value.item() for seed in range(GRIDS if count < 100 else 3)])
