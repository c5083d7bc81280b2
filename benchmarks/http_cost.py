"""Throughput behind HTTP ÷ the engine's own, and latency at half load beside a plain FastAPI server of Vanilla.

    python benchmarks/http_cost.py [--only cifar100-cpu] [--backends eager onnxruntime] [--seconds 20]

Bodies are image files, over 64 connections. A load generator runs in both cases: beside the engine alone it sends as
many requests, to itself. The plain server answers one image after the other by a Vanilla of the same size at full
depth. Written to docs/results/http.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "campaigns"))
RESULT = ROOT / "docs" / "results" / "http.json"

from bodies import pictures, untrained  # noqa: E402
from clients import Load, Plain, Process, Served, capacity, quantile, request_of  # noqa: E402

from frost.runtime.backend import BACKENDS, BackendName  # noqa: E402

SMALL, LARGE = "cifar100-cpu", "vit-b16"
SHARE_OF_DEPTH = 0.6      # mean depth of the adaptive server, of full depth
REPLY = b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n" + bytes(900)


class Stub(asyncio.Protocol):
    """Answers at once: what the generator costs without a server."""

    def connection_made(self, transport: Any) -> None:
        """The connection is there."""
        self.transport, self.left = transport, 0

    def data_received(self, data: bytes) -> None:
        """Bytes of one request at a time, by its length."""
        if not self.left:
            head, _, rest = data.partition(b"\r\n\r\n")
            self.left = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0]) - len(rest)
        else:
            self.left -= len(data)
        if self.left <= 0:
            self.left = 0
            self.transport.write(REPLY)


def alone(run: str, slots: int, backend: BackendName, seconds: float) -> None:
    """In a process of its own: the engine's answers a second at full depth, by the options of `frost serve`."""
    import torch

    import frost
    from frost.core.malloc import keep_pages

    keep_pages()    # as the command line does
    found = frost.load(run)
    shape = found.model.signature.parts[0].shape
    signals = tuple(found.calibration.signals)
    engine = frost.Engine(found.model, frost.AtDepth(found.model.depth), slots=slots, ladder=True, signals=signals,
                          backend=backend)
    inputs = torch.rand(4 * slots, *shape)
    list(engine.run(inputs[:slots]))
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        count += len(list(engine.run(inputs)))
    print(count / (time.perf_counter() - began))


async def beside_generator(run: str, slots: int, backend: BackendName, requests: list[bytes], rate: float,
                           seconds: float) -> float:
    """The engine alone, while the generator sends to itself at this rate."""
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", 0)
    load = Load(server.sockets[0].getsockname()[1], requests, keep=False)
    sending = asyncio.create_task(load.open(10_000.0, rate))
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--alone", run, "--slots", str(slots), "--backends", backend, "--seconds",
        str(seconds), stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    sending.cancel()
    server.close()
    return float(out)


def latencies(server: Process, requests: list[bytes], seconds: float, rate: float) -> dict[str, float]:
    """Milliseconds at this rate."""
    server.closed(requests, 2.0, connections=4)
    found = server.open(requests, seconds, rate)
    lost = sum(got.status != 200 for got in found)
    return {"p50 ms": round(1000 * quantile(found, 0.5), 2), "p99 ms": round(1000 * quantile(found, 0.99), 2),
            "requests": len(found), "not answered": lost}


def measure(name: str, backend: BackendName, folder: Path, seconds: float) -> dict[str, Any]:
    """One model, all servers."""
    import frost
    from frost.zoo.registry import build

    size, slots = (32, 64) if name == SMALL else (224, 16)
    kind = "PNG" if name == SMALL else "JPEG"
    requests = [request_of(body, f"image/{kind.lower()}") for body in pictures(64, size, 0, kind)]
    large, vanilla = folder / LARGE, folder / f"vanilla-{name}"
    run = name if name == SMALL else str(large) if large.exists() else untrained(large, depth=4)
    config = frost.load(run).model.zoo_config
    if not vanilla.exists():
        build(replace(config, architecture="vanilla"), seed=0).eval().save(vanilla)
    mean = f"{max(1.0, SHARE_OF_DEPTH * config.depth):g}"
    with Served(run, "--slots", str(slots), "--backend", backend) as full:
        behind = capacity(full, requests, seconds)
        own = asyncio.run(beside_generator(run, slots, backend, requests, behind, seconds))
        found: dict[str, Any] = {"engine a second": round(own, 1), "behind HTTP": round(behind, 1),
                                 "ratio": round(behind / own, 3)}
        with Plain(str(vanilla)) as plain:
            naive = capacity(plain, requests, seconds)
            rate = min(behind, naive) / 2
            found["plain Vanilla a second"], found["half load a second"] = round(naive, 1), round(rate, 1)
            found["plain Vanilla"] = latencies(plain, requests, seconds, rate)
        found["full depth"] = latencies(full, requests, seconds, rate)
    with Served(run, "--slots", str(slots), "--backend", backend, "--mean-depth", mean) as adaptive:
        found[f"mean depth {mean}"] = latencies(adaptive, requests, seconds, rate)
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=(SMALL, LARGE), default=(SMALL, LARGE))
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=("eager", "onnxruntime"))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    parser.add_argument("--slots", type=int, default=64, help=argparse.SUPPRESS)
    parser.add_argument("--dry", action="store_true", help="write nothing")
    options = parser.parse_args()
    if options.alone:
        alone(options.alone, options.slots, options.backends[0], options.seconds)
        return
    found = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, backend in product(options.only, options.backends):
            title = f"{name}, {backend}"
            found[title] = measure(name, backend, Path(scratch), options.seconds)
            print(title, json.dumps(found[title], indent=1), flush=True)
    if not options.dry:
        RESULT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
