"""Depths and answers of every backend on the same inputs, for a run.

    python benchmarks/backends.py cifar100-cpu --data DIR --mean-depth 1.5 [--backend eager compile onnxruntime]

All backends must give the same depth, except where a signal is within 1e-4 of its threshold. A lone input is timed on a
ladder and on one slot; memory is watched over a stream. Written to docs/results/backends.json.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import time
from pathlib import Path

import torch

from frost.checkpoint import load
from frost.core.trajectory import IterativeModel, evaluating
from frost.data.splits import as_float
from frost.evaluation.datasets import data_of
from frost.halting.signals import along
from frost.halting.stopping import Rule
from frost.runtime.backend import BACKENDS, BackendName
from frost.runtime.engine import Engine

RESULT = Path(__file__).parents[1] / "docs" / "results" / "backends.json"
NEAR = 1e-4


def main() -> int:
    """Compare; status 1 if a depth differs that is not near a threshold."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--mean-depth", type=float, required=True)
    parser.add_argument("--backend", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--stream", type=int, default=100_000, help="inputs whose memory is watched; 0 is none")
    options = parser.parse_args()
    run = load(options.run)
    rule = run.calibration.at_mean_depth(options.mean_depth)
    assert isinstance(rule, Rule)
    inputs = as_float(data_of(run, options.data, download=False).test.images)
    near = _near(run.model, rule, inputs)
    answers = {name: Engine(run.model, rule, slots=options.slots, backend=name).predict(inputs)
               for name in options.backend}
    base = answers[options.backend[0]]
    found = {}
    for name, ours in answers.items():
        differs = ours.depth != base.depth
        same = ~differs
        classes = ours.outputs.argmax(-1) != base.outputs.argmax(-1)
        found[name] = {"inputs": len(inputs), "mean depth": float(ours.depth.double().mean()),
                       "depths that differ": int(differs.sum()),
                       "of them near a threshold": int((differs & near).sum()),
                       "classes that differ at equal depth": int(classes[same].sum()),
                       "largest difference": float((ours.outputs - base.outputs)[same].abs().max()),
                       "lone on a ladder ÷ on one slot": _lone(run.model, rule, name, options.slots, inputs[:1]),
                       **_memory(Engine(run.model, rule, slots=options.slots, backend=name), inputs, options.stream)}
        print(name, found[name], flush=True)
    RESULT.write_text(json.dumps({"command": " ".join(["python benchmarks/backends.py", *sys.argv[1:]]),
                                  "threads": torch.get_num_threads(), "backends": found}, indent=2) + "\n")
    return int(any(row["depths that differ"] > row["of them near a threshold"] for row in found.values()))


def _memory(engine: Engine, inputs: torch.Tensor, count: int) -> dict[str, float]:
    """Growth of the process between a tenth and the end of a stream, in MB."""
    sizes = []
    for number, _ in enumerate(engine.run(inputs[place % len(inputs)] for place in range(count))):
        if number in (count // 10, count - 1):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            sizes.append(pages * resource.getpagesize() / 2**20)
    return {"stream": count, "growth in MB": round(sizes[1] - sizes[0], 1)} if sizes else {}


def _lone(model: IterativeModel, rule: Rule, backend: BackendName, slots: int, one: torch.Tensor) -> float:
    """Seconds of a lone input on a ladder up to so many slots ÷ on one slot; they take turns, the best of each."""
    engines = [Engine(model, rule, slots=count, backend=backend, ladder=True) for count in (slots, 1)]
    best = [math.inf, math.inf]
    for _ in range(300):
        for number, engine in enumerate(engines):
            started = time.perf_counter()
            engine.predict(one)
            best[number] = min(best[number], time.perf_counter() - started)
    return round(best[0] / best[1], 3)


def _near(model: IterativeModel, rule: Rule, inputs: torch.Tensor) -> torch.Tensor:
    """Inputs with a signal within 1e-4 of its threshold at some step."""
    each = torch.tensor([rule.thresholds[min(step, len(rule.thresholds) - 1)] for step in range(model.depth)])
    found = []
    with evaluating(model):
        for batch in inputs.split(500):
            whole = model(batch)
            values = along(rule.signal, whole.outputs, whole.score_logits, whole.states, whole.mask)
            found.append(((values.double() - each).abs() < NEAR).any(dim=1))
    return torch.cat(found)


if __name__ == "__main__":
    sys.exit(main())
