"""Answers under load: the same bits in strict mode (needles), and fewer steps instead of refusals (budgets).

Of `campaigns/service.py`. Budgets are judged by labelled CIFAR-100 test images, which the shipped run has not seen.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bodies import npy, picture
from clients import Got, Load, Plain, Process, Served, capacity, quantile, request_of

RUN = "cifar100-cpu"
NPY, PNG = "application/x-npy", "image/png"
FLOOR = 1.75              # steps, that `shallower` may go down to: 1.9 points on validation images
WAY = 0.7                # of a deadline, that a client leaves to the server; the rest is for the way
BACKEND = ("--backend", "eager")    # what serves where nothing was measured
IN_TIME, LOST = 0.99, 2.0   # of the requests; points


def needles(folder: Path, share: float, seed: int) -> dict[str, Any]:
    """Inputs among neighbours of every kind, in strict mode: the bits of the answer that each gets alone."""
    count, generator = max(200, round(5000 * share)), np.random.default_rng(seed)
    own = [request_of(npy(generator.random((3, 32, 32), dtype=np.float32)), NPY, f"/predict?{budget}")
           for budget in ("mean_depth=2", "depth=3", "quantile=0.5", "mean_depth=1.5") for _ in range(25)]
    with Served(RUN, "--strict", "--under-load", "shed", "--max-queue", "100000") as server:
        alone = asyncio.run(_alone(server, own))
        differ, lost = asyncio.run(_among(server, own, alone, count, seed))
    with Served(RUN, "--under-load", "shed", "--max-queue", "100000") as server:
        alone = asyncio.run(_alone(server, own))
        ladder, _ = asyncio.run(_among(server, own, alone, 500, seed))
    return {"n": count, "failures": differ + lost + int(not ladder), "other bits": differ, "lost": lost,
            "control": {"batches that shrink": {"n": 500, "other bits": ladder}}}


def neighbours(seed: int) -> list[bytes]:
    """Requests beside the needles: noise, and values that no image has."""
    generator = np.random.default_rng(seed + 1)
    arrays = [generator.random((3, 32, 32), dtype=np.float32) for _ in range(6)]
    arrays += [np.full((3, 32, 32), value, np.float32) for value in (np.nan, np.inf, -np.inf, 3e38, 0.0, 1e-40)]
    return [request_of(npy(array), NPY, f"/predict?depth={1 + place % 3}") for place, array in enumerate(arrays)]


async def _alone(server: Process, requests: Sequence[bytes]) -> list[bytes]:
    """The answers on an idle server, one after the other."""
    load = Load(server.port, requests, connections=1)
    for place in range(len(requests)):
        await load.one(place, time.perf_counter())
    found = load._ended()
    if any(got.status != 200 for got in found):
        raise RuntimeError(f"a needle has no answer: {next(got for got in found if got.status != 200)}")
    return [got.body for got in found]


async def _among(server: Process, own: Sequence[bytes], alone: Sequence[bytes], count: int,
                 seed: int) -> tuple[int, int]:
    """Needles whose bits differ under load, and those without an answer."""
    mates, chance = neighbours(seed), random.Random(seed)
    noise = Load(server.port, mates, connections=48, keep=False, spoil=0.02, seed=seed)
    load = Load(server.port, own, connections=16)
    is_over = False

    async def crowd() -> None:
        while not is_over:
            await noise.one(chance.randrange(len(mates)), time.perf_counter())
            await asyncio.sleep(0.02 * chance.random())

    crowds = [asyncio.create_task(crowd()) for _ in range(48)]

    async def ask(first: int) -> None:
        for _ in range(first, count, 16):
            await load.one(chance.randrange(len(own)), time.perf_counter())
    await asyncio.gather(*(ask(first) for first in range(16)))
    is_over = True
    await asyncio.gather(*crowds)
    noise._ended()
    found = load._ended()
    return (sum(got.status == 200 and got.body != alone[got.place] for got in found),
            sum(got.status != 200 for got in found))


def budgets(data: Path) -> Any:
    """The campaign with these images."""
    def campaign(folder: Path, share: float, seed: int) -> dict[str, Any]:
        """1.5 times the capacity at full depth: `shallower`, `shed`, and a plain server at full depth."""
        seconds = max(8.0, 60 * share)
        with Served(RUN, *BACKEND) as server:
            requests, labels = labelled(data)
            able = capacity(server, requests, max(4.0, seconds / 6))
            deadline = 5 * quantile(server.open(requests, seconds / 3, able / 2, seed=seed), 0.5)
            requests, _ = labelled(data, f"/predict?deadline_ms={1000 * WAY * deadline:.1f}")
            shed = _judged(server.open(requests, seconds, 1.5 * able, seed=seed), labels, deadline)
        with Served(RUN, *BACKEND, "--under-load", "shallower", "--floor", str(FLOOR)) as server:
            server.closed(requests, 2.0)
            ours = _judged(server.open(requests, seconds, 1.5 * able, seed=seed), labels, deadline)
        with Plain(RUN) as plain:
            plain.closed(requests, 2.0)    # a few seconds, which keep it busy for minutes
            full = _judged(plain.open(requests, seconds / 8, 1.5 * able, seed=seed), labels, deadline)
        lost = round(100 * (full["right"] - ours["right"]), 2)
        failures = int(ours["in time"] < IN_TIME) + int(lost > LOST) + int(full["in time"] >= IN_TIME)
        return {"n": ours["requests"], "failures": failures, "in time": ours["in time"], "points lost": lost,
                "right": ours["right"], "mean depth": ours["mean depth"], "capacity": round(able, 1),
                "deadline ms": round(1000 * deadline, 1), "control": {"shed": shed, "a plain server": full}}
    return campaign


def labelled(data: Path, path: str = "/predict") -> tuple[list[bytes], np.ndarray]:
    """The CIFAR-100 test images as requests, and their labels."""
    from frost.data.cifar import CIFAR100, load_cifar

    test = load_cifar(data, CIFAR100).test
    pixels = test.images.permute(0, 2, 3, 1).numpy()
    return [request_of(picture(one), PNG, path) for one in pixels], test.labels.numpy()


def _judged(found: Sequence[Got], labels: np.ndarray, deadline: float) -> dict[str, Any]:
    """Shares of all requests in time and refused; of the answers, right ones and the mean depth."""
    good = [(got, json.loads(got.body)) for got in found if got.status == 200]
    return {"requests": len(found), "in time": round(sum(got.seconds <= deadline for got, _ in good) / len(found), 4),
            "refused": round(sum(got.status == 429 for got in found) / len(found), 4),
            "right": round(float(np.mean([answer["label"] == labels[got.place] for got, answer in good])), 4),
            "mean depth": round(float(np.mean([answer["depth"] for _, answer in good])), 3)}
