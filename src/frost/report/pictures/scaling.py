"""What λ does, and what App. B promises."""

from __future__ import annotations

from typing import Any

from frost.report.drawing import CYCLE, MARKS, Values, legend_above, panels


def scale(paper: Values, ours: Values, _: Values) -> Any:
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


def theory(paper: Values, ours: Values, _: Values) -> Any:
    """Expansion, error and gradient of every update rule, each with its bound."""
    figure, (here, there, last) = panels(3, 3.0)
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
        last.bar(place, row["jacobian_of_all_steps"]["value"], 0.6, color=CYCLE[place])
        if row["gradient_bound"] is not None:
            last.plot([place - 0.36, place + 0.36], [row["gradient_bound"]["value"]] * 2, "k--", lw=1.4,
                      label="proven bound $L^T$" if name == "contractive" else None)
    for cell, what in ((here, "largest expansion\nof a step that was found"),
                       (last, "gradient through all steps\n‖$\\partial h_T / \\partial h_0$‖")):
        cell.axhline(1, color="#888888", lw=0.8)
        cell.set(xticks=range(len(names)), xticklabels=names, ylabel=what)
        legend_above(cell)
    last.set_yscale("log")
    there.set(xlabel="step t ($h^*$: the state after 8T steps)", ylabel="‖$h_t$ − $h^*$‖ ÷ ‖$h_1$ − $h_0$‖")
    legend_above(there)
    return figure
