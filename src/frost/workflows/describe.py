"""`frost describe MODEL`: parameters and FLOPs, counted by running, beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from frost.analysis.complexity import Complexity, measure
from frost.analysis.published import TABLE_3, PublishedComplexity
from frost.config import override
from frost.report.tables import si, table
from frost.zoo.registry import ModelConfig, build, named


def describe(name: str, assignments: Sequence[str]) -> tuple[Complexity, PublishedComplexity | None, ModelConfig]:
    """Count a named model, with fields changed by `model.depth=8` or `depth=8`; and the paper's figures for it."""
    original = named(name)
    config = override(original, assignments, where="model")
    with torch.device("meta"):
        model = build(config)
    is_the_papers = replace(config, rule=original.rule, gate=original.gate) == original
    ours = measure(model, config.image_channels, config.image_size)
    return ours, TABLE_3.get(name) if is_the_papers else None, config


def as_json(name: str, ours: Complexity, paper: PublishedComplexity | None) -> dict[str, Any]:
    """One object with the paper's figure beside ours where it has one."""
    theirs = None if paper is None else {
        "parameters": paper.parameters, "mean_depth": paper.mean_depth, "flops_at_mean_depth": paper.flops,
        "flops_full_depth": paper.flops * ours.depth / paper.mean_depth}
    return {"model": name, **ours._asdict(), "paper": theirs}


def as_text(name: str, ours: Complexity, paper: PublishedComplexity | None, config: ModelConfig) -> str:
    """The same as a table."""
    rule = f", rule {config.rule}, H = {config.hurst:g}" if config.architecture == "frost" else ""
    title = (f"{name} · {config.image_channels}×{config.image_size}×{config.image_size} images · "
             f"{config.classes} classes · depth {ours.depth}{rule}")
    rows = [["parameters", si(ours.parameters), si(paper.parameters) if paper and _with_head(name) else ""],
            ["parameters without the head", si(ours.parameters_without_head),
             si(paper.parameters) if paper and not _with_head(name) else ""],
            ["FLOPs once per image", si(ours.flops_once), ""],
            ["FLOPs per step", si(ours.flops_per_step), ""],
            ["FLOPs at full depth", si(ours.flops_full_depth),
             si(paper.flops * ours.depth / paper.mean_depth) if paper else ""],
            ["  with the first step cached", si(ours.flops_full_depth_cached), ""]]
    notes = ["A multiply-add is 2 FLOPs; the head is C, D and the score."]
    if paper and paper.mean_depth != ours.depth:
        notes.append(f"The paper's {si(paper.flops)} at its mean depth of {paper.mean_depth} is scaled to {ours.depth} "
                     "steps.")
    return "\n".join([title, "", table(["", "ours", "paper"], rows), "", *notes])


def _with_head(name: str) -> bool:
    """Whether the paper's count, as far as it can be derived, includes C and D."""
    return name.startswith(("frost", "basic-ssm"))
