"""The card of a run that is shared: what it costs and gives at each budget, how it was made, how it is loaded.

All figures come from the run's own calibration, its held-out inputs and their answers; the model is not run. An
adaptive figure is crossed: each half of the inputs is judged by thresholds of the other half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from frost import hub
from frost.evaluation.datasets import words_of
from frost.halting.calibration import Calibration
from frost.halting.fixed_depth import fixed_depth_line
from frost.halting.rule_choice import FIXED, crossed_depths
from frost.report.tables import percent, si

PAPER = "Scale-Consistent State-Space Dynamics via Fractal of Stationary Transformations (FROST)"
TAGS = ["frost", "adaptive-computation", "early-exit", "weight-tying", "state-space-models"]


class Origin(NamedTuple):
    """What lies beside the weights of a run."""

    config: Mapping[str, Any]
    calibration: Calibration | None
    training: Mapping[str, Any]     # origin.json; empty where it is not known


class Row(NamedTuple):
    """What the held-out inputs got at a budget."""

    budget: float         # steps an input that were asked for
    form: str
    mean_depth: float     # that were taken
    quality: float
    fixed_depth: float    # quality at the same mean depth if all inputs stop alike
    flops: float | None   # an input in the mean, stem included


def adaptive_rows(ours: Calibration) -> list[Row]:
    """One row a budget at which rules were compared; none where there were too few inputs for it."""
    if ours.quality is None:
        return []
    every, rows = np.arange(ours.inputs), []
    for choice in ours.choices:
        depths = crossed_depths(choice.form, ours.signals, ours.quality, choice.mean_depth)
        mean_depth = float(depths.mean())
        line = fixed_depth_line(ours.quality.mean(axis=0, keepdims=True), mean_depth)
        rows.append(Row(choice.mean_depth, choice.form, mean_depth, float(ours.quality[every, depths - 1].mean()),
                        float(line[0]), _flops(ours, mean_depth)))
    return rows


def fixed_rows(ours: Calibration) -> list[Row]:
    """One row a step, after which all inputs stop."""
    if ours.quality is None:
        return []
    return [Row(step, FIXED, step, float(quality), float(quality), _flops(ours, step))
            for step, quality in enumerate(ours.quality.mean(axis=0), start=1)]


def model_card(origin: Origin, repository: str, revision: str | None = None) -> str:
    """The card, with its front matter in YAML, as it is stored in README.md."""
    name = repository.partition("/")[2]
    address = f"hf://{repository}" + (f"@{revision}" if revision else "")
    adaptive = [] if origin.calibration is None else adaptive_rows(origin.calibration)
    parts = [f"# {name}", _head(origin), *_quality(origin, adaptive), *_loading(origin, address), *_making(origin),
             *_limits(origin)]
    return f"---\n{_front_matter(origin, name, adaptive)}\n---\n\n" + "\n\n".join(parts) + "\n"


def _front_matter(origin: Origin, name: str, adaptive: Sequence[Row]) -> str:
    """What the hub reads: tags, and one result a budget."""
    found = hub.library()
    data, results = str(origin.config.get("data") or "own data"), []
    word, things = words_of(data)
    task = "image-classification" if _is_of_images(origin) else "other"
    if origin.calibration is not None and origin.calibration.quality is not None:
        depth = origin.calibration.depth
        for row in (*adaptive, fixed_rows(origin.calibration)[-1]):
            how = "fixed depth" if row.form == FIXED else "adaptive depth"
            results.append(found.EvalResult(
                task_type=task, dataset_type=data, dataset_name=f"{data}, held-out {things}",
                dataset_split="validation", metric_type="accuracy", metric_value=round(row.quality, 4),
                metric_name=f"{word}, {how}, {row.mean_depth:.2f} of {depth} steps an input",
                metric_args={"mean_depth": round(row.mean_depth, 4), "rule": row.form}))
    data_card = found.ModelCardData(library_name="frost", tags=TAGS, model_name=name, eval_results=results or None,
                                    pipeline_tag=task if _is_of_images(origin) else None)
    return str(data_card.to_yaml())


def _head(origin: Origin) -> str:
    data, model = origin.config.get("data"), origin.config.get("model")
    ours = origin.calibration
    depth = ours.depth if ours is not None else (model or origin.config).get("depth")
    block = f"a `{model['backbone']}` block" if model else "a block of its author's own"
    weights = "weights of its own at each step" if model and model["architecture"] == "vanilla" else "the same weights"
    return (f"A model whose depth is chosen when it runs: {block}, repeated up to {depth} times with {weights}"
            + (f", trained on {data}" if data else "")
            + ". Easy inputs stop early, hard ones go on, at a budget that you name. Made with `frost`, after "
            f"*{PAPER}*.")


def _quality(origin: Origin, adaptive: Sequence[Row]) -> list[str]:
    """The tables, or why there are none."""
    ours = origin.calibration
    if ours is None or ours.quality is None:
        return ["## Quality", "This run has no calibration with right answers, so nothing is claimed here, and it "
                "answers at fixed depth only."]
    word, things = words_of(str(origin.config.get("data")))
    stopped = [[f"{row.mean_depth:.2f}", f"`{row.form}`", percent(row.quality), percent(row.fixed_depth),
                f"{100 * (row.quality - row.fixed_depth):+.2f}", _cost(row)] for row in adaptive]
    fixed = [[f"{row.mean_depth:.0f}", percent(row.quality), _cost(row)] for row in fixed_rows(ours)]
    said = (["Adaptive: each input stops by itself. `fixed depth` is the same mean depth with all inputs stopping "
             "alike, the line that an adaptive rule must beat; `gain` is in points. Each half of the inputs is judged "
             "by thresholds of the other half.",
             _markdown(["mean depth", "rule", word, "fixed depth", "gain", "FLOPs an input"], stopped)] if stopped
            else ["There were too few held-out inputs to compare stopping rules."])
    return ["## Quality and depth", f"Of {ours.inputs:,} held-out {things}, which were not trained on and from which "
            "the thresholds in this run come; they are no test set.", *said,
            "Fixed depth: all inputs stop after the same step.", _markdown(["steps", word, "FLOPs an input"], fixed)]


def _loading(origin: Origin, address: str) -> list[str]:
    own = "" if isinstance(origin.config.get("model"), dict) else ", model=model"
    lines = ["import frost    # with its extra `hub`", "", f'run = frost.load("{address}"{own})']
    if own:
        lines.insert(1, "\nmodel = …        # built by the author's own code, which is not part of this run")
    if origin.calibration is not None:
        budget = max(1.0, round(origin.calibration.depth / 2, 1))
        lines += [f"engine = frost.Engine(run.model, run.calibration.at_mean_depth({budget:g}))",
                  "for result in engine.run(inputs):", "    print(result.depth, result.output)"]
    return ["## Load it", "```python\n" + "\n".join(lines) + "\n```",
            "A commit in the address (`@…`) pins the very bytes. Every file is checked against the SHA-256 in "
            "`MANIFEST.json` before it is read; there is no pickle and no code in this repository."]


def _making(origin: Origin) -> list[str]:
    command, data = origin.training.get("command"), origin.config.get("data")
    facts = [f"{words}: {origin.training[name]}" for name, words in
             (("recipe", "recipe"), ("seed", "seed"), ("steps", "training steps"), ("torch", "torch"))
             if origin.training.get(name) is not None]
    if origin.training.get("seconds") is not None:
        facts.append(f"seconds: {origin.training['seconds']:.0f}")
    return ["## How it was made", f"```\n{command}\n```" if command else "The command that made it is not recorded.",
            f"Data: {data}." if data else "Its data is not recorded.",
            *([f"Of the training: {', '.join(facts)}."] if facts else [])]


def _limits(origin: Origin) -> list[str]:
    ours, lines = origin.calibration, []
    if ours is not None:
        lines += ["Budgets hold for inputs like the held-out ones. On others a mean depth may come out differently: "
                  "calibrate on your own (`frost.calibrate`).",
                  f"Depths beyond {ours.depth} steps were not calibrated."]
        none = sum(choice.form == FIXED for choice in ours.choices)
        if none:
            lines.append(f"At {none} of {len(ours.choices)} budgets no adaptive rule beat fixed depth; there this run "
                         "stops all inputs alike.")
    if _is_of_images(origin) and isinstance(origin.config.get("classes"), list):
        lines.append(f"It tells {len(origin.config['classes'])} classes apart and gives one of them for any input.")
    return ["## Limits", "\n".join(f"- {line}" for line in lines) or "Nothing was measured, so nothing is known."]


def _is_of_images(origin: Origin) -> bool:
    data = str(origin.config.get("data"))
    return isinstance(origin.config.get("model"), dict) and words_of(data)[0] == "accuracy"


def _flops(ours: Calibration, mean_depth: float) -> float | None:
    return None if ours.cost is None else ours.cost.at(mean_depth)


def _cost(row: Row) -> str:
    return "" if row.flops is None else si(row.flops)


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---:"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
