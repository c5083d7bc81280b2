"""`frost export --check`: a package's files against its manifest, and its golden inputs in ONNX Runtime.

The host that runs here is frost's own, never the package's: no code of a package is run.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from frost import directory
from frost.exporting.host import Host
from frost.exporting.host_cli import Checked, check
from frost.runtime.onnx_graphs import EXTRA

FILES = ("begin.onnx", "step.onnx", "policy.json", "golden.npz")


class Report(NamedTuple):
    """A package that was checked."""

    path: Path
    name: str
    depth: int                  # T
    mean_depth: float           # of the chosen rule on held-out inputs
    budgets: list[float]        # mean depths
    sizes: dict[str, int]       # bytes by file
    found: Checked
    seconds: float              # that the golden inputs took


def checked(path: Path) -> Report:
    """Verify a package and run it; a changed file is a ValueError that names it."""
    if not path.is_dir():
        raise ValueError(f"there is no package at {path}; frost export RUN --out {path} makes one.")
    manifest = directory.verify(path, FILES)
    try:
        import onnxruntime
    except ImportError as error:
        raise ValueError(f"running a package needs ONNX Runtime; {EXTRA}.") from error
    from frost.runtime.onnx_backend import open_session

    host = Host(path, open_with=lambda graph: open_session(onnxruntime, graph))
    started = time.monotonic()
    found = check(host)
    policy = host.policy
    return Report(path, policy["name"], policy["depth"], policy["rule"]["mean_depth"],
                  [budget["mean_depth"] for budget in policy["budgets"]],
                  {name: facts["bytes"] for name, facts in manifest["files"].items()}, found,
                  time.monotonic() - started)
