"""`frost describe MODEL|RUN`: parameters and FLOPs, counted by running, beside the paper's; of a run, where it is from.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from frost import directory, hub
from frost.checkpoint import load, pretrained
from frost.commands.common import Reply, add_settings
from frost.config import from_dict, override, suggest
from frost.evaluation.budget import command_for, shown
from frost.evaluation.complexity import Complexity, measure
from frost.halting.calibration import Calibration
from frost.paper.sections.table3_complexity import TABLE_3, PublishedComplexity
from frost.report.tables import percent, si, table
from frost.training.runfolder import ORIGIN
from frost.zoo.registry import DIMENSIONS, ModelConfig, build, named, names

NOTE = "A multiply-add is 2 FLOPs; the head is C, D and the score."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost describe`."""
    parser.add_argument("model", metavar="MODEL|RUN",
                        help="for instance frost-vit-b16, vanilla-resnet50, basic-ssm-vit-32px; or folder or name of a "
                             "run")
    add_settings(parser)


def run(options: argparse.Namespace) -> Reply:
    """Count a model, or describe a run."""
    if is_run(options.model):
        facts = describe_run(options.model, options.assignments)
        return Reply(run_json(facts), run_text(facts))
    ours, paper, config = describe(options.model, options.assignments)
    return Reply(as_json(options.model, ours, paper), as_text(options.model, ours, paper, config))


class RunFacts(NamedTuple):
    """What there is to know of a run without measuring it."""

    run: str
    path: Path
    complexity: Complexity
    config: ModelConfig
    recipe: str | None
    data: str | None
    calibration: Calibration | None
    origin: dict[str, Any]     # of its training: seed, steps, seconds, validation; empty where it is not known


def is_run(name: str) -> bool:
    """Whether a name stands for a run: one that comes with the package, or anything that is there under this name."""
    if name in names():
        return any((Path(name) / part).exists() for part in (directory.MANIFEST, "checkpoints"))
    return name in pretrained() or hub.is_address(name) or Path(name).exists()


def describe_run(name: str, assignments: Sequence[str] = ()) -> RunFacts:
    """Count the model of a run, and read what lies beside it."""
    if assignments:
        raise ValueError(f"--set changes a named model, and {name} is a run, which is as it was trained; leave it out.")
    run = load(name)
    config = from_dict(ModelConfig, run.config["model"], "model")
    origin = run.path / ORIGIN
    return RunFacts(shown(name, run), run.path, measure(run.model), config,
                    run.config.get("recipe"), run.config.get("data"), run.calibration,
                    directory.read_json(origin) if origin.is_file() else {})


def describe(name: str, assignments: Sequence[str]) -> tuple[Complexity, PublishedComplexity | None, ModelConfig]:
    """Count a named model, with fields changed by `model.depth=8` or `depth=8`; and the paper's figures for it."""
    if name not in names():
        raise ValueError(f"there is no model or run '{name}'. {suggest(name, [*names(), *pretrained()])}")
    original = named(name)
    config = override(original, assignments, where="model")
    with torch.device("meta"):
        model = build(config)
    is_the_papers = replace(config, update=original.update) == original
    ours = measure(model)
    return ours, TABLE_3.get(name) if is_the_papers else None, config


def as_json(name: str, ours: Complexity, paper: PublishedComplexity | None) -> dict[str, Any]:
    """One object with the paper's figure beside ours where it has one."""
    theirs = None if paper is None else {
        "parameters": paper.parameters, "mean_depth": paper.mean_depth, "flops_at_mean_depth": paper.flops,
        "flops_full_depth": paper.flops * ours.depth / paper.mean_depth}
    return {"model": name, **ours._asdict(), "paper": theirs}


def as_text(name: str, ours: Complexity, paper: PublishedComplexity | None, config: ModelConfig) -> str:
    """The same as a table."""
    rows = [["parameters", si(ours.parameters), si(paper.parameters) if paper and _with_head(name) else ""],
            ["parameters without the head", si(ours.parameters_without_head),
             si(paper.parameters) if paper and not _with_head(name) else ""],
            ["FLOPs once per image", si(ours.flops_once), ""],
            ["FLOPs per step", si(ours.flops_per_step), ""],
            ["FLOPs at full depth", si(ours.flops_full_depth),
             si(paper.flops * ours.depth / paper.mean_depth) if paper else ""],
            ["  with the first step cached", si(ours.flops_full_depth_cached), ""]]
    notes = [NOTE]
    if paper and paper.mean_depth != ours.depth:
        notes.append(f"The paper's {si(paper.flops)} at its mean depth of {paper.mean_depth} is scaled to {ours.depth} "
                     "steps.")
    return "\n".join([_title(name, config), "", table(["", "ours", "paper"], rows), "", *notes])


def run_json(facts: RunFacts) -> dict[str, Any]:
    """One object; `calibration` is None if there is none, and so is what is not known."""
    ours, origin = facts.calibration, facts.origin
    calibration = None if ours is None else {
        "policy": ours.rule, "images": ours.inputs, "dropped": ours.dropped,
        "choices": [choice._asdict() for choice in ours.choices], "knows_right_answers": ours.quality is not None}
    config = facts.config
    return {"run": facts.run, "path": str(facts.path), **facts.complexity._asdict(), "recipe": facts.recipe,
            "data": facts.data, "architecture": config.architecture, "backbone": config.backbone,
            "update": config.update, "hurst": config.hurst, "image_channels": config.image_channels,
            "image_size": config.image_size, "classes": config.classes, "calibration": calibration,
            **{name: origin.get(name) for name in ("validation_accuracy", "seed", "steps", "seconds", "command")}}


def run_text(facts: RunFacts) -> str:
    """The same for a person."""
    ours, origin = facts.complexity, facts.origin
    rows = [["parameters", si(ours.parameters)], ["parameters without the head", si(ours.parameters_without_head)],
            ["FLOPs once per image", si(ours.flops_once)], ["FLOPs per step", si(ours.flops_per_step)],
            ["FLOPs at full depth", si(ours.flops_full_depth)],
            ["  with the first step cached", si(ours.flops_full_depth_cached)]]
    if origin.get("validation_accuracy"):
        rows.append(["validation accuracy at full depth", percent(origin["validation_accuracy"][-1])])
    trained = f", {origin['steps']} steps, seed {origin['seed']}" if {"steps", "seed"} <= origin.keys() else ""
    return "\n".join([_title(facts.run, facts.config), "", table(["", "ours"], rows), "",
                      f"Trained by recipe {facts.recipe or 'unknown'} on {facts.data or 'unknown data'}{trained}.",
                      _calibrated(facts), NOTE])


def _calibrated(facts: RunFacts) -> str:
    ours = facts.calibration
    if ours is None:
        return f"Not calibrated; to do so: {command_for(facts.path)}"
    forms = list(dict.fromkeys(choice.form for choice in ours.choices)) or [ours.rule]
    return f"Calibrated on {ours.inputs:,} held-out images, to stop by {', '.join(forms)}, whichever won at a budget."


def _title(name: str, config: ModelConfig) -> str:
    rule = f", update {config.update}, H = {config.hurst:g}" if config.architecture == "frost" else ""
    things = "problems" if config.backbone in DIMENSIONS else "images"
    return (f"{name} · {'×'.join(map(str, config.input_shape))} {things} · "
            f"{config.classes} classes · depth {config.depth}{rule}")


def _with_head(name: str) -> bool:
    """Whether the paper's count, as far as it can be derived, includes C and D."""
    return name.startswith(("frost", "basic-ssm"))
