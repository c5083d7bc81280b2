"""Kill −9 a training at random moments and go on (F01): the logbook must equal the undisturbed run's.

    python campaigns/kill_training.py [--kills 100] [--seed 0]       # `make campaigns`

`frost train digits` saves every second step and is killed again and again, each time gone on with by the same command
and `--resume`: half of the times after a random number of steps and a random time, half of them as soon as a save is
seen to be under way. In the end every line of its logbook is compared with those of a run that nobody disturbed, and so
are the weights. A kill counts as inside a write if it leaves a save half done.

The control saves the same files in place, over the last ones, without a folder aside and a rename. It is killed when a
save is seen to be under way; it must lose its run at least once. Figures go to docs/results/campaigns.json.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hostile_data import record

from frost.checkpoint import load, newest, weights_hash

CONTROL_KILLS = 5
NAIVE = """
import shutil, sys
from frost import cli, directory
from frost.training import snapshot
from frost.training import run as train

class InPlace:
    def __init__(self, path): self.path = path.parent / "step-00000001"
    def __enter__(self):
        self.path.mkdir(parents=True, exist_ok=True)
        return self.path
    def __exit__(self, *_): pass

snapshot.directory.built_aside = InPlace            # write over the last save
snapshot.Path.rename = lambda self, target: self    # and never rename
snapshot.shutil.rmtree = lambda *a, **k: None
sys.exit(cli.main(sys.argv[1:]))
"""


def command(out: Path, epochs: int, naive: bool = False) -> list[str]:
    """The words that start or continue a training of ours, or of the control."""
    words = ["train", "digits", "--out", str(out), "--resume", "--set", f"train.epochs={epochs}", "train.save_every=2",
             "train.average=0.99"]
    return [sys.executable, "-c", NAIVE, *words] if naive else [sys.executable, "-m", "frost", *words]


def start(words: list[str]) -> subprocess.Popen[bytes]:
    """A training as a process of its own, on one thread, so that its bits do not depend on the machine's cores."""
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            env={**os.environ, "OMP_NUM_THREADS": "1"})


def lines(run: Path) -> list[str]:
    """Every line of a logbook, whole: a step's loss and everything else that is told of it."""
    return (run / "logbook.jsonl").read_text(encoding="utf-8").splitlines()


def finish(words: list[str]) -> None:
    """Run to the end; anything but success is an error here."""
    process = start(words)
    _, complaint = process.communicate()
    if process.returncode:
        raise RuntimeError(complaint.decode())


def killed_run(out: Path, epochs: int, kills: int, generator: random.Random) -> tuple[int, int, int]:
    """Kill and continue: kills that hit a training under way, those of them inside a write, and unreadable folders."""
    hits = inside = unloadable = 0
    for number in range(kills):
        process = start(command(out, epochs))
        target = steps_of(out) + generator.randint(1, 3)
        while process.poll() is None and steps_of(out) < target:
            time.sleep(0.002)
        if number % 2:
            while process.poll() is None and not half_saves(out):
                time.sleep(0.0005)
            time.sleep(generator.uniform(0, 0.01))
        else:
            time.sleep(generator.uniform(0, 0.3))    # somewhere in a step, in a save, in a validation or in the end
        process.send_signal(signal.SIGKILL)
        process.communicate()
        hits += process.returncode == -signal.SIGKILL
        inside += process.returncode == -signal.SIGKILL and half_saves(out)
        had_saved = any((out / "checkpoints").glob("step-*"))
        unloadable += had_saved and newest(out / "checkpoints") is None and not (out / "MANIFEST.json").exists()
    finish(command(out, epochs))
    return hits, inside, unloadable


def half_saves(out: Path) -> bool:
    """Whether a save is under way, or was when its process died."""
    return any((out / "checkpoints").glob(".step-*.tmp")) or any(out.glob(".run.*.tmp"))


def steps_of(run: Path) -> int:
    """Lines in a logbook, however unfinished."""
    return (run / "logbook.jsonl").read_bytes().count(b"\n") if (run / "logbook.jsonl").exists() else 0


def control_loses(out: Path, epochs: int, limit: float = 60.0) -> bool:
    """Kill the control while it saves; whether nothing that can be gone on from is left."""
    process = start(command(out, epochs, naive=True))
    place = out / "checkpoints" / "step-00000001"
    until = time.monotonic() + limit
    while time.monotonic() < until and process.poll() is None:
        manifest, tensors = place / "MANIFEST.json", place / "weights.safetensors"
        if manifest.exists() and tensors.exists() and tensors.stat().st_mtime_ns > manifest.stat().st_mtime_ns:
            process.send_signal(signal.SIGKILL)    # a later save has begun: weights newer than the manifest
            process.communicate()
            return newest(out / "checkpoints") is None
    process.kill()
    _, complaint = process.communicate()
    raise RuntimeError(f"the control never saved a second time: {complaint.decode()[-500:]}")


def main() -> int:
    """Run the campaign; status 1 if anything was lost, or if the control lost nothing."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=18)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        whole, disturbed = Path(folder) / "whole", Path(folder) / "disturbed"
        finish(command(whole, options.epochs))
        hits, inside, unloadable = killed_run(disturbed, options.epochs, options.kills, random.Random(options.seed))
        same_losses = lines(whole) == lines(disturbed)
        same_weights = weights_hash(load(whole).model) == weights_hash(load(disturbed).model)
        lost = sum(control_loses(Path(folder) / f"control-{i}", options.epochs) for i in range(CONTROL_KILLS))
    failures = unloadable + (not same_losses) + (not same_weights)
    print(f"F01: {hits} kills, {inside} inside a write, {unloadable} left nothing to load; losses "
          f"{'equal' if same_losses else 'DIFFER'}, weights {'equal' if same_weights else 'DIFFER'}; control saved in "
          f"place: {lost} of {CONTROL_KILLS} runs lost")
    record("F01", {"n": hits, "seed": options.seed, "failures": failures, "inside a write": inside,
                   "control": {"saved in place": {"n": CONTROL_KILLS, "lost": lost}}})
    return 0 if not failures and lost and inside >= 0.3 * options.kills else 1


if __name__ == "__main__":
    sys.exit(main())
