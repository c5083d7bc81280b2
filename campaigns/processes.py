"""Signals, and processes that die or freeze (F03, F04), with one process and with two.

    python campaigns/processes.py [--only F03 …]       # `make campaigns`

All of them run `frost train digits` as real processes, as a user would. F03 sends SIGINT or SIGTERM inside a step, a
validation or a save. F04 kills or freezes one of two; the control has no timeout and waits. Figures go to
docs/results/campaigns.json.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

from groups import TIMEOUT, Group, is_same, lines, wait_until, words
from hostile_data import record

from frost.checkpoint import newest

SLOWLY = """
import os, sys, time
from frost import cli
from frost.training import snapshot
from frost.training import run as train
from frost.training import runner
place, folder = os.environ["FROST_PLACE"], os.environ["FROST_MARK"]

def slow(real):
    def slowed(*arguments, **named):
        if not os.environ.get("RANK", "0").strip("0"):
            open(folder, "w").close()
        time.sleep(1.0)
        return real(*arguments, **named)
    return slowed

if place == "save":
    runner.save_snapshot = slow(snapshot.save_snapshot)
elif place == "evaluation":
    train.run_shared = slow(train.run_shared)
sys.exit(cli.main(sys.argv[1:]))
"""


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


def main() -> int:
    """Status 1 if one fails, or if a control does not."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=("F03", "F04"), default=("F03", "F04"))
    options = parser.parse_args()
    random.seed(options.seed)
    campaigns = {"F03": lambda: signals(options.seed), "F04": lambda: peers(10, options.seed)}
    return max([campaigns[name]() for name in options.only])


if __name__ == "__main__":
    sys.exit(main())
