"""Which backend is fastest here for a model: what `frost bench RUN --save` found, kept in the cache folder.

Building a backend takes seconds, so that nothing is built to be timed when an engine is made. What was found holds for
one machine and one set of weights' shapes, and for batches near the one that was timed.
"""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path
from typing import Any

import torch

from frost.core.trajectory import IterativeModel
from frost.data.download import cache_folder
from frost.directory import replace_file
from frost.runtime.backend import BACKENDS, BackendName


def fastest_backend(model: IterativeModel, slots: int) -> BackendName:
    """The backend that was fastest at the batch nearest to this many slots; eager where nothing was measured."""
    known = _read(_file(model))
    batches = [batch for batch in known if known[batch] in BACKENDS]
    if not batches:
        return "eager"
    return known[min(batches, key=lambda batch: abs(int(batch) - slots))]


def remember_fastest(model: IterativeModel, found: dict[int, BackendName]) -> Path:
    """Keep the fastest backend at each batch size; where it is kept."""
    file = _file(model)
    file.parent.mkdir(parents=True, exist_ok=True)
    values = {**_read(file), **{str(batch): name for batch, name in found.items()}}
    replace_file(file, (json.dumps(values, indent=2) + "\n").encode())
    return file


def _file(model: IterativeModel) -> Path:
    """One for each machine, number of threads and kind of model: its speed does not depend on its weights' values."""
    kind = [type(model).__name__, repr(model.zoo_config), str(model.depth), str(model.signature),
            *(f"{name} {tuple(part.shape)} {part.dtype}" for name, part in sorted(model.state_dict().items()))]
    machine = [platform.machine(), _processor(), torch.backends.cpu.get_cpu_capability(), torch.__version__,
               str(torch.get_num_threads())]
    digest = hashlib.sha256("\n".join([*machine, *kind]).encode()).hexdigest()
    return cache_folder() / "backends" / f"{digest[:32]}.json"


def _processor() -> str:
    """Its name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def _read(file: Path) -> dict[str, Any]:
    """What is kept; nothing where there is none, or where it is damaged."""
    try:
        values = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return {batch: name for batch, name in values.items() if batch.isdigit()} if isinstance(values, dict) else {}
