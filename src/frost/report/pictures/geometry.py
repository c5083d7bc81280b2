"""What a path looks like: Table 1 and §6.1."""

from __future__ import annotations

from typing import Any

from frost.report.drawing import CYCLE, MARKS, TITLES, Values, colour_of, legend_above, panels

NARROW = (" from a", "\nfrom a")
CURVE_NAMES = {"line": "a line", "koch": "a Koch curve"}


def consistency(paper: Values, ours: Values, _: Values) -> Any:
    """Cosine to the last state, ours above the paper's."""
    figure, (here, there) = panels(2)
    for index, (name, rows) in enumerate((name, rows) for name, rows in ours.items() if name != "early"):
        cosines = rows["cosine"]
        means = [row["value"] for row in cosines]
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


def dimension(paper: Values, ours: Values, _: Values) -> Any:
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
        value, curve_name = ours["known_curves"][curve][few]["value"], CURVE_NAMES[curve]
        here.axvline(value, ls=line, color=CYCLE[6 - index], lw=1,
                     label=f"{curve_name} of dimension {ours['true_dimension'][curve]:.2f}, seen with {few} points")
    here.set(yticks=range(len(names)), xlabel="estimated dimension (95 % interval)", yticklabels=[
        f"{TITLES[name].replace(*NARROW)}\nR² {ours['r_squared'][name]['value']:.3f}"
        for name in names])
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
