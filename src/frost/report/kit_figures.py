"""One picture for each section of the paper kit, drawn from what `results.json` holds of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from frost.report.drawing import COLOURS, CYCLE, MARKS, as_files, legend_above, panels

Values = Mapping[str, Any]
TITLES = {"frost": "FROST", "vanilla": "Vanilla", "basic-ssm": "BasicSSM", "recurrent": "Recurrent",
          "basic-ssm-folded": "BasicSSM from a folded FROST",
          "frost-unranked": "FROST without ranks", "frost-untrained": "FROST, untrained",
          "vanilla-untrained": "Vanilla, untrained", "basic-ssm-untrained": "BasicSSM, untrained",
          "random-walk": "random walk", "ours": "our form", "as-printed": "as printed"}
CORRUPTIONS = {"hidden": "hidden pixels"}
CURVE_NAMES = {"line": "a line", "koch": "a Koch curve"}


def figure_files(name: str, section: Values, timing: Values) -> dict[str, bytes]:
    """SVG and PNG of one section."""
    return as_files(FIGURES[name](section["paper"], section["ours"], timing), name)


def _consistency(paper: Values, ours: Values, _: Values) -> Any:
    figure, (here, there) = panels(2)
    for index, (name, rows) in enumerate((name, rows) for name, rows in ours.items() if name != "early"):
        cosines = rows["cosine"]
        means = [row["value"] for row in cosines]
        share = [(t + 1) / len(means) for t in range(len(means))]
        plain = name == "random-walk" or name.endswith("untrained")
        here.plot(share, means, "--" if plain else "-", marker=MARKS[index % 8], ms=4, color=_colour(name),
                  alpha=0.7 if plain else 1, label=TITLES[name])
        if name in ("frost", "basic-ssm"):
            spread = [row["value"] for row in rows["deviation"]]
            here.fill_between(share, [m - d for m, d in zip(means, spread, strict=True)],
                              [min(1, m + d) for m, d in zip(means, spread, strict=True)], color=_colour(name),
                              alpha=0.12, lw=0)
    here.set(xlabel="step t ÷ T (shaded: ± one deviation over images)", ylabel="cosine of $h_t$ to $h_T$",
             xlim=(0, 1.02), ylim=(0, 1.03))
    legend_above(here)
    for index, name in enumerate(("vanilla", "basic-ssm", "frost")):
        there.plot([step / paper["depth"] for step in paper["steps"]], [row["mean"] for row in paper[name]], "-",
                   marker=MARKS[index], ms=4, color=_colour(name), label=f"{TITLES[name]}, paper")
    there.set(xlabel="step t ÷ T, the paper's Table 1 on ImageNet-100", ylabel="cosine of $h_t$ to $h_T$",
              xlim=(0, 1.02))
    there.sharey(here)
    legend_above(there, 3)
    return figure


def _dimension(paper: Values, ours: Values, _: Values) -> Any:
    figure, (here,) = panels(1, 3.9)
    names = list(ours["dimension"])
    for place, name in enumerate(names):
        row = ours["dimension"][name]
        here.errorbar(row["value"], place, xerr=[[row["value"] - row["low"]], [row["high"] - row["value"]]], fmt="o",
                      color=_colour(name), capsize=3)
        if name in paper:
            here.plot(paper[name], place, "k*", ms=9, label="paper" if name == "frost" else None)
    few = sorted(ours["known_curves"]["koch"], key=int)[0]
    for index, (curve, line) in enumerate((("line", ":"), ("koch", "--"))):
        value, curve_name = ours["known_curves"][curve][few]["value"], CURVE_NAMES[curve]
        here.axvline(value, ls=line, color=CYCLE[6 - index], lw=1,
                     label=f"{curve_name} of dimension {ours['true_dimension'][curve]:.2f}, seen with {few} points")
    here.set(yticks=range(len(names)), yticklabels=[TITLES[name] for name in names],
             xlabel="estimated dimension (95 % interval)")
    legend_above(here, 1)
    return figure


def _scale(paper: Values, ours: Values, _: Values) -> Any:
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


def _halting(paper: Values, ours: Values, _: Values) -> Any:
    figure, axes = panels(2)
    for cell, (name, rows) in zip(axes, ours["rows"].items(), strict=True):
        steps = ours["per_step_accuracy"][name]
        cell.plot(range(1, len(steps) + 1), [100 * value["value"] for value in steps], "s--", ms=4, color=CYCLE[1],
                  label="everybody stops at step t")
        depths, values = [row["mean_depth"]["value"] for row in rows], [row["accuracy"] for row in rows]
        cell.errorbar(depths, [100 * value["value"] for value in values], color=CYCLE[0], fmt="o-", ms=4, capsize=2,
                      yerr=[[100 * (value["value"] - value["low"]) for value in values],
                            [100 * (value["high"] - value["value"]) for value in values]],
                      label="each image by its score, eight quantiles")
        share = len(steps) / paper["depth"]
        cell.plot([row["mean_depth"] * share for row in paper["rows"]],
                  [100 * row["accuracy"] for row in paper["rows"]], "k*", ms=5,
                  label="the paper's Table 2, CIFAR-100, depth ÷ 16 × T")
        cell.set(xlabel="mean depth (steps per image)", ylabel="test accuracy (%)")
        cell.set_title(TITLES[name], loc="right")
        legend_above(cell, 1)
    return figure


def _losses(paper: Values, ours: Values, _: Values) -> Any:
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


def _complexity(paper: Values, ours: Values, timing: Values) -> Any:
    rows = timing["throughput"]
    figure, axes = panels(len(rows), 2.9)
    for cell, (backbone, lines) in zip(axes, rows.items(), strict=True):
        models = [("vanilla", "full"), ("recurrent", "full"), ("basic-ssm", "full"), (f"frost-{backbone}", "full"),
                  (f"frost-{backbone}", "refill")]
        batches = sorted({line["batch"] for line in lines})
        for index, batch in enumerate(batches):
            base = next(line["images_per_second"] for line in lines if line["model"] == "vanilla"
                        and line["batch"] == batch)
            values = [next((line["images_per_second"] / base for line in lines if (line["model"], line["executor"])
                            == key and line["batch"] == batch), 0.0) for key in models]
            wide = 0.8 / len(batches)
            cell.bar([place + wide * (index - (len(batches) - 1) / 2) for place in range(len(models))], values,
                     0.95 * wide, color=CYCLE[index],
                     label=f"batch {batch}")
        cell.set(xticks=range(len(models)), ylabel="images/s ÷ Vanilla",
                 xticklabels=["Vanilla", "Recurrent", "BasicSSM", "FROST,\nfull depth", "FROST,\nadaptive"])
        cell.axhline(1, color="#888888", lw=0.8)
        cell.set_title(f"{backbone}, adaptive: at the paper's depths", loc="right", fontsize=8)
        legend_above(cell, 3)
    return figure


def _collapse(paper: Values, ours: Values, _: Values) -> Any:
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
                       color=_colour(model), label=TITLES[model] if what == "relative" else None)
    there.axhline(0, color="#888888", lw=0.8)
    there.set(xlabel="share of the training (sum over steps, one seed)",
              ylabel="C(θ) with the task's gradient\n(— relative, ··· anchoring)")
    legend_above(there, 4)
    return figure


def _theory(paper: Values, ours: Values, _: Values) -> Any:
    figure, (here, there) = panels(2)
    names = list(ours)
    for place, name in enumerate(names):
        row = ours[name]
        here.bar(place, row["largest_expansion"]["value"], 0.6, color=CYCLE[place])
        if row["lipschitz"] is not None:
            here.plot([place - 0.36, place + 0.36], [row["lipschitz"]["value"]] * 2, "k--", lw=1.4,
                      label="proven bound L" if name == "contractive" else None)
        known = [(t + 1, error) for t, error in enumerate(row["errors"]) if error]
        if known:
            rests = "" if row["rests"] else " (does not rest)"
            there.semilogy(*zip(*known, strict=True), "-", marker=MARKS[place], ms=4, color=CYCLE[place],
                           label=name + rests)
        if row["error_bound"]:
            there.semilogy(range(1, len(row["error_bound"]) + 1), row["error_bound"], ":", color=CYCLE[place],
                           label=f"{name}, bound")
    here.axhline(1, color="#888888", lw=0.8)
    here.set(xticks=range(len(names)), xticklabels=names, ylabel="largest expansion\nof a step that was found")
    legend_above(here)
    there.set(xlabel="step t ($h^*$: the state after 8T steps)", ylabel="‖$h_t$ − $h^*$‖ ÷ ‖$h_1$ − $h_0$‖")
    legend_above(there)
    return figure


def _supervision(paper: Values, ours: Values, _: Values) -> Any:
    figure, (here,) = panels(1)
    for index, (name, label) in enumerate((("last", "last step only (the paper)"), ("deep", "deep supervision"),
                                           ("random", "random depth"))):
        values = ours["per_step_accuracy"][name]
        here.plot(range(1, len(values) + 1), [100 * value["value"] for value in values], "-", marker=MARKS[index], ms=4,
                  color=CYCLE[index], label=label)
    here.set(xlabel="everybody stops at step t", ylabel="test accuracy (%)")
    legend_above(here, 3)
    return figure


def _rules(paper: Values, ours: Values, _: Values) -> Any:
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


def _extrapolation(paper: Values, ours: Values, _: Values) -> Any:
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


def _shift(paper: Values, ours: Values, _: Values) -> Any:
    figure, (here, there) = panels(2)
    kinds = list(dict.fromkeys(row["kind"] for row in ours["rows"]))
    for index, kind in enumerate(kinds):
        rows = [row for row in ours["rows"] if row["kind"] == kind]
        severity = [0, *(row["severity"] for row in rows)]
        for which, line in (("old", "-"), ("renewed", ":")):
            depths = [ours["clean"]["mean_depth"], *(row[which]["mean_depth"] for row in rows)]
            here.plot(severity, [depth["value"] for depth in depths], line, marker=MARKS[index], ms=4,
                      color=CYCLE[index], label=f"{CORRUPTIONS.get(kind, kind)}, {which} thresholds")
            right = [ours["clean"]["accuracy"], *(row[which]["accuracy"] for row in rows)]
            there.plot(severity, [100 * value["value"] for value in right], line, marker=MARKS[index], ms=4,
                       color=CYCLE[index], label=CORRUPTIONS.get(kind, kind) if which == "old" else None)
    here.set(xlabel="severity", ylabel="mean depth (steps)")
    there.set(xlabel="severity", ylabel="accuracy (%)\n(— old, ··· renewed thresholds)")
    legend_above(here)
    legend_above(there, 4)
    return figure


def _colour(name: str) -> str:
    if name in COLOURS:
        return COLOURS[name]
    return {"random-walk": COLOURS["paper"], "frost-untrained": COLOURS["untrained"]}.get(name, "#B0B0B0")


FIGURES: dict[str, Callable[[Values, Values, Values], Any]] = {
    "consistency": _consistency, "dimension": _dimension, "lambda": _scale, "halting": _halting, "losses": _losses,
    "complexity": _complexity, "collapse": _collapse, "theory": _theory, "supervision": _supervision, "rules": _rules,
    "extrapolation": _extrapolation, "shift": _shift}
