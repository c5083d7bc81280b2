"""More requests than a server can answer, clients that go away, ends and long days: F22, F24, F26, F28.

Of `campaigns/service.py`. Each takes a folder for its files, the share of its full size and a seed, and gives its
figures; a control that does not fail counts as a failure of the campaign.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from bodies import pictures, untrained
from clients import BROKEN, REFUSED, Got, Load, Plain, Process, Served, capacity, quantile, request_of

LONGEST_DRAIN = 10.0       # seconds
RECOVERY = 5.0             # seconds after an overload until an answer takes what it took before
SLOPE = 0.5                # MB a minute
SLOW = {"depth": 4}        # a step of a ViT-B/16; four of them, so that a minute holds enough answers
FREE = 3                   # steps: one before the client goes, the one under way then, one until it is seen
JPEG, PNG = "image/jpeg", "image/png"


def slow_run(folder: Path) -> tuple[str, list[bytes]]:
    """A run whose step takes 20 ms and more, and requests for it: the load generator does not eat the cores."""
    run = folder / "vit"
    path = str(run) if run.exists() else untrained(run, **SLOW)
    return path, [request_of(body, JPEG) for body in pictures(32, 224, 0, "JPEG")]


def small_requests(seed: int) -> list[bytes]:
    """Requests for the shipped run `digits`."""
    return [request_of(body, PNG) for body in pictures(64, 8, seed, channels=1)]


def f22(folder: Path, share: float, seed: int) -> dict[str, Any]:
    """Four times the capacity in an open loop."""
    run, requests = slow_run(folder)
    seconds = max(6.0, 60 * share)
    with Served(run, "--slots", "16") as server:
        ours = _overloaded(server, requests, seconds, seed)
    with Served(run, "--slots", "16", "--max-queue", "1000000") as server:
        endless = _overloaded(server, requests, min(seconds, 20.0), seed)
    faults = [name for name, holds in {
        "goodput": ours["goodput"] >= 0.9, "rejects": not ours["others"], "recovery": ours["normal after"] <= RECOVERY,
        "control": endless["p99 seconds"] > 3 * ours["p99 seconds"]}.items() if not holds]
    return {"n": ours["requests"], "failures": len(faults), "faults": faults, **ours,
            "control": {"a queue without end": {"p99 seconds": endless["p99 seconds"], "goodput": endless["goodput"],
                                                "normal after": endless["normal after"]}}}


def _overloaded(server: Process, requests: list[bytes], seconds: float, seed: int) -> dict[str, Any]:
    """Capacity, four times of it, and how soon an answer takes as long as before."""
    able = capacity(server, requests, max(4.0, seconds / 6))
    idle = max(got.seconds for got in asyncio.run(_one_by_one(server, requests, 5)))
    step = server.get("/stats")["runs"]["vit"]["last_step"]

    async def all_of_it() -> tuple[list[Got], float]:
        load = Load(server.port, requests, connections=4000, keep=False, seed=seed)
        sending = asyncio.create_task(load.open(seconds, 4 * able))
        await asyncio.sleep(seconds)
        ended = time.perf_counter()
        while time.perf_counter() - ended < 60:
            got = await _probe(server, requests)
            if got.status == 200 and got.seconds <= 2 * idle:
                break
            await asyncio.sleep(0.1)
        return await sending, time.perf_counter() - ended

    found, normal = asyncio.run(all_of_it())
    statuses = Counter(got.status for got in found)
    good = sum(got.status == 200 and got.at <= seconds for got in found)
    return {"requests": len(found), "capacity": round(able, 2), "goodput": round(good / seconds / able, 3),
            "others": sum(count for status, count in statuses.items() if status not in (200, 429)),
            "rejected": statuses[429], "p99 seconds": round(quantile(found, 0.99), 2),
            "normal after": round(normal, 2), "idle step seconds": round(step, 4)}


async def _probe(server: Process, requests: list[bytes]) -> Got:
    load = Load(server.port, requests, connections=1, keep=False)
    load.began = time.perf_counter()
    await load.one(0, load.began)
    return load._ended()[0]


async def _one_by_one(server: Process, requests: list[bytes], count: int) -> list[Got]:
    return [await _probe(server, requests) for _ in range(count)]


def f24(folder: Path, share: float, seed: int) -> dict[str, Any]:
    """Half of the requests of each round go away; their slots must be free in the step after the one under way."""
    run, requests = slow_run(folder)
    rounds = max(4, round(100 * share))
    with Served(run, "--slots", "16") as server:
        late, lost, longest = asyncio.run(_aborts(server, requests, rounds, seed))
        computed = server.get("/stats")["runs"]["vit"]["answered"]
    with Plain(run) as plain:
        wasted = asyncio.run(_plain_aborts(plain, requests))
    return {"n": 20 * rounds, "failures": late + lost + int(not wasted), "aborted": 10 * rounds, "answered": computed,
            "most steps until free": longest,
            "control": {"a plain server": {"n": 10, "computed for nobody": wasted}}}


async def _aborts(server: Process, requests: list[bytes], rounds: int, seed: int) -> tuple[int, int, int]:
    """Rounds in which a slot was free too late, requests without an answer, and the most steps until all were free."""
    chance, late, lost, longest = random.Random(seed), 0, 0, 0
    for _ in range(rounds):
        load = Load(server.port, requests, connections=10, keep=False)
        staying = [asyncio.create_task(load.one(place, time.perf_counter())) for place in range(10)]
        leaving = []
        for place in range(10):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(requests[place])
            leaving.append(writer)
        await asyncio.sleep(0.05 + 0.2 * chance.random())
        before = (await asyncio.to_thread(server.get, "/stats"))["runs"]["vit"]
        for writer in leaving:
            writer.transport.abort()
        steps = await _until_free(server, staying, before["steps"])
        longest, late = max(longest, steps), late + (steps > FREE)
        await asyncio.gather(*staying)
        lost += sum(got.status != 200 for got in load._ended())
    return late, lost, longest


async def _until_free(server: Process, staying: list[asyncio.Task[None]], steps: int) -> int:
    """Steps of the engine until it holds no more inputs than there are clients that wait."""
    while True:
        waiting = sum(not task.done() for task in staying)
        now = (await asyncio.to_thread(server.get, "/stats"))["runs"]["vit"]
        if now["occupied"] + now["waiting"] <= waiting or now["steps"] - steps > 40:
            return int(now["steps"] - steps)
        await asyncio.sleep(0.002)


async def _plain_aborts(plain: Process, requests: list[bytes]) -> int:
    """What a plain server computes for ten clients that have gone."""
    writers = []
    for place in range(10):
        _, writer = await asyncio.open_connection("127.0.0.1", plain.port)
        writer.write(requests[place])
        writers.append(writer)
    await asyncio.sleep(0.1)
    for writer in writers:
        writer.transport.abort()
    await asyncio.sleep(8)
    return int((await asyncio.to_thread(plain.get, "/stats"))["computed"])


def f26(folder: Path, share: float, seed: int) -> dict[str, Any]:
    """SIGTERM under load, again and again: what was accepted is answered. The control is SIGKILL."""
    drains, chance = max(2, round(30 * share)), random.Random(seed)
    requests, answered, lost, slow, bad_exit, longest = small_requests(seed), 0, 0, 0, 0, 0.0
    for _ in range(drains):
        found, status, took = _drained(requests, chance, "terminate")
        answered += sum(got.status == 200 for got in found)
        lost += sum(got.status not in (200, 429, 503) for got in found)
        slow, bad_exit, longest = slow + (took > LONGEST_DRAIN), bad_exit + (status != 0), max(longest, took)
    killed, _, _ = _drained(requests, chance, "kill")
    broken = sum(got.status == BROKEN for got in killed)
    return {"n": drains, "failures": lost + slow + bad_exit + int(not broken), "answered": answered, "lost": lost,
            "too slow": slow, "exit not 0": bad_exit, "longest seconds": round(longest, 2),
            "control": {"SIGKILL": {"requests lost": broken}}}


def _drained(requests: list[bytes], chance: random.Random, how: str) -> tuple[list[Got], int, float]:
    """Requests until after the signal; those that were sent before, or got a connection after, and what came."""
    with Served("digits") as server:
        async def run() -> tuple[list[Got], float]:
            load = Load(server.port, requests, connections=32, keep=False)
            stop = asyncio.Event()

            async def again(first: int) -> None:
                place = first
                while not stop.is_set():
                    await load.one(place, time.perf_counter())
                    place += 32
                    if load.found[-1].status in (BROKEN, 503):
                        return
            load.began = time.perf_counter()
            tasks = [asyncio.create_task(again(first)) for first in range(32)]
            await asyncio.sleep(0.3 + 0.5 * chance.random())
            began = time.perf_counter()
            getattr(server.process, how)()
            await asyncio.to_thread(server.process.wait, 30)
            took = time.perf_counter() - began
            stop.set()
            await asyncio.gather(*tasks)
            return [got for got in load._ended() if not _refused(got)], took
        found, took = asyncio.run(run())
        return found, server.process.returncode, took


def _refused(got: Got) -> bool:
    """A connection that could not be made: nothing was accepted."""
    return got.status == BROKEN and got.body == REFUSED


def f28(folder: Path, share: float, seed: int) -> dict[str, Any]:
    """A long day at 70 % load with bad requests and clients that go away."""
    seconds = max(20.0, 600 * share)
    requests = small_requests(seed)
    bad = [request_of(b"\x89PNG no picture", PNG), request_of(b"{", "application/json"),
           request_of(b"x", "text/plain"), request_of(b"[]", "application/json", "/predict?depth=0"),
           request_of(requests[0][-60:], PNG, "/runs/nobody/predict")]
    mixed = [bad[place % len(bad)] if place % 20 == 7 else requests[place % len(requests)] for place in range(200)]
    with Served("digits") as server:
        ours = _watched(server, mixed, requests, seconds, seed)
        tracebacks = server.tracebacks
    with Plain("digits", "--keep") as plain:
        leak = _watched(plain, requests, requests, min(seconds, 30.0), seed)
    faults = [name for name, holds in {
        "slope": ours["slope mb a minute"] <= SLOPE, "descriptors": ours["descriptors"][0] == ours["descriptors"][1],
        "threads": ours["threads"][0] == ours["threads"][1], "statuses": not ours["others"], "log": not tracebacks,
        "control": leak["slope mb a minute"] > SLOPE}.items() if not holds]
    ours["descriptors"], ours["threads"] = (" → ".join(map(str, ours[name])) for name in ("descriptors", "threads"))
    return {"n": ours["requests"], "failures": len(faults), "faults": faults, "seconds": seconds, **ours,
            "control": {"a server that keeps bodies": {"slope mb a minute": leak["slope mb a minute"]}}}


def _watched(server: Process, mixed: list[bytes], good: list[bytes], seconds: float, seed: int) -> dict[str, Any]:
    """Memory, descriptors and threads while requests come at 70 % of the capacity."""
    able = capacity(server, good, 5.0)
    statuses: Counter[int] = Counter()
    times, sizes = [], []

    async def all_of_it() -> tuple[tuple[int, int], tuple[int, int]]:
        load = Load(server.port, mixed, connections=64, keep=False, spoil=0.05, seed=seed,
                    watch=lambda got: statuses.update([got.status]))
        warm = min(30.0, seconds / 4)
        await load.open(warm, 0.7 * able)
        await asyncio.sleep(1.0)
        before = (server.descriptors, server.status("Threads"))
        statuses.clear()
        sending = asyncio.create_task(load.open(seconds, 0.7 * able))
        while not sending.done():
            times.append(time.monotonic())
            sizes.append(server.megabytes)
            await asyncio.sleep(min(1.0, seconds / 60))
        await sending
        await asyncio.sleep(1.0)
        return before, (server.descriptors, server.status("Threads"))

    before, after = asyncio.run(all_of_it())
    slope = float(np.polyfit(np.array(times) - times[0], sizes, 1)[0]) * 60
    return {"requests": sum(statuses.values()), "others": sum(
        count for status, count in statuses.items() if status not in (200, 400, 404, 415, 422)),
        "bad": sum(statuses[status] for status in (400, 404, 415, 422)), "capacity": round(able),
        "slope mb a minute": round(slope, 3), "megabytes": round(sizes[-1], 1),
        "descriptors": (before[0], after[0]), "threads": (before[1], after[1])}
