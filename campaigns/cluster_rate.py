"""Ray Data on this machine against `frost predict` in one process, with the same two processors.

    .venv-cluster/bin/python campaigns/cluster_rate.py [--images 20000] [--times 3]

One actor of two threads; start-up is left out of both; interleaved, the median of three. At least 0.8 must be left.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster import BUDGET, RUN, images, record

ONE_ACTOR = ("--ray", "--actors", "1", "--threads", "2")
LEAST = 0.8


def rates(folder: Path, count: int, tries: int) -> tuple[list[float], list[float]]:
    """Images a second of Ray with one actor of two threads, and of one process with two; interleaved, without start."""
    listed = images(folder / "rate", count, 1)
    ours, theirs = [], []
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    for number in range(tries):
        for found, words in ((theirs, ("--out", str(folder / f"{number}.csv"))),
                             (ours, ("--out", str(folder / f"out-{number}"), *ONE_ACTOR))):
            done = subprocess.run([sys.executable, "-m", "frost", "predict", RUN, *BUDGET, "--list", str(listed),
                                   *words, "--json"], check=True, capture_output=True, text=True, env=environment)
            summary = json.loads(done.stdout)
            found.append(count / summary["seconds"])
    return ours, theirs


def main() -> int:
    """Status 1 if less is left."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        ours, theirs = rates(Path(name), options.images, options.times)
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(f"{statistics.median(ours):.0f} images/s by Ray, {statistics.median(theirs):.0f} by one process: {ratio:.2f}")
    record("R03", {"n": options.times, "images": options.images, "ray": [round(rate) for rate in ours],
                   "one process": [round(rate) for rate in theirs], "ratio": round(ratio, 3),
                   "failures": int(ratio < LEAST)}, "cluster_rate.py")
    return int(ratio < LEAST)


if __name__ == "__main__":
    sys.exit(main())
