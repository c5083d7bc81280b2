"""The folder of a run in training: what it began with, whether it may be gone on with, and who works in it.

    RUN/run.json            configuration, command and data, from the first moment on
    RUN/logbook.jsonl       one object a training step
    RUN/validation.jsonl    one object a validation: accuracy and loss after each refinement step
    RUN/checkpoints/        resume points; the last two stay
    RUN/weights.safetensors config.json calibration.json origin.json MANIFEST.json    when it has ended
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from frost import checkpoint, directory
from frost.config import from_dict, to_dict
from frost.data.splits import DataSet, Images
from frost.recipes import RunConfig

RUN, ORIGIN = "run.json", "origin.json"
LOCK = ".lock"
# How a run is worked on, not what it is: it may be gone on with under others.
RUNTIME = frozenset(f"train.{name}" for name in (
    "device", "workers", "timeout", "save_every", "validate_every", "checkpointing", "compile"))
TRACES = {LOCK, f".{RUN}.tmp"}   # of a process that was killed before it had begun


def may_begin(out: Path, config: Mapping[str, Any], resume: bool) -> bool:
    """Whether there is something to do, and the folder may be used for it."""
    if has_ended(out, config, resume):
        return False
    check_folder(out, config, resume)
    return True


def has_ended(out: Path, config: Mapping[str, Any], resume: bool) -> bool:
    """Whether the run is there already; then it is verified, and must have the configuration that is asked for."""
    if not (out / directory.MANIFEST).exists():
        return False
    if not resume:
        raise ValueError(f"{out} holds a run that has ended; choose another --out, or remove it.")
    checkpoint.verify(out)
    _check_same(out, "config", config)
    return True


def check_folder(out: Path, config: Mapping[str, Any], resume: bool) -> None:
    """Refuse a folder that holds something else, another run, or this one when nobody asked to go on with it."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} exists and is not a folder; choose another --out.")
    if not out.exists() or all(file.name in TRACES for file in out.iterdir()):
        return
    _check_same(out, "config", config)
    if not resume:
        raise ValueError(f"{out} holds a run that has not ended; add --resume to go on with it, or choose another "
                         "--out.")


def begin(out: Path, config: Mapping[str, Any], command: Sequence[str], data: DataSet[Images],
          processes: int = 1, first_hash: str | None = None) -> None:
    """Write what the run begins with; or, where that stands already, see that it is still the same.

    Args:
        first_hash: of the weights of another run that it starts from.
    """
    facts = facts_of(data) | ({"processes": processes} if processes > 1 else {})
    facts |= {} if first_hash is None else {"first_weights": first_hash}
    begin_facts(out, config, facts, command)


def begin_facts(out: Path, config: Mapping[str, Any], facts: Mapping[str, Any], command: Sequence[str]) -> None:
    """The same, with facts of the data that are known already."""
    if (out / RUN).exists():
        _check_same(out, "data", facts)
        return
    content = {"config": dict(config), "data": facts, "command": shlex.join(command)}
    with directory.explained(out / RUN):
        directory.replace_file(out / RUN, (json.dumps(content, indent=2) + "\n").encode())


def facts_of(data: DataSet[Images]) -> dict[str, Any]:
    """What must not change between two parts of one training."""
    labels = hashlib.sha256(data.train.labels.numpy().tobytes() + data.validation.labels.numpy().tobytes())
    return {"name": data.name, "train": len(data.train), "validation": len(data.validation),
            "classes": list(data.classes), "labels": labels.hexdigest()}


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Refuse to train where another process does; the lock goes with the process, however it ends."""
    with directory.explained(out):
        out.mkdir(parents=True, exist_ok=True)
        file = (out / LOCK).open("w")
    with file:
        directory.lock(file.fileno(), f"another process is training in {out}; wait for it, or choose another --out.")
        yield


def _check_same(out: Path, part: str, ours: Mapping[str, Any]) -> None:
    """Refuse to go on with a run under another configuration or on other data, naming the first difference."""
    if not (out / RUN).is_file():
        raise ValueError(f"{out} holds something that `frost train` did not make (it has no {RUN}); choose another "
                         "--out.")
    stored = directory.read_json(out / RUN).get(part)
    if not isinstance(stored, dict):
        raise ValueError(f"{out / RUN} does not say what the run began with; choose another --out.")
    before, now = _flat(_completed(stored) if part == "config" else stored), _flat(ours)
    for path in sorted((before.keys() | now.keys()) - (RUNTIME if part == "config" else set())):
        if before.get(path) != now.get(path):
            raise ValueError(f"{out} is another run: its {path} is {before.get(path)}, here it is {now.get(path)}; "
                             "choose another --out, or the recipe, settings, data and --from that it began with.")


def _completed(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """A configuration with the defaults of settings that did not exist when it was written."""
    try:
        return to_dict(from_dict(RunConfig, stored))
    except ValueError:
        return stored    # written by a frost that knew other settings; the difference will be named


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat
