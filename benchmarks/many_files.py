"""A folder of 100,000 small images through `frost predict`: flat memory, Ctrl-C, and a second run that goes on.

    python benchmarks/many_files.py --data DIR      # about ten minutes; docs/results/many-files.json

The images of CIFAR-100 are written as PNG files, some of them twice, and given to the shipped run at half depth. Two in
five answers in, the process gets a SIGINT; what it has written must be whole. A second run must go on from there, and
every file must have one answer in the end. The size of the process is read from /proc twice a second: its largest
growth after the first tenth of the answers is what is meant by flat.
"""

from __future__ import annotations

import argparse
import csv
import json
import signal
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from PIL import Image

from frost.checkpoint import load
from frost.evaluation.datasets import data_of

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "many-files.json"
COUNT, TOGETHER, INTERRUPTED_AT, WARM = 100_000, 1000, 0.4, 0.1


class Ran(NamedTuple):
    """One process."""

    status: int
    seconds: float
    sizes: list[tuple[int, float]]    # answers so far, and the size of the process in MB


def write_images(folder: Path, data: Path, count: int) -> None:
    """`count` files in folders of a thousand."""
    images = data_of(load("cifar100-cpu", with_calibration=False), data, download=False).train
    for first in range(0, count, TOGETHER):
        part = folder / f"{first // TOGETHER:03}"
        part.mkdir(parents=True)
        rows = torch.arange(first, min(first + TOGETHER, count)) % len(images)
        pixels = (images.batch(rows) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
        for number, image in enumerate(pixels):
            Image.fromarray(image).save(part / f"{number:03}.png", compress_level=1)


def answers(out: Path) -> list[dict[str, str]]:
    """What is written; a line that is not whole has another number of fields."""
    with out.open(newline="") as file:
        return list(csv.DictReader(file, restval="missing"))


def predict(folder: Path, out: Path, stop_at: int | None = None) -> Ran:
    """Run the command, watch its size, and press Ctrl-C once if asked to."""
    words = [sys.executable, "-m", "frost", "predict", "cifar100-cpu", str(folder), "--mean-depth", "4", "--out",
             str(out)]
    started, sizes, is_told = time.monotonic(), [], False
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=errors)
        while process.poll() is None:
            time.sleep(0.5)
            done = out.read_bytes().count(b"\n") - 1 if out.exists() else 0
            try:
                size = Path(f"/proc/{process.pid}/status").read_text().split("VmRSS:")[1].split()[0]
            except (OSError, IndexError):
                continue    # it has just ended
            sizes.append((done, int(size) / 1024))
            if stop_at is not None and done >= stop_at and not is_told:
                process.send_signal(signal.SIGINT)
                is_told = True
        errors.seek(0)
        print(errors.read().decode().splitlines()[-1:])
    return Ran(process.returncode, time.monotonic() - started, sizes)


def growth(sizes: list[tuple[int, float]], count: int) -> dict[str, float]:
    """The size after the first tenth of the answers, and the largest later."""
    first = sizes[0][0]
    later = [size for done, size in sizes if done - first >= WARM * count]
    return {"mb_after_a_tenth": later[0], "mb_largest_later": max(later), "mb_growth": max(later) - later[0]}


def main() -> int:
    """Write, interrupt, go on; status 1 if an answer is missing, twice or torn."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--count", type=int, default=COUNT)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder, out = Path(scratch) / "images", Path(scratch) / "answers.csv"
        write_images(folder, options.data, options.count)
        first = predict(folder, out, stop_at=int(INTERRUPTED_AT * options.count))
        half = answers(out)
        second = predict(folder, out)
        whole = answers(out)
        names = [str(path) for path in sorted(folder.rglob("*.png"))]
    is_whole = {
        "interrupted": first.status == 130 and len(half) < options.count,
        "valid_after_interrupt": all("missing" not in row.values() and None not in row for row in half),
        "went_on": second.status == 0 and whole[:len(half)] == half,
        "one_answer_each": [next(islice(row.values(), 1)) for row in whole] == names}
    result = {"command": "python benchmarks/many_files.py --data DIR", "files": options.count,
              "answers_at_interrupt": len(half), "answers": len(whole), **is_whole,
              "first_run": growth(first.sizes, options.count), "second_run": growth(second.sizes, options.count),
              "images_per_second": (len(whole) - len(half)) / second.seconds}
    print(json.dumps(result, indent=1))
    if options.count == COUNT:
        RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(is_whole.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
