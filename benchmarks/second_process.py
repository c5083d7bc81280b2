"""Does a second process on this machine train faster than one with all cores?

    python benchmarks/second_process.py --data DIR        about six minutes; docs/results/second-process.json

`frost train cifar100-cpu` runs with all cores and a batch of 64, and beside it a launch of two processes with half of
the cores and 32 images each, so that both take the same steps. Only one of the two runs at a time: they are stopped and
continued in turns of a few seconds, because machines are shared and an hour's noise is larger than the difference.
Images per second come from the logbooks' own growth, and the ratio is the median over turns. `ranking` in the committed
file, on digits, is from commit 965851e, which could rank the images of each process by themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "second-process.json"
TURNS, WARM, MEASURED = 12, 2.0, 10.0


def lines(file: Path) -> int:
    """Steps that a training has taken."""
    return file.read_bytes().count(b"\n") if file.exists() else 0


def begun(processes: int, data: Path, folder: Path, cores: int) -> subprocess.Popen[bytes]:
    """A training that has taken its first steps and stands still."""
    words = ["train", "cifar100-cpu", "--out", str(folder), "--data", str(data), "--set",
             f"train.batch={64 // processes}"]
    if processes > 1:
        words = ["launch", "-n", str(processes), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": str(max(1, cores // processes))}
    process = subprocess.Popen([sys.executable, "-m", "frost", *words], env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    while lines(folder / "logbook.jsonl") < 10:
        if process.poll() is not None:
            raise RuntimeError(f"frost {' '.join(words)} ended with status {process.returncode}.")
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGSTOP)
    return process


def images_per_second(process: subprocess.Popen[bytes], folder: Path) -> float:
    """Of a training that is let go on for a while."""
    os.killpg(process.pid, signal.SIGCONT)
    time.sleep(WARM)
    first, started = lines(folder / "logbook.jsonl"), time.monotonic()
    time.sleep(MEASURED)
    rate = (lines(folder / "logbook.jsonl") - first) * 64 / (time.monotonic() - started)
    os.killpg(process.pid, signal.SIGSTOP)
    return rate


def turns(data: Path, scratch: Path, cores: int) -> dict[str, list[float]]:
    """Images per second of one process and of two, in turns."""
    rates: dict[str, list[float]] = {"1": [], "2": []}
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in rates:
            running[name] = begun(int(name), data, scratch / name, cores)
        for _ in range(TURNS):
            for name, process in running.items():
                rates[name].append(images_per_second(process, scratch / name))
    finally:
        for process in running.values():
            os.killpg(process.pid, signal.SIGTERM)
            os.killpg(process.pid, signal.SIGCONT)
            process.wait()
    return rates


def main() -> None:
    """Take turns, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as scratch:
        rates = turns(options.data, Path(scratch), cores)
    ratios = sorted(two / one for one, two in zip(rates["1"], rates["2"], strict=True))
    middle = {processes: statistics.median(values) for processes, values in rates.items()}
    result = {"command": "python benchmarks/second_process.py --data DIR", "cores": cores, "images_per_second": rates,
              "ratio": statistics.median(ratios), "least": ratios[0], "largest": ratios[-1]}
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(f"one process {middle['1']:.0f} images/s, two {middle['2']:.0f}: {result['ratio']:.2f} × in the median of "
          f"{TURNS} turns, {ratios[0]:.2f} to {ratios[-1]:.2f}")


if __name__ == "__main__":
    main()
