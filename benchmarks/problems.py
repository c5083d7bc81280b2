"""Sums and mazes, seeds 0 to 2: adaptive depth against fixed depth, and against models trained at a fixed depth.

    python benchmarks/problems.py --out DIR [--only addition] [--seeds 0 1 2]

Trains the recipes `addition` and `mazes`, and beside each a model of the same block that is trained at the depth that
the adaptive rule takes for full quality less half a point, rounded up, for as many steps of the block in all: its last
step alone is supervised, and it has as many more epochs as its steps are fewer. Runs that are in DIR are not trained
again. Prints a table, and writes docs/results/problems.json; an hour on one core (OMP_NUM_THREADS=1), half of it for
the models of fixed depth.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from frost.commands import evaluate
from frost.evaluation.frontier import LOSSES
from frost.evaluation.halting_table import EIGHTHS
from frost.recipes import recipe
from frost.report.tables import percent, table
from frost.training.run import train
from frost.training.settings import RunConfig

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "problems.json"
NAMES = ("addition", "mazes")
RULES = ("rank", "rank-per-step", "confidence", "confidence-per-step", "margin", "margin-per-step", "entropy",
         "entropy-per-step", "patience", "residual")


def fixed(run: RunConfig, depth: int) -> RunConfig:
    """The same block trained at one depth for as many steps of the block in sum."""
    least, most = run.train.min_depth, run.model.depth
    epochs = round(run.train.epochs * (least + most) / 2 / depth)
    return replace(run, model=replace(run.model, depth=depth),
                   train=replace(run.train, epochs=epochs, depth_schedule="full", min_depth=0, supervision="last"))


def changed(config: RunConfig) -> list[str]:
    """What `--set` must say to make this of the recipe."""
    plain = recipe(config.recipe)
    return [f"{group}.{name}={value}" for group in ("model", "train")
            for name, value in asdict(getattr(config, group)).items()
            if value != asdict(getattr(plain, group))[name]]


def measured(config: RunConfig, folder: Path, rules: tuple[str, ...] | None) -> dict[str, Any]:
    """Train unless it is there, and measure on the test problems."""
    changes = changed(config)
    command = ("frost", "train", config.recipe, *(("--set", *changes) if changes else ()))
    done = train(config, folder, resume=True, command=command)
    numbers = evaluate.as_json(evaluate.evaluate_run(folder, quantiles=EIGHTHS, policies=rules, others=()))
    for point in (*numbers["frontier"], *numbers["needed"]):
        point["run"] = folder.name    # not where it lies on this machine
    kept = ("depth", "images", "per_step_accuracy", "budgets", "needed", "beyond", "at_fraction", "oracle")
    return {"seed": config.train.seed, "training_seconds": done.origin["seconds"],
            **{name: numbers[name] for name in kept if name in numbers},
            "frontier": [point for point in numbers["frontier"] if point["kind"] == "adaptive"]}


def main() -> None:
    """Train, measure, print and keep."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--out", type=Path, required=True, metavar="DIR")
    words.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES))
    words.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = words.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in options.only:
        runs: list[dict[str, Any]] = []
        rivals: list[dict[str, Any]] = []
        configs = [replace(recipe(name), train=replace(recipe(name).train, seed=seed)) for seed in options.seeds]
        for config in configs:
            runs.append(measured(config, options.out / f"{name}-{config.train.seed}", RULES))
        for config, run in zip(configs, runs, strict=True):
            depth = math.ceil(next(one for one in run["needed"] if one["loss"] == LOSSES[0])["adaptive_depth"])
            out = options.out / f"{name}-depth-{depth}-{config.train.seed}"
            rivals.append(measured(fixed(config, depth), out, None))
        results[name] = {"runs": runs, "trained_at_fixed_depth": rivals}
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        print(text(name, results[name]), flush=True)


def text(name: str, found: dict[str, Any]) -> str:
    """One line a seed."""
    rows = []
    for run, rival in zip(found["runs"], found["trained_at_fixed_depth"], strict=True):
        need = next(one for one in run["needed"] if one["loss"] == LOSSES[0])
        rows.append([str(run["seed"]), percent(run["per_step_accuracy"][-1]), f"{need['adaptive_depth']:.2f}",
                     f"{need['fixed_depth']:.2f}", f"{need['adaptive_depth'] / need['fixed_depth']:.2f}",
                     f"{percent(rival['per_step_accuracy'][-1])} at {rival['depth']}"])
    header = ["seed", "full depth", "adaptive", "fixed", "ratio", "trained at fixed depth"]
    return "\n".join([name, table(header, rows)])


if __name__ == "__main__":
    main()
