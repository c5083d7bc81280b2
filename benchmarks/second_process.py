"""Does a second process on this machine train faster than one with all cores?

    python benchmarks/second_process.py --data DIR        about six minutes; docs/results/second-process.json

`frost train cifar100-cpu` runs with all cores and a batch of 64, and beside it a launch of two processes with half of
the cores and 32 images each, so that both take the same steps. Only one of the two runs at a time: they are stopped and
continued in turns of a few seconds, because machines are shared and an hour's noise is larger than the difference.
Images per second come from the logbooks' own growth, and the ratio is the median over turns. Also, on digits, what
ranking each process by itself changes: the training losses of both forms.
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


def losses(ranks: str, folder: Path) -> list[float]:
    """Of a training on digits by two processes that rank together or each by itself."""
    words = ["launch", "-n", "2", "train", "digits", "--out", str(folder), "--set", f"halting.ranks={ranks}",
             "train.batch=32", "train.epochs=10", "model.channels=32", "model.bottleneck=16"]
    subprocess.run([sys.executable, "-m", "frost", *words], check=True, capture_output=True,
                   env={**os.environ, "OMP_NUM_THREADS": "1"})
    book = [json.loads(line) for line in (folder / "logbook.jsonl").read_text().splitlines()]
    accuracy = json.loads((folder / "origin.json").read_text())["validation_accuracy"]
    return [statistics.fmean(line[name] for line in book[-17:]) for name in ("task", "relative", "anchoring")] + \
        [accuracy[-1], accuracy[len(accuracy) // 2 - 1]]


def main() -> None:
    """Take turns, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as scratch:
        rates = turns(options.data, Path(scratch), cores)
        ranking = {ranks: losses(ranks, Path(scratch) / ranks) for ranks in ("gathered", "local")}
    ratios = sorted(two / one for one, two in zip(rates["1"], rates["2"], strict=True))
    middle = {processes: statistics.median(values) for processes, values in rates.items()}
    names = ["task", "relative", "anchoring", "validation accuracy at T", "validation accuracy at T/2"]
    result = {"command": "python benchmarks/second_process.py --data DIR", "cores": cores, "images_per_second": rates,
              "ratio": statistics.median(ratios), "least": ratios[0], "largest": ratios[-1], "names": names,
              "ranking": ranking}
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(f"one process {middle['1']:.0f} images/s, two {middle['2']:.0f}: {result['ratio']:.2f} × in the median of "
          f"{TURNS} turns, {ratios[0]:.2f} to {ratios[-1]:.2f}")
    for ranks, numbers in ranking.items():
        print(f"{ranks:9} " + "  ".join(f"{name} {number:.4f}" for name, number in
                                       zip(names, numbers, strict=True)))


if __name__ == "__main__":
    main()
