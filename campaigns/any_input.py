"""Every kind of input and head among mates: vectors, tokens with masks, dense answers, recurrences (kinds.py).

    python campaigns/any_input.py

Needles are hidden among other inputs at three numbers of slots; each must have the bits that it has alone. A kind whose
kernels round by a row's place, as `frost.check_batch_invariance` finds, must agree to 1e-5 instead, at the same depth.
The control is a block that looks across the batch. Figures go to docs/results/campaigns.json.
"""

from __future__ import annotations

import argparse
import random
import sys
from typing import Any

import torch
from hostile_data import record
from kinds import KINDS
from torch import Tensor, nn

import frost
from frost.core.inputs import mapped, row
from frost.core.trajectory import IterativeModel
from frost.runtime.live import Result

SLOTS = (5, 16, 13)    # also numbers that no vector is long
POOL = 64              # inputs of a kind


class Across(nn.Module):
    """What must be noticed: a block that takes the mean of the batch off."""

    def forward(self, hidden: Tensor) -> Tensor:
        """Not a function of one row."""
        return torch.tanh(hidden - hidden.mean(dim=0))


def differs(result: Result, alone: Result, exactly: bool) -> bool:
    """Whether an answer is another one than alone."""
    assert result.output is not None
    assert alone.output is not None
    if (result.depth, result.output.shape) != (alone.depth, alone.output.shape):
        return True
    if exactly:
        return result.score != alone.score or not torch.equal(result.output, alone.output)
    return not torch.allclose(result.output, alone.output, rtol=1e-5, atol=1e-5)


def hidden(model: IterativeModel, inputs: Any, count: int, generator: random.Random) -> tuple[int, int, bool]:
    """Needles tried, those with another answer, and whether the model was compared bit for bit."""
    found = frost.check_batch_invariance(model, mapped(lambda part: part[:12], inputs), slots=SLOTS[0])
    tried = failures = 0
    for slots in SLOTS:
        engine = frost.Engine(model, frost.stop_when(score=0.5), slots=slots, example=row(inputs, 0))
        alone: dict[int, Result] = {}
        while tried < count * (SLOTS.index(slots) + 1) // len(SLOTS):
            places = [generator.randrange(POOL) for _ in range(generator.randrange(1, 3 * slots))]
            stream = [frost.Request(row(inputs, place), place, generator.choice([None, None, 1, model.depth]))
                      for place in places]
            for request, result in zip(stream, engine.run(stream), strict=True):
                if request.depth is None:
                    if result.key not in alone:
                        alone[result.key] = next(iter(engine.run([frost.Request(row(inputs, result.key))])))
                    tried += 1
                    failures += differs(result, alone[result.key], bool(found))
    return tried, failures, bool(found)


def needles(count: int, seed: int) -> int:
    """All kinds, with one thread and with two."""
    generator = random.Random(seed)
    tried = failures = exact = 0
    threads = torch.get_num_threads()
    for name, kind in KINDS.items():
        inputs, _ = kind.batch(POOL, seed)
        for number in (1, 2):
            torch.set_num_threads(number)
            some, bad, exactly = hidden(kind.model(seed), inputs, count // 2, generator)
            tried, failures, exact = tried + some, failures + bad, exact + exactly
            print(f"{name}, {number} thread(s): {some} needles, {bad} with another answer, compared "
                  f"{'bit for bit' if exactly else 'to 1e-5'}", flush=True)
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    across = frost.Frost(nn.Linear(6, 8), Across(), channels=8, classes=3, depth=4).eval()
    _, noticed, _ = hidden(across, torch.randn(POOL, 6), count, generator)
    print(f"inputs: {tried} needles of {len(KINDS)} kinds, {failures} with another answer; control, a block that looks "
          f"across the batch: {noticed} of {count}")
    record("inputs", {"n": tried, "seed": seed, "failures": failures, "kinds": len(KINDS),
                      "bit for bit": f"{exact} of {2 * len(KINDS)}",
                      "control": {"a block that looks across the batch": {"n": count, "other answers": noticed}}})
    return int(bool(failures) or not noticed)


def main() -> int:
    """Five hundred needles of each kind."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--count", type=int, default=500)
    words.add_argument("--seed", type=int, default=0)
    given = words.parse_args()
    return needles(given.count, given.seed)


if __name__ == "__main__":
    sys.exit(main())
