"""What a score would gain that sees the past: the output's change, agreement over steps, the length of a step.

    python benchmarks/history.py --run RUN [--data DIR]

For each input and step before T a regression is fitted to what going on would still win (quality at T less quality
now), with a column for each step and feature; its prediction is used as a signal with a threshold for each step. Half
of the validation inputs fits regression and thresholds, the other half is measured, both ways round, three splits.
Beside it the best rule without fitting, and a forest of trees that sees everything. No test input is read.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge

from frost.checkpoint import load
from frost.core.trajectory import evaluating
from frost.data.splits import labelled
from frost.evaluation.datasets import data_of
from frost.evaluation.traces import Traces
from frost.halting.rule_choice import gain_of
from frost.halting.signals import SIGNALS, along
from frost.halting.threshold_fit import per_step_at_mean_depth, stops_at
from frost.report.progress import progress
from frost.report.tables import table

ROOT = Path(__file__).resolve().parent.parent
FRACTIONS = (0.35, 0.5, 0.75)
NOW = ("rank", "margin", "confidence", "entropy")
PAST = ("patience", "change", "shift", "swing")
SPLITS = 3


def gathered(run: object, data: object) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Signals of now and of the past, (n, t) each, and the quality."""
    parts: list[dict[str, torch.Tensor]] = []
    with progress("running", len(data.validation)) as report, evaluating(run.model):
        for inputs, targets in labelled(data.validation):
            whole = run.model(inputs)
            found = {name: along(SIGNALS[name], whole.outputs, whole.score_logits, whole.states)
                     for name in (*NOW, "patience", "change")}
            chances = whole.outputs.softmax(dim=-1)
            moved = (chances[:, 1:] - chances[:, :-1]).abs().sum(dim=-1)
            moved = moved if moved.ndim == 2 else moved.flatten(2).amax(dim=2)
            found["shift"] = -torch.cat([torch.full_like(moved[:, :1], 2.0), moved], dim=1)    # of the output
            margin = found["margin"]
            found["swing"] = torch.cat([torch.zeros_like(margin[:, :1]), margin[:, 1:] - margin[:, :-1]], dim=1)
            found["quality"] = Traces.of(whole.outputs, targets, {}, run.model.task).quality
            parts.append(found)
            report(sum(len(part["quality"]) for part in parts), "")
    whole = {name: torch.cat([part[name] for part in parts]).double().numpy() for name in parts[0]}
    return {name: np.nan_to_num(values, neginf=-10.0) for name, values in whole.items() if name != "quality"}, \
        whole["quality"]


def _as_it_is(values: np.ndarray, _: np.ndarray) -> np.ndarray:
    return values.astype(np.float32)


def predicted(names: tuple[str, ...], signals: dict[str, np.ndarray], quality: np.ndarray, trees: bool,
              then: np.ndarray) -> np.ndarray:
    """What is not left to win, (n, t), by a model of `then`; a model of its own for each step."""
    columns = np.stack([signals[name] for name in names], axis=-1)
    value = np.zeros(quality.shape)
    for step in range(quality.shape[1] - 1):
        left = quality[:, -1] - quality[:, step]
        model = (HistGradientBoostingRegressor(max_iter=100, learning_rate=0.05, max_leaf_nodes=8, min_samples_leaf=100,
                                               random_state=0) if trees else Ridge(alpha=1.0))
        scale = columns[then, step].std(axis=0) + 1e-9
        model.fit(columns[then, step] / scale, left[then])
        value[:, step] = -model.predict(columns[:, step] / scale)
    return value.astype(np.float32)


def gains(make: object, quality: np.ndarray) -> list[float]:
    """Points above fixed depth at each fraction, on inputs that neither fit nor thresholds have seen."""
    total = np.zeros(len(FRACTIONS))
    for split in range(SPLITS):
        half = np.random.default_rng(split).permutation(len(quality)) % 2 == 0
        for then, now in ((half, ~half), (~half, half)):
            values = make(then)
            for place, fraction in enumerate(FRACTIONS):
                target = max(1.0, fraction * quality.shape[1])
                reached = per_step_at_mean_depth(values[then], quality[then], target)
                total[place] += gain_of(stops_at(values[now], reached.thresholds), quality[now]).value
    return (100 * total / (2 * SPLITS)).round(2).tolist()


def main() -> None:
    """Fit, print and keep."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--run", nargs="+", default=["cifar100-cpu", "mazes", "addition", "digits"])
    words.add_argument("--data", type=Path)
    options = words.parse_args()
    results = {}
    for name in options.run:
        run = load(name)
        signals, quality = gathered(run, data_of(run, options.data, download=False))
        rows = {f"{signal}, a threshold a step": gains(partial(_as_it_is, signals[signal]), quality) for signal in NOW}
        for title, names, trees in (("regression on the present", NOW, False), ("with the past", NOW + PAST, False),
                                    ("trees on the present", NOW, True), ("trees with the past", NOW + PAST, True)):
            rows[title] = gains(partial(predicted, names, signals, quality, trees), quality)
        results[name] = rows
        print(table([name, *(f"{100 * fraction:.0f} %" for fraction in FRACTIONS)],
                    [[title, *(f"{gain:+.2f}" for gain in found)] for title, found in rows.items()]), flush=True)
    (ROOT / "docs" / "results" / "history.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
