"""What a process does whose threads share the interpreter; in one of its own, for it cannot be undone."""

import subprocess
import sys

CODE = """
import gc, sys
from frost.core.interpreter import TURN, share_interpreter
kept = [[] for _ in range(1000)]
share_interpreter()
print(gc.get_freeze_count() > 1000, abs(sys.getswitchinterval() - TURN) < 1e-6, len(gc.get_objects()) < 1000)
"""


def test_what_is_there_is_not_looked_at_again_and_turns_are_short():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True"]
