"""Real servers for the tests: in a thread, on a free port of 127.0.0.1."""

import asyncio
import io
import json
import socket
import ssl
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np
from PIL import Image
from torch import nn

import frost
from conftest import small_frost
from frost.checkpoint import Run
from frost.core.model import FrostConfig
from frost.serving.limits import Limits
from frost.serving.log import Log
from frost.serving.served import EngineOptions, open_run, serve_model
from frost.serving.server import Server, bound
from frost.serving.service import Service

GATE = threading.Event()    # a step of `Gated` waits for it
GATE.set()
TRUST = ssl.create_default_context()    # reading the certificates for every request costs more than the request
QUICK = Limits(header_seconds=0.4, body_seconds=0.4, answer_seconds=0.4, drain=3.0)
PNG = {"content-type": "image/png"}
NPY = {"content-type": "application/x-npy"}


class Gated(nn.Module):
    def forward(self, hidden):
        if not GATE.wait(20):
            raise KeyboardInterrupt
        return 0.1 * hidden


class Running(NamedTuple):
    url: str
    port: int
    service: Service
    log: io.StringIO

    def lines(self):
        """The log so far."""
        self.service.log.flush()
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    def post(self, body, path="/predict", headers=PNG, **more):
        return httpx.post(f"{self.url}{path}", content=body, headers=headers, timeout=30, verify=TRUST, **more)

    def get(self, path, **more):
        return httpx.get(f"{self.url}{path}", timeout=30, verify=TRUST, **more)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)


@contextmanager
def running(*runs, limits=QUICK, keys=(), options=None, reopen=None):
    """A server of some runs, named or made."""
    options = options or EngineOptions(slots=8)
    served = [open_run(run, run, options) if isinstance(run, str) else run for run in runs]
    stream = io.StringIO()
    service = Service(served, keys=frozenset(keys), limits=limits, log=Log("json", stream), reopen=reopen)
    listening = bound("127.0.0.1", 0)
    port = listening.getsockname()[1]
    started = threading.Event()
    server = Server(service, started.set)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
    thread.start()
    try:
        assert started.wait(30)
        yield Running(f"http://127.0.0.1:{port}", port, service, stream)
    finally:
        GATE.set()
        server.should_exit = True
        thread.join(20)
        listening.close()
    assert not thread.is_alive()


def own_run(model, name="own", calibration=None, **options):
    """A served run of a model that is there."""
    return serve_model(name, Run(Path(name), model, calibration, {}), EngineOptions(**{"slots": 8, **options}))


def gated_run(depth=4, **options):
    """A run whose steps wait for the gate."""
    import torch
    return own_run(small_frost(FrostConfig(depth=depth), Gated()).expects(torch.zeros(1, 8, 8)), "gated", **options)


def png(seed=0, size=8, mode="L", kind="PNG"):
    """A picture's bytes."""
    shape = (size, size) if mode == "L" else (size, size, len(mode))
    stream = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    Image.fromarray(pixels, mode=mode if mode != "L" else None).save(stream, kind)
    return stream.getvalue()


def npy(array):
    """An array in NumPy's format."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def raw(connection, seconds=10):
    """All that a connection says until it is closed."""
    connection.settimeout(seconds)
    found = b""
    while part := connection.recv(65536):
        found += part
    return found


def digits():
    """The shipped run."""
    return frost.load("digits")
