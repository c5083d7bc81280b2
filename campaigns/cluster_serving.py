"""A service of two replicas under load: one is killed, the queue is filled, one is taken away.

    .venv-cluster/bin/python campaigns/cluster_serving.py [--seconds 20]

Every request must end in an answer or in an error that its client sees; where nothing dies, in an answer. The figures
are printed as one JSON object, and go to docs/results/campaigns.json with --record.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np

import frost
from cluster import RUN, actors

CLIENTS, SLOTS = 12, 8
LONGEST = 40.0     # seconds that a client waits: an answer that takes longer is lost


class Load:
    """Clients that ask one after the other until they are told to stop."""

    def __init__(self, url: str) -> None:
        self.url, self.outcomes, self._stop = url, Counter[str](), threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _ask(self, number: int) -> None:
        picture = image(number)
        with httpx.Client(timeout=LONGEST) as client:
            while not self._stop.is_set():
                self.outcomes[ask(client, self.url, picture)] += 1

    def end(self) -> dict[str, int]:
        """Stop, and count what came."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        return dict(self.outcomes)


def image(number: int, count: int = 1) -> bytes:
    """Inputs as a file of NumPy's."""
    import io

    stream = io.BytesIO()
    shape = (3, 32, 32) if count == 1 else (count, 3, 32, 32)
    np.save(stream, np.random.default_rng(number).random(shape, dtype=np.float32))
    return stream.getvalue()


def ask(client: httpx.Client, url: str, body: bytes) -> str:
    """What becomes of one request."""
    headers = {"content-type": "application/x-npy"}
    try:
        return str(client.post(f"{url}/predict", content=body, headers=headers).status_code)
    except httpx.TimeoutException:
        return "lost"
    except httpx.HTTPError as error:
        return type(error).__name__


def filled(url: str) -> dict[str, int]:
    """Far more inputs at a time than the queues hold."""
    outcomes: Counter[str] = Counter()

    def flood(number: int) -> None:
        with httpx.Client(timeout=LONGEST) as client:
            outcomes[ask(client, url, image(number, 64))] += 1
    threads = [threading.Thread(target=flood, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return dict(outcomes)


def until(done: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something."""
    limit = time.monotonic() + seconds
    while not done():
        if time.monotonic() > limit:
            raise RuntimeError("it did not come about in time.")
        time.sleep(0.1)


def serving(seconds: float) -> dict[str, Any]:
    """The whole story, with so many seconds of load in all."""
    import ray
    from ray import serve

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    serve.start(http_options={"port": port})
    url = f"http://127.0.0.1:{port}"
    try:
        serve.run(frost.cluster.deployment(RUN, slots=SLOTS, replicas=2), name="frost", logging_config={
            "log_level": "ERROR", "enable_access_log": False})
        full = filled(url)
        load = Load(url)
        time.sleep(seconds / 2)
        victim = actors()[0]
        os.kill(victim, signal.SIGKILL)
        until(lambda: len([number for number in actors() if number != victim]) == 2)
        killed = load.end()
        until(lambda: serve.status().applications["frost"].status == "RUNNING")
        load = Load(url)
        time.sleep(seconds / 4)
        serve.run(frost.cluster.deployment(RUN, slots=SLOTS, replicas=1), name="frost", logging_config={
            "log_level": "ERROR", "enable_access_log": False})
        until(lambda: len(actors()) == 1)
        time.sleep(seconds / 4)
        drained = load.end()
    finally:
        serve.shutdown()
        ray.shutdown()
    return {"full": full, "one of two killed": killed, "one taken away": drained}


def fault(found: dict[str, Any]) -> str:
    """What is wrong with the outcomes; nothing if all is as promised."""
    killed, full = found["one of two killed"], found["full"]
    if "lost" in killed or "lost" in full or "lost" in found["one taken away"]:
        return "a request was lost without an error"
    if not killed.get("200") or killed["200"] < 0.5 * sum(killed.values()):
        return "most requests had an error, though a replica was left"
    if set(full) != {"200", "429"}:
        return "a full queue was not answered with 429"
    return "a request failed while a replica was taken away" if set(found["one taken away"]) != {"200"} else ""


def main() -> int:
    """Status 1 if a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    found = serving(options.seconds)
    wrong = fault(found)
    print(json.dumps({**found, "fault": wrong}))
    if options.record:
        from hostile_data import record

        record("R04", {"n": sum(sum(outcomes.values()) for outcomes in found.values()), "failures": int(bool(wrong)),
                       **{name: ", ".join(f"{key}: {value}" for key, value in sorted(outcomes.items()))
                          for name, outcomes in found.items()},
                       "command": ".venv-cluster/bin/python campaigns/cluster_serving.py --record"})
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
