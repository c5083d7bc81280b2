"""What docs/scaling.md reckons with: processor time an image at each budget, and what the driver does for a row.

    .venv-cluster/bin/python benchmarks/scaling.py [--images 3000]

Processor time and not the clock, so that a busy machine measures the same; the least of three. Figures go to
docs/results/scaling.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from PIL import Image

from frost.cluster.answerfolder import answer_folder
from frost.cluster.listed import listed_rows
from frost.commands.predict import predict
from frost.evaluation.budget import Budget

RUN = "cifar100-cpu"
BUDGETS = {"full depth": Budget(), "mean depth 2.5": Budget(mean_depth=2.5), "mean depth 2.1": Budget(mean_depth=2.1),
           "mean depth 1.5": Budget(mean_depth=1.5)}
RESULTS = Path(__file__).parent.parent / "docs" / "results" / "scaling.json"


def images(folder: Path, count: int) -> Path:
    """Smooth pictures of 32 × 32, and a list of them."""
    generator = np.random.default_rng(0)
    for number in range(count):
        small = Image.fromarray(generator.integers(0, 256, (6, 6, 3), dtype=np.uint8))
        small.resize((32, 32), Image.Resampling.BICUBIC).save(folder / f"{number:06d}.png")
    listed = folder / "list.txt"
    listed.write_text("".join(f"{folder}/{number:06d}.png\n" for number in range(count)))
    return listed


def least(work: Callable[[], object]) -> float:
    """Processor seconds, the least of three."""
    seconds = []
    for _ in range(3):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds)


def rates(listed: Path, count: int) -> dict[str, int]:
    """Images that a processor answers in a second, reading and decoding included."""
    return {name: round(count / least(lambda: predict(RUN, [], budget, listed=listed)))  # noqa: B023
            for name, budget in BUDGETS.items()}


def driver(folder: Path, rows: int = 1_000_000, block: int = 1000) -> dict[str, float]:
    """Rows a second that the driver takes and writes, and the bytes that it keeps for each name."""
    blocks = [pa.table({"file": [f"/data/pictures/{row:09d}.png" for row in range(start, start + block)],
                        "label": np.arange(block), "class": ["apple"] * block, "confidence": np.random.rand(block),
                        "depth": np.full(block, 2), "score": np.random.rand(block),
                        "error": pa.nulls(block, pa.string()), "row": np.arange(start, start + block)})
              for start in range(0, rows, block)]

    def write() -> None:
        place = Path(tempfile.mkdtemp(dir=folder)) / "out"
        with answer_folder(place, {}, rows, rows // 100) as answers:
            for table in blocks:
                answers.add(table)
    listed = folder / "million.txt"
    listed.write_text("".join(f"/data/pictures/{row:09d}.png\n" for row in range(rows)))
    seconds, listing = least(write), least(lambda: listed_rows(listed))
    return {"rows a second": round(rows / seconds), "names read a second": round(rows / listing),
            "bytes a name": round(listed_rows(listed).table.nbytes / rows)}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=int, default=3000)
    count = parser.parse_args().images
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        found = {"run": RUN, "images a processor second": rates(images(Path(name), count), count),
                 "driver": driver(Path(name))}
    print(json.dumps(found, indent=1))
    found = {"command": ".venv-cluster/bin/python benchmarks/scaling.py --images 3000", **found}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
