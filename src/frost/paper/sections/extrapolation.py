"""Beyond the paper: whether more steps than a model was trained for refine its answers (§1, App. A)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from frost.core.precision import device_of
from frost.core.trajectory import IterativeModel, evaluating
from frost.data.splits import Images, batches_of
from frost.paper.checks import Check, Units, above, along_steps, below, close_to, measured, percent, seeds_of, shown
from frost.paper.intervals import Measured, of_mean, of_share
from frost.paper.section import Finding, Section
from frost.paper.sizes import Size
from frost.paper.units import BASE, Measurement, Unit, base, ours
from frost.report.drawing import CYCLE, TITLES, Values, legend_above, panels


def extrapolation(model: IterativeModel, test: Images) -> dict[str, Any]:
    """Accuracy after T/2, T, 2T and 4T steps, and after every step up to 4T."""
    correct: list[Tensor] = []
    with evaluating(model):
        for images, labels in zip(batches_of(test), test.labels.split(256), strict=True):
            outputs = model(images.to(device_of(model)), depth=4 * model.depth, keep_states=False).outputs.cpu()
            correct.append(outputs.argmax(dim=-1) == labels[:, None])
    each, depth = torch.cat(correct).double(), model.depth
    accuracy = each.mean(dim=0).tolist()
    places = {"half": max(1, depth // 2), "full": depth, "double": 2 * depth, "fourfold": 4 * depth}
    return {"per_step_accuracy": accuracy, "images": len(test),
            "at": {name: accuracy[steps - 1] for name, steps in places.items()},
            "against_full": {name: of_mean((each[:, steps - 1] - each[:, depth - 1]).numpy())._asdict()
                             for name, steps in places.items() if name != "full"}}


EXTRAPOLATION = Measurement(name="extrapolation", take=lambda model, data, size: extrapolation(model, data.test))


def units(size: Size) -> list[Unit]:
    """FROST in our form, and as the paper prints it."""
    return [ours(size, EXTRAPOLATION), base(size, EXTRAPOLATION)]


def judge(units: Units) -> Finding:
    """Do more steps than it was trained for refine the answer, or overthink it?"""
    runs = {"ours": units["ours"], "as-printed": units[BASE]}
    found = {name: {key: of_share(round(value * run["extrapolation"]["images"]), run["extrapolation"]["images"])
                    for key, value in run["extrapolation"]["at"].items()} for name, run in runs.items()}
    gaps = {name: {key: measured(value) for key, value in run["extrapolation"]["against_full"].items()}
            for name, run in runs.items()}
    words = {name: "refines" if gaps[name]["double"].low > 0 else "overthinks" if gaps[name]["double"].high < 0
             else "does neither" for name in runs}
    asked = {name: _checks(gaps[name], found[name]["full"].value) for name in runs}
    return Finding(
        {name: {"at": {key: value._asdict() for key, value in rows.items()},
                "against_full": {key: value._asdict() for key, value in gaps[name].items()},
                "per_step_accuracy": along_steps(runs[name]["extrapolation"])} for name, rows in found.items()},
        {f"as printed, {check}": met for check, met in asked["as-printed"].items()},
        " ".join(f"{TITLES[name].capitalize()}: {percent(rows['half'].value)} at T/2, {percent(rows['full'].value)} at "
                 f"T, {percent(rows['double'].value)} at 2T, {percent(rows['fourfold'].value)} at 4T; beyond T it "
                 f"{words[name]}." for name, rows in found.items()),
        list(runs.values()), seeds_of(*runs.values()),
        compared=[[f"{TITLES[name]}: points from T, at T/2, 2T, 4T", "–",
                   ", ".join(shown(gaps[name][key], 2, 100) for key in ("half", "double", "fourfold"))]
                  for name in found],
        beyond={f"in our form, {check}": met for check, met in asked["ours"].items()})


def _checks(gaps: Mapping[str, Measured], accuracy: float) -> dict[str, Check]:
    return {"T steps are better than T/2": below(gaps["half"]),
            "2T steps are as accurate as T, to a thirtieth": close_to(gaps["double"], accuracy),
            "so are 4T": close_to(gaps["fourfold"], accuracy),
            "2T steps are better than T": above(gaps["double"])}


def draw(paper: Values, ours: Values, _: Values) -> Any:
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


SECTION = Section(
    name="extrapolation", title="Beyond: more steps",
    claim="A stationary, contractive step may be iterated without limit: more steps sharpen the same representation "
          "(§1, App. A).",
    paper={"statement": "theoretically unbounded depth"}, units=units, judge=judge, draw=draw)
