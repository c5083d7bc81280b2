"""An interpreter that several busy threads share: an engine's, and those that read for it.

A collection looks at every object there is, for a tenth of a second with PyTorch imported, and no thread runs
meanwhile. A thread that wants the interpreter waits up to 5 ms for one that is busy; an engine wants it many times a
step.
"""

from __future__ import annotations

import gc
import sys

TURN = 5e-4    # seconds


def share_interpreter() -> None:
    """For a process that is set up: its threads take turns sooner, and what is there now is not collected any more."""
    sys.setswitchinterval(TURN)
    gc.collect()
    gc.freeze()
