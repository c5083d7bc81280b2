"""Table 1: how similar each state is to the last one (§6.1)."""

from __future__ import annotations

from typing import Any

from frost.paper.checks import Check, Units, above, below, seeds_of, shown
from frost.paper.intervals import NORMAL, Measured, difference, exact, of_mean
from frost.paper.measurements.geometry import depth_of, groups_of, path_units
from frost.paper.measurements.state_similarity import is_rising, random_walk
from frost.paper.section import Finding, Section
from frost.report.drawing import MARKS, TITLES, Values, colour_of, legend_above, panels

SLACK = 0.005    # of a cosine: a fall that small is not called one
STEPS, DEPTH = (1, 3, 6, 9, 12, 15), 16    # T is not printed; the ResNet of §6 has 16
TABLE_1 = {    # mean and deviation of the cosine between h_t and h_T, ImageNet-100
    "vanilla": ((0.3843, 0.11), (0.4245, 0.11), (0.5104, 0.11), (0.6220, 0.13), (0.6558, 0.13), (0.8371, 0.11)),
    "basic-ssm": ((0.0539, 0.24), (0.3505, 0.19), (0.7144, 0.10), (0.9012, 0.04), (0.9767, 0.01), (0.9989, 0.00)),
    "frost": ((0.2991, 0.19), (0.6969, 0.12), (0.9018, 0.04), (0.9684, 0.01), (0.9925, 0.00), (0.9996, 0.00))}
COMPARED = ("frost", "basic-ssm", "vanilla", "basic-ssm-folded", "frost-unranked", "frost-untrained")
Groups = dict[str, list[Any]]    # runs of one kind, by its name


def judge(units: Units) -> Finding:
    """Is each FROST state more like the last one than the state before, more so and with less spread than others'?"""
    groups = groups_of(units)
    early = {name: _early(runs, "mean") for name, runs in groups.items()}
    spread = {name: _early(runs, "deviation") for name, runs in groups.items()}
    depth = depth_of(groups["frost"])
    walk, half = random_walk(depth), max(0, depth // 2 - 1)
    at = {name: [_over(runs, "pooled", "mean", min(t, depth_of(runs) - 1)) for t in (0, half)]
          for name, runs in groups.items()}
    checks: dict[str, Check] = {
        f"FROST's mean cosine to h_T rises at every step (a fall of up to {SLACK} is not called one)": all(
            is_rising(run["geometry"]["pooled"]["mean"], SLACK) for run in groups["frost"]),
        "its mean over steps 1 to T/2 is above BasicSSM's": above(difference(early["frost"], early["basic-ssm"])),
        "it is above Vanilla's": above(difference(early["frost"], early["vanilla"])),
        "its spread over images, over the same steps, is below BasicSSM's":
            below(difference(spread["frost"], spread["basic-ssm"])),
    }
    printed = {name: f"{row[0][0]:.2f}, {(row[2][0] + row[3][0]) / 2:.2f} (between steps 6 and 9)"
               for name, row in TABLE_1.items()}
    return Finding(
        _numbers(groups, early, spread, walk), checks,
        "Cosine to the last state at step 1 and at half depth: " + ", ".join(
            f"{TITLES[name]} {at[name][0].value:.2f} and {at[name][1].value:.2f}" for name in COMPARED) +
        f", a random walk {walk[0]:.2f} and {walk[half]:.2f}.",
        [*groups["frost"], *groups["basic-ssm"]], seeds_of(*groups["frost"], *groups["basic-ssm"], *groups["vanilla"]),
        compared=[[f"{TITLES[name]}: cosine at step 1, at half depth", printed.get(name, "–"),
                   ", ".join(map(shown, at[name]))] for name in COMPARED],
        beyond=_beyond(groups, early, walk))


def _beyond(groups: Groups, early: dict[str, Measured], walk: list[float]) -> dict[str, Check]:
    """Is it the ranking loss, the start, the training or chance that makes the states similar?"""
    first_seed = [run for run in groups["frost-unranked"] if run["seed"] == groups["basic-ssm-folded"][0]["seed"]]
    steps = max(1, len(walk) // 2)
    return {
        "without the ranking loss, too, FROST is above BasicSSM":
            above(difference(early["frost-unranked"], early["basic-ssm"])),
        "it is above BasicSSM that starts as a folded FROST (one seed, both without the ranking loss)":
            above(difference(_early(first_seed, "mean"), early["basic-ssm-folded"])) if first_seed else None,
        "training raised it: it is above that of the untrained FROST":
            above(difference(early["frost"], early["frost-untrained"])),
        "it is above a random walk's": above(early["frost"], sum(walk[:steps]) / steps),
    }


def _numbers(groups: Groups, early: dict[str, Measured], spread: dict[str, Measured],
             walk: list[float]) -> dict[str, Any]:
    """Every cosine and its deviation over images, for each step of each kind."""
    columns = {"cosine": ("pooled", "mean"), "deviation": ("pooled", "deviation"),
               "cosine_flattened": ("flattened", "mean")}
    found: dict[str, Any] = {name: {
        key: [_over(runs, which, what, t)._asdict() for t in range(depth_of(runs))]
        for key, (which, what) in columns.items()} for name, runs in groups.items()}
    found["random-walk"] = {"cosine": [exact(value)._asdict() for value in walk]}
    found["early"] = {name: {"cosine": early[name]._asdict(), "deviation": spread[name]._asdict()} for name in groups}
    return found


def _early(runs: list[Any], what: str) -> Measured:
    """The mean over steps 1 to T/2, over seeds; with one seed, over its images."""
    steps = range(max(1, depth_of(runs) // 2))
    tables = [run["geometry"]["pooled"] for run in runs]
    means = [sum(table[what][t] for t in steps) / len(steps) for table in tables]
    if len(means) > 1 or what != "mean":
        return of_mean(means)
    half = NORMAL * sum(tables[0]["deviation"][t] for t in steps) / len(steps) / tables[0]["images"] ** 0.5
    return Measured(means[0], means[0] - half, means[0] + half, tables[0]["images"])


def _over(runs: list[Any], which: str, what: str, step: int) -> Measured:
    """Over seeds; with one seed, over its images where that is known."""
    values = [run["geometry"][which][what][step] for run in runs]
    if len(values) > 1 or what != "mean":
        return of_mean(values)
    table = runs[0]["geometry"][which]
    half = NORMAL * table["deviation"][step] / table["images"] ** 0.5
    return Measured(values[0], values[0] - half, values[0] + half, table["images"])


def draw(paper: Values, ours: Values, _: Values) -> Any:
    """Cosine to the last state, ours above the paper's."""
    figure, (here, there) = panels(2)
    for index, (name, rows) in enumerate((name, rows) for name, rows in ours.items() if name != "early"):
        means = [row["value"] for row in rows["cosine"]]
        share = [(t + 1) / len(means) for t in range(len(means))]
        plain = name == "random-walk" or name.endswith("untrained")
        here.plot(share, means, "--" if plain else "-", marker=MARKS[index % 8], ms=4, color=colour_of(name),
                  alpha=0.7 if plain else 1, label=TITLES[name])
        if name in ("frost", "basic-ssm"):
            spread = [row["value"] for row in rows["deviation"]]
            here.fill_between(share, [m - d for m, d in zip(means, spread, strict=True)],
                              [min(1, m + d) for m, d in zip(means, spread, strict=True)], color=colour_of(name),
                              alpha=0.12, lw=0)
    here.set(xlabel="step t ÷ T (shaded: ± one deviation over images)", ylabel="cosine of $h_t$ to $h_T$",
             xlim=(0, 1.02), ylim=(0, 1.03))
    legend_above(here)
    for index, name in enumerate(("vanilla", "basic-ssm", "frost")):
        there.plot([step / paper["depth"] for step in paper["steps"]], [row["mean"] for row in paper[name]], "-",
                   marker=MARKS[index], ms=4, color=colour_of(name), label=f"{TITLES[name]}, paper")
    there.set(xlabel="step t ÷ T, the paper's Table 1 on ImageNet-100", ylabel="cosine of $h_t$ to $h_T$",
              xlim=(0, 1.02))
    there.sharey(here)
    legend_above(there, 3)
    return figure


SECTION = Section(
    name="consistency", title="Table 1: scale consistency",
    claim="Intermediate states of FROST are coarser views of the last one: their similarity to it rises smoothly, is "
          "higher than in Vanilla and BasicSSM, and varies less between images (Table 1).",
    paper={"steps": list(STEPS), "depth": DEPTH,
           **{name: [{"mean": mean, "deviation": spread} for mean, spread in row] for name, row in TABLE_1.items()}},
    units=path_units, judge=judge, draw=draw, spares_seeds=True)
