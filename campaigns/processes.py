"""Signals, dead and frozen processes, NaN, and going on bit for bit (F03, F04, F08, F09), with one process and two.

    python campaigns/processes.py [--only F03 …]       # `make campaigns`

All of them run `frost train digits` as real processes, as a user would. F03 sends SIGINT or SIGTERM inside a step, a
validation or a save. F04 kills or freezes one of two; the control has no timeout and waits. F08 puts NaN or infinity
into a layer of one process; the control goes on without looking. F09 stops a training in the middle or at the end of an
epoch and goes on: every tensor and every line must be those of the run that was not stopped; the control forgets the
optimizer. Figures go to docs/results/campaigns.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

from hostile_data import record
from safetensors.torch import load_file

from frost.checkpoint import newest

TIMEOUT = 8.0         # seconds that a process waits for another, in F04
SLOWLY = """
import os, sys, time
from frost import cli
from frost.training import snapshot
from frost.workflows import train
place, folder = os.environ["FROST_PLACE"], os.environ["FROST_MARK"]

def slow(real):
    def slowed(*arguments, **named):
        if not os.environ.get("RANK", "0").strip("0"):
            open(folder, "w").close()
        time.sleep(1.0)
        return real(*arguments, **named)
    return slowed

if place == "save":
    train.save_snapshot = slow(snapshot.save_snapshot)
elif place == "evaluation":
    train.run_shared = slow(train.run_shared)
sys.exit(cli.main(sys.argv[1:]))
"""
POISON = """
import os, sys
import torch
from frost import cli
from frost.training import loop
step, layer, rank, value = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
real = loop._train_step

def poisoned(training, *arguments):
    handle = None
    if training.step + 1 == step and training.team.rank == rank:
        parts = [part for part in training.model.modules() if not list(part.children())
                 and any(True for _ in part.parameters())]
        handle = parts[layer % len(parts)].register_forward_hook(lambda module, inputs, output: output * value)
    try:
        return real(training, *arguments)
    finally:
        if handle is not None:
            handle.remove()

loop._train_step = poisoned
if os.environ.get("FROST_BLIND"):
    loop.is_finite = lambda loss: True
    loop.torch.isfinite = lambda tensor: torch.ones_like(tensor, dtype=torch.bool)
sys.exit(cli.main(sys.argv[5:]))
"""


class Group:
    """The processes of one training, started as torchrun would."""

    def __init__(self, words: list[str], processes: int, code: str = "", first: tuple[str, ...] = (),
                 environment: dict[str, str] | None = None) -> None:
        port = random.randrange(20_000, 60_000)
        program = [sys.executable, "-c", code, *first] if code else [sys.executable, "-m", "frost"]
        self.members = []
        for rank in range(processes):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes),
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} if processes > 1 else {}
            self.members.append(subprocess.Popen(
                [*program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                env={**os.environ, "OMP_NUM_THREADS": "1", **place, **(environment or {})}))

    def wait(self, seconds: float = 300.0) -> list[int]:
        """Exit statuses; whoever takes longer is killed."""
        until = time.monotonic() + seconds
        self.complaints = []
        for member in self.members:
            try:
                _, complaint = member.communicate(timeout=max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.kill()
                _, complaint = member.communicate()
            self.complaints.append(complaint.decode(errors="replace"))
        return [member.returncode for member in self.members]

    def send(self, number: int) -> None:
        """A signal to all."""
        for member in self.members:
            if member.poll() is None:
                member.send_signal(number)


def words(out: Path, *settings: str, resume: bool = False) -> list[str]:
    """A short training of digits."""
    return ["train", "digits", "--out", str(out), *(["--resume"] if resume else []), "--set", "train.epochs=2",
            "train.batch=128", f"train.timeout={TIMEOUT}", *settings]


def lines(run: Path, name: str = "logbook.jsonl") -> list[dict[str, Any]]:
    """A logbook without the clock."""
    if not (run / name).exists():
        return []
    entries = [json.loads(line) for line in (run / name).read_text().splitlines()]
    return [{key: value for key, value in entry.items() if key != "seconds"} for entry in entries]


def wait_until(done: Callable[[], bool], group: Group, seconds: float = 120.0) -> bool:
    """Wait for something while the processes run."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and all(member.poll() is None for member in group.members):
        if done():
            return True
        time.sleep(0.005)
    return done()


def is_same(first: Path, second: Path) -> bool:
    """Weights, logbook and validations equal, bit for bit."""
    ours, theirs = load_file(first / "weights.safetensors"), load_file(second / "weights.safetensors")
    return (lines(first) == lines(second) and lines(first, "validation.jsonl") == lines(second, "validation.jsonl")
            and ours.keys() == theirs.keys() and all(ours[name].equal(theirs[name]) for name in ours))


def signals(seed: int) -> int:
    """F03."""
    tried = failures = lost = 0
    with tempfile.TemporaryDirectory() as folder:
        for processes in (1, 2):
            whole = Path(folder) / f"whole-{processes}"
            Group(words(whole), processes).wait()
            for number, place in product((signal.SIGINT, signal.SIGTERM), ("step", "evaluation", "save")):
                out, mark = Path(folder) / f"{processes}-{number}-{place}", Path(folder) / "mark"
                mark.unlink(missing_ok=True)
                settings = ("train.save_every=3",)
                group = Group(words(out, *settings), processes, SLOWLY,
                              environment={"FROST_PLACE": place, "FROST_MARK": str(mark)})
                wait_until(mark.exists if place != "step" else lambda: len(lines(out)) >= 3, group)  # noqa: B023
                started = time.monotonic()
                group.send(number)
                statuses = group.wait(60)
                seconds = time.monotonic() - started
                Group(words(out, *settings, resume=True), processes).wait()
                fault = []
                if statuses != [128 + number] * processes:
                    fault.append(f"statuses {statuses}")
                if seconds > 6 + 2:
                    fault.append(f"took {seconds:.1f} s")
                if not (out / "weights.safetensors").exists() or not is_same(out, whole):
                    fault.append("not as if it had not been stopped")
                tried += 1
                failures += bool(fault)
                if fault:
                    print(f"FAILURE {processes} processes, signal {number} in {place}: {'; '.join(fault)}; "
                          f"{group.complaints[0][-200:]}")
        for number in range(3):                      # the control dies at once and has saved nothing
            out = Path(folder) / f"control-{number}"
            group = Group(words(out), 1)
            wait_until(lambda: len(lines(out)) >= 3, group)  # noqa: B023
            group.send(signal.SIGKILL)
            group.wait(10)
            lost += newest(out / "checkpoints") is None
    print(f"F03: {tried} signals, {failures} with a fault; control, killed without warning: {lost} of 3 lost all")
    record("F03", {"n": tried, "seed": seed, "failures": failures,
                   "control": {"killed without warning": {"n": 3, "lost": lost}}})
    return int(bool(failures) or not lost)


def peers(count: int, seed: int) -> int:
    """F04."""
    generator = random.Random(seed)
    failures = tried = 0
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        Group(words(whole, "train.save_every=2"), 2).wait()
        for kind in ("killed", "frozen"):
            for number in range(count):
                out = Path(folder) / f"{kind}-{number}"
                group = Group(words(out, "train.save_every=2"), 2)
                target = generator.randint(2, 10)
                wait_until(lambda: len(lines(out)) >= target, group)  # noqa: B023
                time.sleep(generator.uniform(0, 0.1))
                victim = generator.randrange(2)
                group.members[victim].send_signal(signal.SIGKILL if kind == "killed" else signal.SIGSTOP)
                started = time.monotonic()
                survivor = group.members[1 - victim]
                limit = 5.0 if kind == "killed" else TIMEOUT + 5.0
                try:
                    _, complaint = survivor.communicate(timeout=limit + 20)
                except subprocess.TimeoutExpired:
                    survivor.kill()
                    _, complaint = survivor.communicate()
                seconds = time.monotonic() - started
                group.members[victim].kill()
                group.members[victim].communicate()
                again = Group(words(out, "train.save_every=2", resume=True), 2)
                statuses = again.wait()
                fault = []
                if survivor.returncode != 75 or b"--resume" not in complaint:
                    fault.append(f"status {survivor.returncode}, {complaint.decode()[-150:]!r}")
                if seconds > limit:
                    fault.append(f"noticed after {seconds:.1f} s")
                if statuses != [0, 0] or not is_same(out, whole):
                    fault.append(f"did not go on as if nothing had happened: {statuses}")
                tried += 1
                failures += bool(fault)
                if fault:
                    print(f"FAILURE {kind}: {'; '.join(fault)}")
        out = Path(folder) / "control"               # the control waits for half an hour, as PyTorch does
        group = Group([*words(out), "train.timeout=1800"], 2)
        wait_until(lambda: len(lines(out)) >= 3, group)
        group.members[1].send_signal(signal.SIGSTOP)
        time.sleep(TIMEOUT + 5)
        waits = group.members[0].poll() is None
        for member in group.members:
            member.kill()
        group.wait(5)
    print(f"F04: {tried} processes killed or frozen, {failures} with a fault; control without a timeout "
          f"{'still waits' if waits else 'ended'}")
    record("F04", {"n": tried, "seed": seed, "failures": failures, "control": {"no timeout": {"still waits": waits}}})
    return int(bool(failures) or not waits)


def poison(count: int, seed: int) -> int:
    """F08."""
    generator = random.Random(seed)
    failures = blind = 0
    controls = 3
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count + controls):
            out, processes = Path(folder) / str(number), 1 + number % 2
            step, layer = generator.randint(2, 14), generator.randrange(50)
            value, rank = generator.choice(["nan", "inf", "-inf"]), generator.randrange(processes)
            is_control = number >= count
            what = (str(step), str(layer), str(rank), value)
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
                print(f"FAILURE {value} in layer {layer} of process {rank} of {processes}: {'; '.join(fault)}")
    print(f"F08: {count} poisoned steps, {failures} with a fault; control that does not look: {blind} of {controls} "
          "went on")
    record("F08", {"n": count, "seed": seed, "failures": failures,
                   "control": {"a loop that does not look": {"n": controls, "went on": blind}}})
    return int(bool(failures) or not blind)


def resumes(seed: int) -> int:
    """F09."""
    tried = failures = 0
    kinds = {"conv": (), "vit": ("model.backbone=vit", "model.channels=32", "model.patch=2", "model.depth=4")}
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
    """Run the four; status 1 if one fails, or if a control does not."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=("F03", "F04", "F08", "F09"), default=("F03", "F04", "F08", "F09"))
    options = parser.parse_args()
    random.seed(options.seed)
    campaigns = {"F03": lambda: signals(options.seed), "F04": lambda: peers(10, options.seed),
                 "F08": lambda: poison(20, options.seed), "F09": lambda: resumes(options.seed)}
    status = 0
    for name in options.only:
        status |= campaigns[name]()
    return status


if __name__ == "__main__":
    sys.exit(main())
