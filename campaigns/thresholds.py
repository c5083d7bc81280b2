"""Sketch, calibration and thresholds (F12, F13, F14): errors within their bound, damage found, depth monotone.

    python campaigns/thresholds.py

F12 fills and merges sketches of four kinds of numbers and compares ranks with sorting; the control keeps the first k
numbers. F13 damages a stored calibration and reads it; the control reads the same fields without a checksum. F14 asks
for every image's depth at two quantiles; the control reads q as the share that exits, as the paper's text does. Figures
go to docs/results/campaigns.json.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import sys
from collections.abc import Callable

import numpy as np
import torch
from hostile_data import record

from frost.halting.calibration import Calibration
from frost.halting.cost import Cost
from frost.halting.sketch import KllSketch, rank_error
from frost.halting.stopping import Rule, first_passage

KINDS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "uniform": lambda generator, n: generator.random(n),
    "beta": lambda generator, n: generator.beta(0.3, 3.0, n),
    "constant": lambda generator, n: np.full(n, 0.25),
    "sorted": lambda generator, n: np.sort(generator.normal(size=n)),
}
QUANTILES = np.linspace(0.02, 0.98, 25)


def worst_error(answers: np.ndarray, values: np.ndarray) -> float:
    """The largest distance of a quantile's answer from its place in the sorted stream, as a share of n."""
    ordered = np.sort(values)
    low = np.searchsorted(ordered, answers, side="left") / values.size
    high = np.searchsorted(ordered, answers, side="right") / values.size
    return float(np.maximum(np.maximum(low - QUANTILES, QUANTILES - high), 0.0).max())


def sketched(values: np.ndarray, k: int, ranks: int, seed: int) -> np.ndarray:
    """Quantiles of a stream that was cut among several ranks, each with a sketch of its own, and merged."""
    parts = [KllSketch(k=k, seed=seed + rank) for rank in range(ranks)]
    for part, chunk in zip(parts, np.array_split(values, ranks), strict=True):
        part.update(chunk)
    for part in parts[1:]:
        parts[0].merge(part)
    return np.array([parts[0].quantile(q) for q in QUANTILES])


def sketches(count: int, seed: int) -> int:
    """F12."""
    generator = np.random.default_rng(seed)
    beyond = inexact = naive = 0
    for number in range(count):
        kind = list(KINDS)[number % len(KINDS)]
        k, ranks = int(generator.choice([200, 800, 2048])), int(generator.integers(1, 17))
        values = KINDS[kind](generator, int(10 ** generator.uniform(1, 5)))
        error = worst_error(sketched(values, k, ranks, number), values)
        beyond += error > rank_error(k) + 1 / values.size
        inexact += values.size <= k and error > 1 / values.size
        naive += worst_error(np.quantile(values[:k], QUANTILES, method="inverted_cdf"), values) > rank_error(k) + 1e-3
    print(f"F12: {count} sketches, {beyond} beyond the bound (1 % allowed), {inexact} inexact while n ≤ k; "
          f"control, the first k numbers: {naive} beyond it")
    record("F12", {"n": count, "seed": seed, "failures": beyond, "allowed": count // 100, "inexact": inexact,
                   "control": {"the first k numbers": {"n": count, "beyond": naive}}})
    return int(beyond > count / 100 or inexact > 0 or not naive)


def damaged(stored: bytes, generator: random.Random) -> bytes:
    """One mutation: a bit, a byte, a cut, a repetition, or two places swapped."""
    place, other = sorted(generator.randrange(len(stored)) for _ in range(2))
    return generator.choice([
        lambda: stored[:place] + bytes([stored[place] ^ 1 << generator.randrange(8)]) + stored[place + 1:],
        lambda: stored[:place] + bytes([generator.randrange(256)]) + stored[place + 1:],
        lambda: stored[:place],
        lambda: stored[:place] + stored[other:],
        lambda: stored[:other] + stored[place:],
        lambda: stored[:place] + stored[other:other + 1] + stored[place + 1:other] + stored[place:place + 1]
        + stored[other + 1:],
    ])()


def outcome(stored: bytes, read: Callable[[dict], object]) -> str:
    """What reading does: refused, read, or crashed."""
    try:
        values = json.loads(stored.decode("utf-8"))
        read(values)
    except (ValueError, RecursionError):
        return "refused"
    except Exception as error:
        return f"crashed: {type(error).__name__}: {error}"
    return "read"


def trusting(values: dict) -> object:
    """The control: the same fields, taken at their word."""
    shape = (values["images"], values["depth"])
    traces = np.frombuffer(base64.b64decode(values["signals"][values["rule"]]), "<f4").reshape(shape)
    return Rule(values["rule"], (float(np.median(traces)),))


def calibrations(count: int, seed: int) -> int:
    """F13."""
    torch.manual_seed(seed)
    logits = torch.randn(300, 8)
    ours = Calibration.gather(logits, logits > 0, weights_hash="0" * 64, cost=Cost(10, 0, 5), k=64)
    plain = ours.to_dict()
    stored = json.dumps(plain).encode()
    generator = random.Random(seed)
    mutations = [damaged(stored, generator) for _ in range(count)]
    mutations = [mutation for mutation in mutations if _meaning(mutation) != plain]    # a space more is no damage
    outcomes = [outcome(mutation, Calibration.from_dict) for mutation in mutations]
    naive = sum(outcome(mutation, trusting) == "read" for mutation in mutations)
    failures = [text for text in outcomes if text != "refused"]
    for text in failures[:5]:
        print(f"FAILURE {text}")
    print(f"F13: {len(mutations)} damaged calibrations, {len(failures)} not refused; control without a checksum: "
          f"{naive} read")
    record("F13", {"n": len(mutations), "seed": seed, "failures": len(failures),
                   "control": {"no checksum": {"n": len(mutations), "read": naive}}})
    return int(bool(failures) or not naive)


def _meaning(stored: bytes) -> object:
    try:
        return json.loads(stored.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def depths(count: int, seed: int) -> int:
    """F14."""
    generator = torch.Generator().manual_seed(seed)
    violations = not_full = naive = 0
    for _ in range(count):
        steps = int(torch.randint(2, 17, (), generator=generator))
        held_out, fresh = (torch.randn(64, steps, generator=generator) * 4 for _ in range(2))
        ours = Calibration.gather(held_out, weights_hash="", k=64)
        low, high = sorted(torch.rand(2, generator=generator).tolist())
        first, second, full = (first_passage(ours.at_quantile(q).stops(fresh)) for q in (low, high, 1.0))
        violations += int((first > second).sum())
        not_full += int((full != steps).sum())
        exits = [first_passage(ours.at_quantile(1 - q).stops(fresh)) for q in (low, high)]
        naive += int((exits[0] > exits[1]).any())
    print(f"F14: {count} pairs of quantiles, {violations} images that stop later at the lower one, {not_full} that "
          f"stop early at quantile 1; control, q as the share that exits: {naive} pairs the wrong way round")
    record("F14", {"n": count, "seed": seed, "failures": violations + not_full,
                   "control": {"q as the share that exits": {"n": count, "wrong way round": naive}}})
    return int(violations + not_full > 0 or not naive)


def main() -> int:
    """Run the three; status 1 if one fails, or if a control does not."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the full size")
    options = parser.parse_args()
    return (sketches(int(400 * options.share), options.seed) | calibrations(int(5200 * options.share), options.seed)
            | depths(int(2000 * options.share), options.seed))


if __name__ == "__main__":
    sys.exit(main())
