"""Does a second process on this machine train faster than one with all cores?

    python benchmarks/second_process.py --data DIR        about four minutes; docs/results/second-process.json

`frost train cifar100-cpu` runs alone with all cores and a batch of 64, then twice with half of the cores each and 32
images each, so that both take the same steps; three turns of half a minute each, images per second from the logbooks'
own growth. Also, on digits, what ranking each process by itself changes: the training losses of both forms.
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
TURNS, WARM, MEASURED = 3, 15.0, 30.0


def lines(file: Path) -> int:
    """Steps that a training has taken."""
    return file.read_bytes().count(b"\n") if file.exists() else 0


def images_per_second(processes: int, data: Path, folder: Path, cores: int) -> float:
    """Of a training that is ended after a while."""
    batch = 64 // processes
    words = ["train", "cifar100-cpu", "--out", str(folder), "--data", str(data), "--set", f"train.batch={batch}"]
    if processes > 1:
        words = ["launch", "-n", str(processes), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": str(max(1, cores // processes))}
    process = subprocess.Popen([sys.executable, "-m", "frost", *words], env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        book = folder / "logbook.jsonl"
        while not lines(book):
            time.sleep(0.1)
        time.sleep(WARM)
        first, started = lines(book), time.monotonic()
        time.sleep(MEASURED)
        return (lines(book) - first) * 64 / (time.monotonic() - started)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


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
    rates: dict[str, list[float]] = {"1": [], "2": []}
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(TURNS):
            for processes in (1, 2):
                rates[str(processes)].append(images_per_second(processes, options.data,
                                                               Path(scratch) / f"{turn}-{processes}", cores))
        ranking = {ranks: losses(ranks, Path(scratch) / ranks) for ranks in ("gathered", "local")}
    best = {processes: max(values) for processes, values in rates.items()}
    result = {"command": "python benchmarks/second_process.py --data DIR", "cores": cores, "images_per_second": rates,
              "ratio": best["2"] / best["1"], "names": ["task", "relative", "anchoring", "validation accuracy at T",
                                                       "validation accuracy at T/2"], "ranking": ranking}
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(f"one process {best['1']:.0f} images/s, two {best['2']:.0f}: {result['ratio']:.2f} ×")
    for ranks, numbers in ranking.items():
        print(f"{ranks:9} " + "  ".join(f"{name} {number:.4f}" for name, number in
                                       zip(result["names"], numbers, strict=True)))


if __name__ == "__main__":
    main()
