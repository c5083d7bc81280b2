"""What makes two answers equal: the package's code, the weights and the calibration, each as a hash.

A worker on another machine opens its own copy of a run; one that differs from the driver's is refused.
"""

from __future__ import annotations

import hashlib
import json
import platform
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from frost.checkpoint import Run, weights_hash


class Identity(NamedTuple):
    """Of a run as one process sees it."""

    package: str        # SHA-256 of every source file of frost
    weights: str        # SHA-256 of every tensor
    calibration: str    # SHA-256 of what budgets are taken from


def identity(run: Run) -> Identity:
    """What this process would answer with."""
    stored = None if run.calibration is None else run.calibration.to_dict()
    words = json.dumps(stored, sort_keys=True)
    return Identity(package_hash(), weights_hash(run.model), hashlib.sha256(words.encode()).hexdigest())


@lru_cache(maxsize=1)
def package_hash() -> str:
    """SHA-256 of the names and contents of the package's Python files."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(root).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def check_same(ours: Identity, theirs: Identity, run: str) -> None:
    """Refuse a worker, `ours`, that would answer otherwise than the driver, `theirs`."""
    install, copy = "install the same frost on every machine", "copy the same run to every machine"
    for name, words, remedy in (("package", "another version of frost", install),
                                ("weights", f"other weights of {run}", copy),
                                ("calibration", f"another calibration of {run}", copy)):
        here, there = getattr(ours, name), getattr(theirs, name)
        if here != there:
            raise ValueError(f"the worker on {platform.node()} has {words} than the driver (hash {here[:12]}, expected "
                             f"{there[:12]}); {remedy}.")
