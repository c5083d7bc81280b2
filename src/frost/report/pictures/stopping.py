"""What halting buys: Table 2 and beyond."""

from __future__ import annotations

from typing import Any

from frost.report.drawing import CYCLE, MARKS, TITLES, Values, legend_above, panels

CORRUPTIONS = {"hidden": "hidden pixels"}


def halting(paper: Values, ours: Values, _: Values) -> Any:
    """Accuracy over mean depth, by score and for everybody alike, in both forms."""
    figure, axes = panels(2)
    for cell, (name, rows) in zip(axes, ours["rows"].items(), strict=True):
        steps = ours["per_step_accuracy"][name]
        cell.plot(range(1, len(steps) + 1), [100 * value["value"] for value in steps], "s--", ms=4, color=CYCLE[1],
                  label="everybody stops at step t")
        for index, some, label in ((0, rows, "each image by its score, one threshold, eight quantiles"),
                                   (2, ours["each_step"][name], "each image by its score, a threshold for each step")):
            values = [row["accuracy"] for row in some]
            cell.errorbar([row["mean_depth"]["value"] for row in some], [100 * value["value"] for value in values],
                          color=CYCLE[index], fmt=f"{MARKS[index]}-", ms=4, capsize=2, label=label,
                          yerr=[[100 * (value["value"] - value["low"]) for value in values],
                                [100 * (value["high"] - value["value"]) for value in values]])
        share = len(steps) / paper["depth"]
        cell.plot([row["mean_depth"] * share for row in paper["rows"]],
                  [100 * row["accuracy"] for row in paper["rows"]], "k*", ms=5,
                  label="the paper's Table 2, CIFAR-100, depth ÷ 16 × T")
        cell.set(xlabel="mean depth (steps per image)", ylabel="test accuracy (%)")
        cell.set_title(TITLES[name], loc="right")
        legend_above(cell, 1)
    return figure


def rules(paper: Values, ours: Values, _: Values) -> Any:
    """What each rule gains over fixed depth, and models trained at smaller T."""
    figure, (here, there) = panels(2, 4.2)
    fractions = sorted({row["fraction"] for row in ours["rows"]})
    names = [name for name in dict.fromkeys(row["policy"] for row in ours["rows"]) if name != "fixed"]
    for index, fraction in enumerate(fractions):
        for place, name in enumerate(names):
            row = next(row["gain"] for row in ours["rows"] if row["policy"] == name and row["fraction"] == fraction)
            here.errorbar(100 * row["value"], place + 0.2 * (index - (len(fractions) - 1) / 2), fmt=MARKS[index], ms=4,
                          capsize=2, color=CYCLE[index], label=f"{100 * fraction:.0f} % of T" if not place else None,
                          xerr=[[100 * (row["value"] - row["low"])], [100 * (row["high"] - row["value"])]])
    here.axvline(0, color="#888888", lw=0.8)
    here.set(yticks=range(len(names)), yticklabels=names, xlabel="our form: points above fixed depth (95 % interval)")
    here.invert_yaxis()
    legend_above(here, 4)
    labels = {"trained": "trained at that depth", "stopped": "the deep model, everybody stopped there",
              "halted": "the deep model, halted at that mean depth"}
    for index, (key, label) in enumerate(labels.items()):
        for place, row in enumerate(ours["smaller_depths"].values()):
            there.bar(place + 0.27 * (index - 1), 100 * row[key]["value"], 0.25, color=CYCLE[index],
                      label=label if not place else None)
    there.set(xticks=range(len(ours["smaller_depths"])), ylabel="test accuracy (%)",
              xticklabels=[f"{depth} steps" for depth in ours["smaller_depths"]], xlabel="as printed")
    legend_above(there, 1)
    return figure


def extrapolation(paper: Values, ours: Values, _: Values) -> Any:
    """Accuracy far beyond the depth of training."""
    figure, (here,) = panels(1)
    for index, (name, rows) in enumerate(ours.items()):
        values = rows["per_step_accuracy"]
        depth = len(values) / 4
        here.plot([(t + 1) / depth for t in range(len(values))], [100 * value["value"] for value in values],
                  ("-", "--")[index], color=CYCLE[index], label=TITLES[name])
    here.axvline(1, color="#888888", lw=0.8)
    here.set(xlabel="steps taken ÷ T, the depth of training", ylabel="test accuracy (%)", xticks=[0.5, 1, 2, 3, 4])
    legend_above(here)
    return figure


def shift(paper: Values, ours: Values, _: Values) -> Any:
    """Depth and accuracy on corrupted images, old thresholds and renewed ones."""
    figure, (here, there) = panels(2)
    kinds = list(dict.fromkeys(row["kind"] for row in ours["rows"]))
    for index, kind in enumerate(kinds):
        rows = [row for row in ours["rows"] if row["kind"] == kind]
        severity = [0, *(row["severity"] for row in rows)]
        for which, line in (("old", "-"), ("renewed", ":")):
            stops = [ours["clean"]["rank"], *(row[which]["rank"] for row in rows)]
            here.plot(severity, [row["mean_depth"]["value"] for row in stops], line, marker=MARKS[index], ms=4,
                      color=CYCLE[index], label=f"{CORRUPTIONS.get(kind, kind)}, {which} thresholds")
            there.plot(severity, [100 * row["accuracy"]["value"] for row in stops], line, marker=MARKS[index], ms=4,
                       color=CYCLE[index], label=CORRUPTIONS.get(kind, kind) if which == "old" else None)
    here.set(xlabel="severity", ylabel="mean depth (steps)")
    there.set(xlabel="severity", ylabel="accuracy (%)\n(— old, ··· renewed thresholds)")
    legend_above(here)
    legend_above(there, 4)
    return figure
