"""§5.1: whether the loss of the last step is enough."""

from __future__ import annotations

from typing import Any

from frost.paper.checks import Check, Units, accuracy_of, along_steps, close_to, percent, seeds_of, shown
from frost.paper.intervals import difference
from frost.paper.section import Finding, Section
from frost.paper.sizes import Size, with_training
from frost.paper.units import BASE, Unit, base
from frost.report.drawing import CYCLE, MARKS, Values, legend_above, panels


def units(size: Size) -> list[Unit]:
    """FROST supervised at the last step, at every step, and at a random one."""
    quarter = max(1, size.base.model.depth // 4)
    return [base(size), Unit(name="frost-deep", run=with_training(size.base, supervision="all")),
            Unit(name="frost-random", run=with_training(size.base, depth_schedule="random", min_depth=quarter))]


def judge(units: Units) -> Finding:
    """Is the last step's loss enough?"""
    runs = {"last": units[BASE], "deep": units["frost-deep"], "random": units["frost-random"]}
    depth = runs["last"]["depth"]
    steps = {"full": depth, "half": max(1, depth // 2), "quarter": max(1, depth // 4)}
    found = {place: {name: accuracy_of(run, step - 1) for name, run in runs.items()} for place, step in steps.items()}

    def is_enough(place: str) -> Check:
        best = max((found[place][name] for name in ("deep", "random")), key=lambda value: value.value)
        return close_to(difference(found[place]["last"], best), best.value)

    checks = {"at full depth the last step's loss alone is as good as the better of the two others, to a thirtieth":
              is_enough("full"),
              "so it is at a fixed depth of T/2": is_enough("half"),
              "and at T/4": is_enough("quarter")}
    ours: dict[str, Any] = {f"{place}_depth": {name: value._asdict() for name, value in rows.items()}
                            for place, rows in found.items()}
    ours["per_step_accuracy"] = {name: along_steps(run) for name, run in runs.items()}
    return Finding(
        ours, checks,
        " ".join(f"At step {steps[place]} of {depth}: last step only {percent(rows['last'].value)}, with deep "
                 f"supervision {percent(rows['deep'].value)}, with random depth {percent(rows['random'].value)}."
                 for place, rows in found.items()), list(runs.values()), seeds_of(*runs.values()),
        compared=[[f"step {steps[place]}: last, deep, random", "sufficient", ", ".join(
            f"{shown(rows[name], 1, 100)} %" for name in runs)] for place, rows in found.items()])


def draw(paper: Values, ours: Values, _: Values) -> Any:
    """Accuracy by step for three ways of supervising."""
    figure, (here,) = panels(1)
    for index, (name, label) in enumerate((("last", "last step only (the paper)"), ("deep", "deep supervision"),
                                           ("random", "random depth"))):
        values = ours["per_step_accuracy"][name]
        here.plot(range(1, len(values) + 1), [100 * value["value"] for value in values], "-", marker=MARKS[index], ms=4,
                  color=CYCLE[index], label=label)
    here.set(xlabel="fixed depth (steps)", ylabel="test accuracy (%)")
    legend_above(here, 3)
    return figure


SECTION = Section(
    name="supervision", title="§5.1: supervision",
    claim="Supervising the last step alone is sufficient; intermediate states become useful by themselves (§5.1).",
    paper={"statement": "sufficient"}, units=units, judge=judge, draw=draw)
