"""NaN in one process, and going on bit for bit (F08, F09), with one process and with two.

    python campaigns/exactness.py [--only F08 …]       # `make campaigns`

F08 puts NaN or infinity into a layer of one process; the control goes on without looking. F09 stops a training in the
middle or at the end of an epoch and goes on: every tensor and every line must be those of the run that was not stopped;
the control forgets the optimizer. Figures go to docs/results/campaigns.json.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
from itertools import product
from pathlib import Path

from groups import Group, is_same, lines, wait_until, words
from hostile_data import record
from safetensors.torch import load_file

from frost.checkpoint import newest

POISON = """
import json, os, sys
import torch
from frost import cli
from frost.training import loop
from frost.training import runner
step, place, rank, value = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
real = loop._train_step

def poisoned(training, *arguments):
    handles, called = [], []

    def hook(module, inputs, output):
        called.append(module)
        return output * value if len(called) == place else None

    if training.step + 1 == step and training.team.rank == rank:
        handles = [part.register_forward_hook(hook) for part in training.model.modules()
                   if not list(part.children()) and any(True for _ in part.parameters())]
    try:
        return real(training, *arguments)
    finally:
        assert not handles or len(called) >= place, "no layer was called so often"
        for handle in handles:
            handle.remove()

loop._train_step = poisoned
if os.environ.get("FROST_BLIND"):
    loop.is_finite = lambda loss: True
    loop.torch.isfinite = lambda tensor: torch.ones_like(tensor, dtype=torch.bool)
    runner.check_finite = lambda record, learning_rate: None
    strict = json.dumps
    json.dumps = lambda *values, **named: strict(*values, **{**named, "allow_nan": True})
sys.exit(cli.main(sys.argv[5:]))
"""


def poison(count: int, seed: int) -> int:
    """F08."""
    generator = random.Random(seed)
    failures = blind = 0
    controls = 3
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count + controls):
            out, processes = Path(folder) / str(number), 1 + number % 2
            step, place = generator.randint(2, 9), generator.randint(1, 24)    # of 18 steps, or of 10 by two processes
            value, rank = generator.choice(["nan", "inf", "-inf"]), generator.randrange(processes)
            is_control = number >= count
            what = (str(step), str(place), str(rank), value)
            group = Group(words(out, "train.save_every=1"), processes, POISON, what,
                          {"FROST_BLIND": "1"} if is_control else {})
            statuses = group.wait(120)
            last = newest(out / "checkpoints")
            stored = {} if last is None else load_file(last / "weights.safetensors")
            is_clean = all(tensor.isfinite().all() for tensor in stored.values())
            if is_control:
                blind += not is_clean or statuses == [0] * processes
                continue
            fault = []
            if statuses != [2] * processes:
                fault.append(f"statuses {statuses}")
            if len(lines(out)) != step - 1:
                fault.append(f"{len(lines(out))} steps in the logbook, not {step - 1}")
            if not is_clean:
                fault.append("a checkpoint is not finite")
            if f"step {step}" not in group.complaints[0]:
                fault.append(f"does not name the step: {group.complaints[0][-150:]!r}")
            failures += bool(fault)
            if fault:
                print(f"FAILURE {value} in call {place} of process {rank} of {processes}: {'; '.join(fault)}")
    print(f"F08: {count} poisoned steps, {failures} with a fault; control that does not look: {blind} of {controls} "
          "went on")
    record("F08", {"n": count, "seed": seed, "failures": failures,
                   "control": {"a loop that does not look": {"n": controls, "went on": blind}}})
    return int(bool(failures) or not blind)


def resumes(seed: int) -> int:
    """F09."""
    tried = failures = 0
    kinds = {"conv": (), "vit": ("model.backbone=vit", "model.channels=32", "model.patch=2",
                                 "model.heads=4", "model.depth=4")}
    with tempfile.TemporaryDirectory() as folder:
        for kind, processes, workers in product(kinds, (1, 2), (0, 2)):
            settings = (*kinds[kind], f"train.workers={workers}", "train.save_every=1", "train.average=0.99")
            whole = Path(folder) / f"whole-{kind}-{processes}-{workers}"
            Group(words(whole, *settings), processes).wait()
            half = 9 if processes == 1 else 5
            for stop in (half // 2, half):           # in the middle of the first epoch, and at its end
                out = Path(folder) / f"{kind}-{processes}-{workers}-{stop}"
                group = Group(words(out, *settings), processes)
                wait_until(lambda: len(lines(out)) >= stop, group)  # noqa: B023
                group.send(signal.SIGTERM)
                group.wait(60)
                Group(words(out, *settings, resume=True), processes).wait()
                last = [newest(run / "checkpoints") for run in (whole, out)]
                same = None not in last and _same_tensors(*(path / "training.safetensors" for path in last if path))
                is_fine = bool(same) and is_same(out, whole)
                tried += 1
                failures += not is_fine
                if not is_fine:
                    print(f"FAILURE {kind}, {processes} processes, {workers} threads, stopped at {stop}")
        differs = _forgetful(Path(folder))
    print(f"F09: {tried} trainings stopped and gone on with, {failures} not bit for bit; control that forgets the "
          f"optimizer {'differs' if differs else 'does not differ'}")
    record("F09", {"n": tried, "seed": seed, "failures": failures, "control": {"forgets the optimizer":
                                                                               {"differs": differs}}})
    return int(bool(failures) or not differs)


def _same_tensors(first: Path, second: Path) -> bool:
    ours, theirs = load_file(first), load_file(second)
    return ours.keys() == theirs.keys() and all(ours[name].equal(theirs[name]) for name in ours)


def _forgetful(folder: Path) -> bool:
    """The control: weights come back, the optimizer's memory does not."""
    code = """
import sys
from frost import cli
from frost.training import snapshot
real = snapshot._fill
snapshot._fill = lambda training, tensors: real(training, {name: tensor for name, tensor in tensors.items()
                                                           if not name.startswith("optimizer.")})
sys.exit(cli.main(sys.argv[1:]))
"""
    whole, out = folder / "whole-conv-1-0", folder / "forgetful"
    settings = ("train.workers=0", "train.save_every=1", "train.average=0.99")
    group = Group(words(out, *settings), 1)
    wait_until(lambda: len(lines(out)) >= 4, group)
    group.send(signal.SIGTERM)
    group.wait(60)
    Group(words(out, *settings, resume=True), 1, code).wait()
    return not is_same(out, whole)


def main() -> int:
    """Status 1 if one fails, or if a control does not."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=("F08", "F09"), default=("F08", "F09"))
    options = parser.parse_args()
    random.seed(options.seed)
    campaigns = {"F08": lambda: poison(20, options.seed), "F09": lambda: resumes(options.seed)}
    return max([campaigns[name]() for name in options.only])


if __name__ == "__main__":
    sys.exit(main())
