"""A run directory that was changed (F06): it must be noticed before a tensor is used.

    python campaigns/mutations.py        # `make campaigns`

A trained run is changed in 2,000 ways, bit flips to swapped files; each must be noticed, and the last whole checkpoint
offered. The control reads the same files without hashes. Figures go to docs/results/campaigns.json.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from hostile_data import record
from safetensors.torch import load_file

from frost import checkpoint, directory
from frost.training import snapshot
from frost.training.loop import Training
from frost.training.settings import TrainConfig

FILES = (checkpoint.WEIGHTS, checkpoint.CONFIG, checkpoint.CALIBRATION, directory.MANIFEST)


def make_run(root: Path) -> None:
    """The digits run that comes with the package, with a checkpoint as a training leaves one."""
    source = checkpoint.pretrained()["digits"]
    shutil.copytree(source, root, dirs_exist_ok=True)
    run = checkpoint.load(source)
    training = Training.begin(run.model, TrainConfig())
    training.step = 7
    snapshot.save_snapshot(root / checkpoint.CHECKPOINTS, training, run.config, {"seconds": 0.0})


def mutate(root: Path, generator: random.Random) -> str:
    """Change one thing about the files that the manifest vouches for, or about the manifest; what it was."""
    name = generator.choice(FILES)
    file, kind = root / name, generator.choice(
        ["bit", "byte", "truncate", "extend", "zero", "swap", "delete", "copy", "line", "insert", "empty"])
    data = bytearray(file.read_bytes())
    before = bytes(data)
    place = generator.randrange(len(data))
    if kind == "bit":
        data[place] ^= 1 << generator.randrange(8)
    elif kind == "byte":
        data[place] = (data[place] + generator.randint(1, 255)) % 256
    elif kind == "truncate":
        del data[place:]
    elif kind == "extend":
        data += generator.randbytes(generator.randint(1, 64))
    elif kind == "zero":
        stop = min(len(data), place + generator.randint(1, 4096))
        data[place:stop] = bytes(stop - place)
    elif kind == "insert":
        data[place:place] = generator.randbytes(1)
    elif kind == "empty":
        data.clear()
    elif kind == "line":
        lines = bytes(data).split(b"\n")
        chosen = generator.randrange(len(lines))
        lines.insert(chosen, lines[chosen])
        data = bytearray(b"\n".join(lines))
    elif kind in ("swap", "copy"):
        other = root / generator.choice([one for one in FILES if one != name])
        data = bytearray(other.read_bytes())
        if kind == "swap":
            other.write_bytes(before)
    if kind == "delete":
        file.unlink()
    elif bytes(data) == before:
        return mutate(root, generator)
    else:
        file.write_bytes(data)
    return f"{kind} in {name} at {place}"


def naive(root: Path) -> bool:
    """Whether a reader without hashes takes the run: weights that fit, JSON that parses."""
    try:
        expected = {key: value.shape for key, value in checkpoint.load("digits").model.state_dict().items()}
        stored = load_file(root / checkpoint.WEIGHTS)
        for name in FILES[1:]:
            json.loads((root / name).read_text())
        return {key: value.shape for key, value in stored.items()} == expected
    except Exception:
        return False


def mutations(count: int, seed: int) -> int:
    """F06."""
    generator = random.Random(seed)
    missed, unhelpful, accepted, control = 0, 0, 0, min(count, 200)
    with tempfile.TemporaryDirectory() as folder:
        sound, root = Path(folder) / "sound", Path(folder) / "run"
        make_run(sound)
        for number in range(count):
            shutil.copytree(sound, root)
            what = mutate(root, generator)
            if number < control:
                accepted += naive(root)
            try:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    checkpoint.load(root)
                if not any(str(root) in str(warning.message) for warning in caught):
                    missed += 1
                    print(f"FAILURE not noticed: {what}")
            except ValueError as error:
                is_offered = "step-00000007" in str(error) or checkpoint.locate(root) != root
                unhelpful += not is_offered
                if not is_offered:
                    print(f"FAILURE offers nothing: {what}: {error}")
            shutil.rmtree(root)
    print(f"F06: {count} mutations, {missed} not noticed, {unhelpful} without an offer; control without hashes takes "
          f"{accepted} of {control}")
    record("F06", {"n": count, "seed": seed, "failures": missed + unhelpful,
                   "control": {"a reader without hashes": {"n": control, "accepted": accepted}}})
    return int(bool(missed or unhelpful) or not accepted)


def main() -> int:
    """Status 1 if one was missed, or if the control misses none."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mutations", type=int, default=2000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    return mutations(options.mutations, options.seed)


if __name__ == "__main__":
    sys.exit(main())
