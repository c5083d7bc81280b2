"""Every moment at which a save can be cut short (F02), and every operation of a save that can fail (F05).

    python campaigns/crashes.py        # `make campaigns`

The file operations of one save are recorded. F02 replays every prefix of them: what no fsync had brought to the disk is
lost, torn or there, in every combination (of many, a sample). What is left must be the older state or the newer one,
whole. F05 lets each operation fail for want of space, on a read-only disk and by an I/O error, a write in its middle:
the error must name the path, and the older state must be whole. Three kinds of save: a resume point, the end of a
training, a new calibration. The control writes in place. Figures go to docs/results/campaigns.json.
"""

from __future__ import annotations

import argparse
import errno
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from disk import Recorder, apply, crash_states
from hostile_data import record

from frost import checkpoint, directory
from frost.checkpoint import newest, weights_hash
from frost.halting.calibration import Calibration
from frost.training import snapshot
from frost.training.loop import Training
from frost.training.settings import TrainConfig
from frost.zoo.registry import SIZES, build

ERRORS = (errno.ENOSPC, errno.EROFS, errno.EIO)
CONFIG = {"model": {"backbone": "resnet"}}


class Subject(NamedTuple):
    """A kind of save: how to prepare the older state, the save itself, and what a reader finds."""

    name: str
    prepare: Callable[[Path], None]
    save: Callable[[Path], None]
    read: Callable[[Path], str]      # which state; raises if there is none


def training(seed: int, step: int) -> Training:
    """A small training that stands at a step."""
    model = build(SIZES["resnet-8px"], seed=seed)
    ours = Training.begin(model, TrainConfig())
    model(torch.rand(2, 1, 8, 8)).outputs.sum().backward()
    ours.optimizer.step()
    ours.step = step
    return ours


def subjects() -> list[Subject]:
    """Resume points, the end of a training, a new calibration."""
    old, new = training(0, 2), training(1, 4)
    settings = {"model": {**CONFIG["model"]}}
    hashes = {weights_hash(old.model): "old", weights_hash(new.model): "new"}

    def resume_point(root: Path) -> str:
        found = newest(root / "checkpoints", (snapshot.TENSORS, snapshot.PLACE))
        if found is None:
            raise ValueError("nothing to go on from")
        fresh = training(2, 0)
        snapshot.restore_newest(root / "checkpoints", fresh)
        return hashes[weights_hash(fresh.model)]

    def ended(root: Path) -> str:
        if not (root / directory.MANIFEST).exists():
            return resume_point(root)
        return hashes[weights_hash(checkpoint.load(root, model=build(SIZES["resnet-8px"])).model)]

    def calibration(seed: int) -> Calibration:
        values = torch.randn(20, 8, generator=torch.Generator().manual_seed(seed))
        return Calibration.gather(values, weights_hash=weights_hash(old.model), k=64)

    def calibrated(root: Path) -> str:
        found = checkpoint.load(root, model=build(SIZES["resnet-8px"])).calibration
        assert found is not None
        return {calibration(0).to_dict()["sha256"]: "old", calibration(1).to_dict()["sha256"]: "new"}[
            found.to_dict()["sha256"]]

    def save_old(root: Path) -> None:
        snapshot.save_snapshot(root / "checkpoints", old, settings, {"seconds": 0.0})

    def save_new(root: Path) -> None:
        snapshot.save_snapshot(root / "checkpoints", new, settings, {"seconds": 1.0})

    return [
        Subject("resume point", save_old, save_new, resume_point),
        Subject("end of a training", save_old,
                lambda root: checkpoint.finish(root, new.model, settings), ended),
        Subject("new calibration", lambda root: checkpoint.finish(root, old.model, settings, calibration(0)),
                lambda root: checkpoint.recalibrate(root, calibration(1)), calibrated),
    ]


def in_place() -> Subject:
    """The control: one file, written over."""
    old, new = training(0, 2), training(1, 4)

    def write(which: Training) -> Callable[[Path], None]:
        return lambda root: (root / "latest").write_bytes(snapshot.save(snapshot._tensors_of(which, None))) and None

    def read(root: Path) -> str:
        from safetensors.torch import load
        return str(len(load((root / "latest").read_bytes())))

    return Subject("in place", write(old), write(new), read)


def crashes(subject: Subject, generator: random.Random) -> tuple[int, int]:
    """States tried, and states of which a reader finds neither the older nor the newer."""
    with tempfile.TemporaryDirectory() as folder:
        before, live = Path(folder) / "before", Path(folder) / "live"
        live.mkdir()
        subject.prepare(live)
        shutil.copytree(live, before)
        recorder = Recorder(live)
        with recorder.watching():
            subject.save(live)
        tried = bad = 0
        for length in range(len(recorder.operations) + 1):
            for state in crash_states(recorder.operations[:length], generator):
                after = Path(folder) / "after"
                shutil.copytree(before, after)
                apply(state, after)
                tried += 1
                try:
                    subject.read(after)
                except Exception as error:
                    bad += 1
                    if bad <= 3 and subject.name != "in place":
                        print(f"FAILURE {subject.name}, {length} operations: {error}")
                shutil.rmtree(after)
        return tried, bad


def failing_disk(subject: Subject) -> tuple[int, int]:
    """Failures injected, and those that harmed the older state or did not name the path."""
    tried = bad = 0
    for error in ERRORS:
        place = 0
        while True:
            with tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                subject.prepare(root)
                recorder = Recorder(root, place, error)
                sentence = ""
                try:
                    with recorder.watching():
                        subject.save(root)
                except OSError as failure:
                    sentence = str(failure)
                if recorder.fails_at is not None:
                    break                     # the save has fewer operations
                tried += 1
                try:
                    subject.read(root)
                    is_harmed = bool(sentence) and str(root) not in sentence
                except Exception:
                    is_harmed = True
                if is_harmed and subject.name != "in place":
                    print(f"FAILURE {subject.name}, operation {place}: '{sentence}'")
                bad += is_harmed
            place += 1
    return tried, bad


def main() -> int:
    """Run both; status 1 if a state was lost, or if the control loses none."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    status = 0
    for number, what, run in (("F02", "crash states", lambda it: crashes(it, random.Random(options.seed))),
                              ("F05", "operations that fail", failing_disk)):
        figures = {subject.name: run(subject) for subject in subjects()}
        control = run(in_place())
        tried, bad = (sum(column) for column in zip(*figures.values(), strict=True))
        print(f"{number}: {tried} {what} in {len(figures)} kinds of save, {bad} without a whole state; control in "
              f"place: {control[1]} of {control[0]}")
        record(number, {"n": tried, "seed": options.seed, "failures": bad,
                        "control": {"in place": {"n": control[0], "lost": control[1]}}})
        status |= int(bool(bad) or not control[1])
    return status


if __name__ == "__main__":
    sys.exit(main())
