"""`python benchmarks/serving.py RUN`: throughput behind HTTP beside the engine's own, and what a queue that grows does.

An open loop sends 1.5 times what the server answers at full depth, with a deadline of five times the median at half
load: full depth and `shed`, then `shallower`. Answers are compared with the labels of the run's own test inputs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np

import frost
from frost.data.catalogue import BUNDLED
from frost.data.splits import as_float

sys.path.insert(0, str(Path(__file__).parents[1] / "campaigns"))

from bodies import npy
from clients import Got, Served, capacity, quantile, request_of


def shares(found: list[Got], labels: np.ndarray, deadline: float) -> str:
    """In time, refused, right, and the mean depth."""
    good = [got for got in found if got.status == 200]
    timely = sum(got.seconds <= deadline for got in good) / len(found)
    right = np.mean([np.array_equal(got.answer.get("labels", got.answer.get("label")), labels[got.place])
                     for got in good])
    depth = statistics.fmean(got.answer["depth"] for got in good)
    refused = sum(got.status == 429 for got in found) / len(found)
    return (f"{100 * timely:6.1f} % in time  {100 * refused:5.1f} % refused  {100 * right:6.2f} % of answers right  "
            f"mean depth {depth:5.2f}")


def main() -> None:
    """Measure one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", choices=sorted(BUNDLED))
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--floor", type=float, required=True)
    options = parser.parse_args()
    data = BUNDLED[options.run]().test
    inputs, labels = as_float(data.images[:2000]), data.labels[:2000].numpy()
    bodies = [npy(one) for one in inputs.numpy().astype(np.float32)]

    def requests(path: str = "/predict") -> list[bytes]:
        return [request_of(body, "application/x-npy", path) for body in bodies]

    run = frost.load(options.run)
    engine = frost.Engine(run.model, frost.AtDepth(run.model.depth), slots=64, ladder=True,
                          signals=tuple(run.calibration.signals))
    list(engine.run(inputs[:200]))
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < options.seconds / 2:
        count += len(list(engine.run(inputs)))
    own = count / (time.perf_counter() - began)

    with Served(options.run, "--backend", "eager") as server:
        able = capacity(server, requests(), options.seconds)
        print(f"{options.run}: engine {own:.0f}/s, behind HTTP {able:.0f}/s with 64 connections: {able / own:.2f}",
              flush=True)
        half = server.open(requests(), options.seconds, able / 2)
        deadline = 5 * quantile(half, 0.5)
        print(f"half load: p50 {200 * deadline:.1f} ms, p99 {1000 * quantile(half, 0.99):.1f} ms; deadline "
              f"{1000 * deadline:.1f} ms")
        # the server's is shorter: the answer has to come back, too
        timed = requests(f"/predict?deadline_ms={800 * deadline:.3f}")
        for name, sent in (("shed      ", requests()), ("  deadline", timed)):
            print(name, shares(server.open(sent, options.seconds, 1.5 * able), labels, deadline))
        print("idle      ", shares(server.open(requests(), options.seconds / 2, able / 10), labels, deadline))
    with Served(options.run, "--backend", "eager", "--under-load", "shallower", "--floor",
                str(options.floor)) as server:
        server.closed(requests(), 2.0)
        for name, sent in (("shallower ", requests()), ("  deadline", timed)):
            print(name, shares(server.open(sent, options.seconds, 1.5 * able), labels, deadline))


if __name__ == "__main__":
    main()
