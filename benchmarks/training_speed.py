"""How fast and how large a training step is, beside the plain loop.

    python benchmarks/training_speed.py --data DIR     # some minutes on idle cores; docs/results/training-speed.json

The plain loop is the textbook: eager float32, every step applies A to the whole batch, the state is normalised map by
map and then pooled, the standardised kernels are made anew at every use, the optimizer goes tensor by tensor. Ours is
`training.loop`. The model is that of `cifar100-cpu` with T = 8, trained by AdamW on plain images. Both start from the
same weights and see the same batches; they take turns within one process, and the best round of each counts. That they
compute the same is checked in double precision; the validation losses after the timed steps stand beside it. Memory is
the growth of a process's largest size in one step, with and without checkpointing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from frost.checkpoint import load
from frost.core.layout import pool
from frost.core.model import Frost
from frost.core.trajectory import Trajectory
from frost.data.augment import Augmentation
from frost.data.splits import Split
from frost.evaluation.datasets import data_of
from frost.recipes import recipe
from frost.training.loop import CLIP, Training, _train_step
from frost.training.losses import objective, step_losses
from frost.training.optim import begin_ema, learning_rate_at, parameter_groups
from frost.training.sources import Batch
from frost.zoo.registry import build
from frost.zoo.resnet import StandardConv2d

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "training-speed.json"
STEPS, ROUNDS = 6, 3
RUN = recipe("cifar100-cpu")
MODEL = replace(RUN.model, depth=8)
PLAIN = replace(RUN.train, optimizer="adamw", depth_schedule="full", min_depth=0,
                augment=Augmentation())                   # the same images and the same steps for both


def plain_trajectory(model: Frost, images: Tensor) -> Trajectory:
    """Unroll by the book: nothing is shared between steps, nothing is known of the first one."""
    x = model.stem(images)
    scale = model.scale
    hidden = torch.zeros_like(x)
    outputs, scores = [], []
    for _ in range(model.depth):
        for part in model.transition.modules():
            if isinstance(part, StandardConv2d):
                part._frozen.clear()
        drive = scale.power(1 + scale.hurst) * model.input_map(x)
        hidden = hidden + scale.value * model.transition(hidden) + drive
        features = pool(model.norm(hidden), 1)
        output = scale.power(-scale.hurst) * model.head.readout(features) + model.head.feedthrough(pool(x, 1))
        outputs.append(output)
        scores.append(model.head.score_logit(features, output, isolate=RUN.halting.stop_gradient))
    return Trajectory(None, torch.stack(outputs, dim=1), torch.stack(scores, dim=1), RUN.halting.stop_gradient)


class PlainLoop:
    """The textbook's training."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        self.model = build(MODEL, seed=0).to(dtype)
        assert isinstance(self.model, Frost)
        self.model.train()
        self.ema = begin_ema(self.model)
        groups = parameter_groups(self.model, PLAIN.weight_decay)
        self.optimizer = torch.optim.AdamW(groups, lr=PLAIN.learning_rate, foreach=False)
        self.step = 0

    def take(self, data: Split, rows: Tensor) -> float:
        """One step."""
        self.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate_at(self.step, 1000, 50, PLAIN.learning_rate)
        assert isinstance(self.model, Frost)
        trajectory = plain_trajectory(self.model, data.batch(rows))
        loss = objective(trajectory, data.labels[rows], RUN.halting, label_smoothing=PLAIN.label_smoothing,
                         supervision=PLAIN.supervision)
        self.optimizer.zero_grad()
        loss.total.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP, foreach=False)
        self.optimizer.step()
        with torch.no_grad():
            for ours, theirs in zip(self.ema.state_dict().values(), self.model.state_dict().values(), strict=True):
                if ours.is_floating_point():
                    ours.lerp_(theirs, 0.002)
        return loss.total.item()


class OurLoop:
    """`training.loop`."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        self.model = build(MODEL, seed=0).to(dtype)
        self.model.train()
        self.training = Training.begin(self.model, PLAIN)

    def take(self, data: Split, rows: Tensor) -> float:
        """One step."""
        batch = Batch(data.batch(rows), data.labels[rows], slice(0, len(rows)), "these images")
        record, _ = _train_step(self.training, batch, replace(PLAIN, warmup=0.05), RUN.halting, self.model.task, 1000,
                                1)
        return record.loss


def apart(data: Split) -> float:
    """The largest difference of the losses of the first steps, in double precision.

    In float32 the two drift apart after a few steps, as any two trainings do whose last bits differ: a pair more or
    less is ranked hard, and Adam's first steps have the size of the learning rate however small a gradient is.
    """
    exact = Split(data.images[:64].double(), data.labels[:64])
    loops = PlainLoop(torch.double), OurLoop(torch.double)
    rows = torch.arange(64).split(16)
    return max(abs(first - second) for first, second in zip(*([loop.take(exact, some) for some in rows]
                                                              for loop in loops), strict=True))


def speed(data: Split, held_out: Split, rounds: int) -> dict[str, Any]:
    """Images per second of both, and that they learn the same."""
    loops = {"plain": PlainLoop(), "ours": OurLoop()}
    best = dict.fromkeys(loops, float("inf"))
    for number in range(rounds + 1):                    # the first round warms up
        for name, loop in loops.items():
            started = time.perf_counter()
            for step in range(STEPS):
                first = (number * STEPS + step) * PLAIN.batch % (len(data) - PLAIN.batch)
                loop.take(data, torch.arange(first, first + PLAIN.batch))
            if number:
                best[name] = min(best[name], (time.perf_counter() - started) / STEPS)
    validation = {}
    for name, loop in loops.items():
        loop.model.eval()
        with torch.no_grad():
            outputs = loop.model(held_out.batch(torch.arange(len(held_out))), keep_states=False).outputs
        validation[name] = step_losses(outputs, held_out.labels).mean().item()
    rates = {name: PLAIN.batch / seconds for name, seconds in best.items()}
    return {"images_per_second": rates, "ratio": rates["ours"] / rates["plain"], "steps": STEPS * (rounds + 1),
            "validation_loss": validation, "loss_difference_in_double": apart(data)}


PEAK = """
import sys
from dataclasses import replace
import torch
from frost.recipes import recipe
from frost.training.memory import unroll
from frost.zoo.registry import build
depth, checkpointing = int(sys.argv[1]), sys.argv[2] == "True"
model = build(replace(recipe("cifar100-cpu").model, depth=depth), seed=0).train()

def step(images):
    trajectory = unroll(model, images, depth, False) if checkpointing else model(images, depth=depth, keep_states=False)
    trajectory.outputs.sum().backward()

def size(name):
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines[name].split()[0])

step(torch.rand(2, 3, 32, 32))                       # what is loaded and allocated once
images = torch.rand(256, 3, 32, 32)
open("/proc/self/clear_refs", "w").write("5")        # the largest size is counted from here
before = size("VmRSS")
step(images)
print(size("VmHWM") - before)
"""


def peak_mb(depth: int, checkpointing: bool) -> float:
    """By how much one step on 256 images raises the largest size of a process, forward and backward; MB."""
    frugal = {"MALLOC_MMAP_THRESHOLD_": "100000", "MALLOC_TRIM_THRESHOLD_": "0"}    # what is freed does not count
    printed = subprocess.run([sys.executable, "-c", PEAK, str(depth), str(checkpointing)], capture_output=True,
                             text=True, check=True, env={**os.environ, **frugal}).stdout
    return int(printed) / 2**10


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    images = data_of(load("cifar100-cpu", with_calibration=False), options.data, download=False)
    data, held_out = (Split(part.batch(torch.arange(count)), part.labels[:count])
                      for part, count in ((images.train, 64 * 30), (images.validation, 1000)))
    result = {"command": "python benchmarks/training_speed.py --data DIR", "threads": torch.get_num_threads(),
              **speed(data, held_out, options.rounds),
              "peak_mb": {f"T={depth}{', checkpointing' if again else ''}": peak_mb(depth, again)
                          for depth in (8, 32) for again in (False, True)}}
    peak = result["peak_mb"]
    result["memory_ratio"] = peak["T=32, checkpointing"] / peak["T=8, checkpointing"]
    print(json.dumps(result, indent=1))
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
