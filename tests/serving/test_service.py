"""What becomes of a server whose engine dies, and of one that is given another run."""

import asyncio
import threading
import time

import httpx
import numpy as np
import torch
from running import GATE, NPY, gated_run, npy, own_run, png, running
from torch import nn

from conftest import small_frost
from frost.core.model import FrostConfig
from frost.serving.served import EngineOptions, open_run

BROKEN = threading.Event()
BODY = npy(np.zeros((1, 8, 8), np.float32))


class Breaks(nn.Module):
    def forward(self, hidden):
        if BROKEN.is_set():
            raise OSError("the device is gone")
        return 0.1 * hidden


def test_a_dead_engine_fails_its_requests_and_ends_the_process_with_1():
    model = small_frost(FrostConfig(depth=4), Breaks()).expects(torch.zeros(1, 8, 8))
    with running(own_run(model)) as server:
        assert server.post(BODY, headers=NPY).status_code == 200
        BROKEN.set()
        reply = server.post(BODY, headers=NPY)
        BROKEN.clear()
        assert reply.status_code == 503
        assert "the device is gone" in reply.json()["error"]
        ready = server.get("/ready")
        assert (ready.status_code, ready.json()["runs"]) == (503, {"own": "dead"})
        assert server.get("/live").status_code == 200
        process = server.service.ended.__self__
        while not process.status:
            time.sleep(0.05)
        assert next(line for line in server.lines() if line["event"] == "engine died")["run"] == "own"


def test_a_reload_answers_what_the_old_run_was_asked():
    options = EngineOptions(slots=2)
    with running(gated_run(), reopen=lambda name: open_run(name, "digits", options)) as server:
        GATE.clear()
        replies = []
        thread = threading.Thread(target=lambda: replies.append(server.post(BODY, headers=NPY).json()))
        thread.start()
        while not server.service.runs["gated"].engine.progress.occupied:
            time.sleep(0.01)
        loop = server.service.runs["gated"].engine._loop
        asyncio.run_coroutine_threadsafe(server.service.reload(), loop).result(20)
        assert server.post(png()).json()["depth"] == 8    # the new one
        GATE.set()
        thread.join()
        assert replies[0]["depth"] == 4                   # the old one


def test_a_run_that_cannot_be_read_anew_stays():
    def broken(name):
        raise ValueError(f"{name} is damaged")

    with running("digits", reopen=broken) as server:
        loop = server.service.runs["digits"].engine._loop
        asyncio.run_coroutine_threadsafe(server.service.reload(), loop).result(20)
        assert httpx.get(f"{server.url}/ready").status_code == 200
        server.service.log.flush()
        assert [line["error"] for line in server.lines() if line["event"] == "reload failed"] == ["digits is damaged"]
