"""What the ranking losses do to training: Figure 2, App. D, §5.1."""

from __future__ import annotations

from typing import Any

from frost.report.drawing import CYCLE, MARKS, TITLES, Values, colour_of, legend_above, panels


def losses(paper: Values, ours: Values, _: Values) -> Any:
    """Scores of easy, hard and median images over training."""
    figure, axes = panels(3, 2.6)
    titles = {"anchoring": "anchoring only", "both": "both", "relative": "relative only"}
    for cell, (name, title) in zip(axes, titles.items(), strict=True):
        curve = ours["curves"][name]
        for index, (key, label) in enumerate((("easy_score", "easy"), ("hard_score", "hard"),
                                              ("median_score", "median"))):
            known = [(x, y) for x, y in zip(curve["share"], curve[key], strict=True) if y is not None]
            cell.plot(*zip(*known, strict=True), ("-", "--", ":")[index], color=CYCLE[index], label=label)
        cell.set(ylim=(-0.03, 1.03), ylabel="score")
        cell.set_title(f"{title}: {100 * ours['full_depth'][name]['value']:.1f} % at full depth (paper "
                       f"{100 * paper[name]:.1f} %)", loc="right", fontsize=8)
    legend_above(axes[0], 3)
    axes[0].get_legend().set_bbox_to_anchor((0.0, 1.12))
    axes[-1].set_xlabel("share of the training")
    return figure


def collapse(paper: Values, ours: Values, _: Values) -> Any:
    """Accuracy with each ranking loss, and how its gradient meets the task's."""
    figure, (here, there) = panels(2)
    models = list(ours["grid"])
    for index, reduce in enumerate(("mean", "sum")):
        for place, model in enumerate(models):
            for row in ours["grid"][model][reduce]["rows"]:
                height = 0.0 if row["accuracy"] is None else 100 * row["accuracy"]["value"]    # at the foot: diverged
                here.plot(place + 0.22 * index - 0.11, height, ("o", "s")[index],
                          mfc="none" if row["collapsed"] else CYCLE[index], color=CYCLE[index], ms=6, alpha=0.8)
    for place, model in enumerate(models):
        row = ours["grid"][model]["none"]["accuracy"]
        if row is not None:
            here.plot([place - 0.35, place + 0.35], [100 * row["value"]] * 2, color=CYCLE[6], lw=1)
    for index, label in enumerate(("mean over steps", "sum, as printed")):
        here.plot([], [], ("o", "s")[index], color=CYCLE[index], label=label)
    here.plot([], [], "o", mfc="none", color=CYCLE[7], label="hollow: collapsed")
    here.plot([], [], color=CYCLE[6], lw=1, label="without the ranking loss")
    names = [TITLES[model].replace(" from a", "\nfrom a\n") for model in models]
    here.set(xticks=range(len(models)), xticklabels=names, ylabel="full-depth accuracy (%)", ylim=(0, None))
    legend_above(here)
    for index, (model, curve) in enumerate(ours["conflict_over_training"].items()):
        for what, line in (("relative", "-"), ("anchoring", ":")):
            known = [(x, y) for x, y in zip(curve["share"], curve[what], strict=True) if y is not None]
            there.plot([x for x, _ in known], [y for _, y in known], line, marker=MARKS[index], ms=4,
                       color=colour_of(model), label=TITLES[model] if what == "relative" else None)
    there.axhline(0, color="#888888", lw=0.8)
    there.set(xlabel="share of the training (sum over steps, one seed)",
              ylabel="C(θ) with the task's gradient\n(— relative, ··· anchoring)")
    legend_above(there, 4)
    return figure


def supervision(paper: Values, ours: Values, _: Values) -> Any:
    """Accuracy by step for three ways of supervising."""
    figure, (here,) = panels(1)
    for index, (name, label) in enumerate((("last", "last step only (the paper)"), ("deep", "deep supervision"),
                                           ("random", "random depth"))):
        values = ours["per_step_accuracy"][name]
        here.plot(range(1, len(values) + 1), [100 * value["value"] for value in values], "-", marker=MARKS[index], ms=4,
                  color=CYCLE[index], label=label)
    here.set(xlabel="everybody stops at step t", ylabel="test accuracy (%)")
    legend_above(here, 3)
    return figure
