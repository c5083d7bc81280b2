"""What else could be trained in the same minutes: FROST, FROST at half the depth, Vanilla, Recurrent, a ResNet-20.

    python benchmarks/equal_time.py --data DIR --out DIR [--minutes 4] [--seeds 0 1 2]

Everything is trained for the same time on one core, with the recipe `cifar100-cpu` (Muon, label smoothing, flips and
shifts; no mixing, which is for long trainings) and the updates that the time allows: what an update takes is measured
first, all candidates in turns, so that a noisy machine changes nothing between them. FROST's depth grows as in the
recipe; Vanilla has an exit after each block. Half the depth is rounded up. Thresholds come from the validation images,
numbers from the test images. What is in --out is not trained again. Prints the table and writes
docs/results/equal-time.json; an hour and a quarter on one core.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import t as student
from torch import Tensor, nn

import frost
from frost.core.head import Classifier
from frost.core.layout import pool
from frost.core.trajectory import IterativeModel, State, evaluating
from frost.data.augment import augmented
from frost.data.catalogue import load
from frost.data.splits import Images, labelled
from frost.evaluation.calibrating import cost_of
from frost.evaluation.complexity import measure
from frost.evaluation.traces import trace
from frost.halting.cost import Cost
from frost.halting.threshold_fit import stops_at
from frost.recipes import recipe
from frost.report.tables import percent, table
from frost.training.loop import Training, go_on
from frost.training.sources import LoaderSource
from frost.zoo.registry import build

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "equal-time.json"
RUN = recipe("cifar100-cpu")
AUGMENT = replace(RUN.train.augment, mix="none")
HALF = -(-RUN.model.depth // 2)
SLACK = 0.02             # of the budget, by which the mean over test images may be above that over validation images
ROUNDS, TIMED = 5, 20    # turns in which the time of an update is taken, the best one counts; updates in a turn


class ResNet20(IterativeModel):
    """He et al., 2016: three stages of three basic blocks with 16, 32 and 64 channels; one exit."""

    stationary = False
    has_score = False

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.depth = 1
        widths = [16] * 4 + [32] * 3 + [64] * 3
        self.first = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.blocks = nn.ModuleList(Block(before, after) for before, after in pairwise(widths))
        self.readout = nn.Linear(64, classes)
        self.task = Classifier.task
        self.expects(torch.zeros(3, 32, 32))

    def _begin(self, inputs: Any) -> State:
        hidden = self.first((inputs - 0.5) * 4.0)
        for block in self.blocks:
            hidden = block(hidden)
        return State(hidden, None, None, 0)

    def step(self, state: State) -> State:
        """Nothing is iterated."""
        return state._replace(step=1)

    def read(self, state: State, isolate_score: bool = False) -> tuple[Tensor, Tensor]:
        """Global average pooling and a linear map."""
        output = self.readout(pool(state.hidden, 1))
        return output, output.new_zeros(len(output))


class Block(nn.Module):
    """Two 3×3 convolutions; where the size is halved, the skip takes every second pixel and pads channels."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.stride = 1 if before == after else 2
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride=self.stride, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, padding=1, bias=False), nn.BatchNorm2d(after))
        self.more = after - before

    def forward(self, hidden: Tensor) -> Tensor:
        """ReLU(F(h) + h)."""
        skip = F.pad(hidden[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.more))
        return torch.relu(self.body(hidden) + skip)


def candidates() -> dict[str, Any]:
    """Name → how to make it from a seed."""
    return {"FROST": lambda seed: build(RUN.model, seed),
            f"FROST trained at T = {HALF}": lambda seed: build(replace(RUN.model, depth=HALF), seed),
            "Vanilla, an exit a block": lambda seed: build(replace(RUN.model, architecture="vanilla"), seed),
            "Recurrent": lambda seed: build(replace(RUN.model, architecture="recurrent"), seed),
            "ResNet-20": _resnet20}


def _resnet20(seed: int) -> IterativeModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ResNet20(RUN.model.classes)


def batches(data: Images, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Shuffled and augmented, without end."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        for rows in torch.randperm(len(data), generator=generator).split(RUN.train.batch)[:-1]:
            images, _ = augmented(data.batch(rows), data.labels[rows], AUGMENT, generator)
            yield images, data.labels[rows]


def trained(name: str, seed: int, data: Images, steps: int) -> tuple[IterativeModel, float]:
    """A candidate after so many updates, and the seconds that they took."""
    halting = replace(RUN.halting, relative_weight=0.0, anchoring_weight=0.0, rank_by="loss")    # no score is used here
    config = replace(RUN.train, epochs=1, seed=seed)
    if name != "FROST":
        config = replace(config, depth_schedule="full", min_depth=0)
    training = Training.begin(candidates()[name](seed), config)
    source = LoaderSource(batches(data, seed), seed, steps)
    started = time.monotonic()
    for _ in go_on(training, source, config, halting):
        pass
    return training.result, time.monotonic() - started


def updates_in(minutes: float, data: Images, out: Path) -> dict[str, int]:
    """How many updates of each candidate fit the time; measured once, in turns, and kept in a file."""
    file = out / "updates.json"
    if not file.exists():
        turns = [{name: trained(name, 0, data, TIMED)[1] / TIMED for name in candidates()} for _ in range(ROUNDS)]
        found = {name: int(60 * minutes / min(turn[name] for turn in turns)) for name in candidates()}
        out.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"minutes": minutes, "updates": found}, indent=1) + "\n")
    kept = json.loads(file.read_text())
    if kept["minutes"] != minutes:
        raise SystemExit(f"{out} holds trainings of {kept['minutes']:g} minutes; take another --out for {minutes:g}.")
    return {name: int(count) for name, count in kept["updates"].items()}


def unit(name: str, seed: int, data: Any, steps: int, out: Path) -> dict[str, Any]:
    """Train one candidate and measure it; kept in a file."""
    slug = "".join(letter if letter.isalnum() else "-" for letter in name.lower())
    file = out / f"{slug}-{seed}.npz"
    if not file.exists():
        model, seconds = trained(name, seed, data.train, steps)
        cost = cost_of(measure(model)) if not isinstance(model, ResNet20) else _whole(model)
        held_out = frost.calibrate(model, list(labelled(data.validation)), None if model.depth > 1 else "confidence",
                                   is_shown=False)
        with evaluating(model):
            now = trace(model, labelled(data.test), list(held_out.signals))
        target = min(max(1 + (half_flops() - cost.at(1)) / max(cost.step, 1), 1.0), model.depth)
        rule = held_out.at_mean_depth(target)
        depths = stops_at(now.signals[rule.name].numpy().astype(np.float32), rule.thresholds)
        np.savez(file, quality=now.quality.numpy().astype(np.float32), depths=depths, cost=np.array(cost),
                 steps=steps, seconds=seconds, parameters=sum(part.numel() for part in model.parameters()))
        print(f"{name}, seed {seed}: {steps} steps, {100 * now.quality[:, -1].mean():.2f} %", flush=True)
    with np.load(file) as found:
        return {key: found[key] for key in found.files}


def _whole(model: IterativeModel) -> Cost:
    complexity = measure(model)
    return Cost(complexity.flops_full_depth, 0, 0)


def half_flops() -> float:
    """What FROST trained at half the depth costs an image: the budget of the comparison."""
    return cost_of(measure(build(replace(RUN.model, depth=HALF), 0))).at(HALF)


def at_half(found: dict[str, Any]) -> np.ndarray | None:
    """Right or wrong for each test image at the budget of the comparison; None for a model that costs more."""
    if Cost(*found["cost"].tolist()).at(found["depths"].mean()) > (1 + SLACK) * half_flops():
        return None
    right: np.ndarray = found["quality"][np.arange(len(found["quality"])), found["depths"] - 1]
    return right


def main() -> None:
    """Train, measure, print and keep."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--data", type=Path, required=True, metavar="DIR")
    words.add_argument("--out", type=Path, required=True, metavar="DIR")
    words.add_argument("--minutes", type=float, default=4.0)
    words.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = words.parse_args()
    torch.set_num_threads(1)
    data = load("cifar100", options.data)
    updates = updates_in(options.minutes, data.train, options.out)
    found = {name: [] for name in candidates()}    # type: dict[str, list[dict[str, Any]]]
    for name in candidates():
        for seed in options.seeds:
            found[name].append(unit(name, seed, data, updates[name], options.out))
    names = list(found)
    half = half_flops()
    rows, kept = [], []
    for name, runs in found.items():
        there = [at_half(run) for run in runs]
        points = [100 * float(right.mean()) for right in there if right is not None]
        full = [100 * float(run["quality"][:, -1].mean()) for run in runs]
        cost = Cost(*runs[0]["cost"].tolist())
        flops = cost.at(runs[0]["quality"].shape[1])
        kept.append({"name": name, "at_half_depth_flops": points, "full": full, "full_flops": flops,
                     "steps": [int(run["steps"]) for run in runs], "parameters": int(runs[0]["parameters"])})
        rows.append([name, _mean(points), _mean(full), f"{flops / 1e6:.1f}", f"{runs[0]['parameters'] / 1e6:.2f} M"])
    gaps = difference(found[names[0]], found[names[1]])
    RESULTS.write_text(json.dumps({"minutes": options.minutes, "seeds": options.seeds, "half_depth_flops": half,
                                   "rows": kept, "adaptive_less_trained_at_half": gaps}, indent=1) + "\n")
    print(table(["", f"at {half / 1e6:.1f} MFLOP", "at full depth", "MFLOP there", "parameters"], rows))
    print(f"Adaptive FROST less FROST trained at half the depth, at equal FLOPs: {gaps['value']:+.2f} points "
          f"[{gaps['low']:+.2f}, {gaps['high']:+.2f}], {options.minutes:g} minutes each, seeds {options.seeds}.")


def difference(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> dict[str, float]:
    """Points that one is ahead of the other at equal FLOPs: the mean over seeds, with Student's interval over them."""
    gaps = np.array([100 * float(_known(at_half(one)).mean() - _known(at_half(other)).mean())
                     for one, other in zip(ours, theirs, strict=True)])
    reach = float(student.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / len(gaps) ** 0.5) if len(gaps) > 1 else np.inf
    return {"value": float(gaps.mean()), "low": float(gaps.mean() - reach), "high": float(gaps.mean() + reach)}


def _known(right: np.ndarray | None) -> np.ndarray:
    assert right is not None
    return right.astype(np.float64)


def _mean(values: list[float]) -> str:
    if not values:
        return "cannot"
    spread = f" ±{np.std(values, ddof=1) / len(values) ** 0.5:.2f}" if len(values) > 1 else ""
    return f"{percent(float(np.mean(values)) / 100)}{spread}"


if __name__ == "__main__":
    main()
