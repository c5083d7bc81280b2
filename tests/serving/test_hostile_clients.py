"""What a client may try that is in no limit's row: pipelines, trailers, claims, names, budgets without end."""

import asyncio
import contextlib
import io
import json
import threading
import time
from dataclasses import replace

import httpx
import numpy as np
import pytest
import torch
from PIL import Image
from running import GATE, NPY, PNG, QUICK, gated_run, npy, own_run, png, raw, running
from torch import nn

import frost
from conftest import small_frost
from frost.core.model import FrostConfig
from frost.data.images import TooManyPixels, opened
from frost.halting.budget import Budget
from frost.runtime import async_engine
from frost.serving.asks import as_json
from frost.serving.protocol import MOST_PIPELINED
from frost.serving.service import Service


class Picky(nn.Module):
    """A block of a user's that says by an error of its own what it does not take."""

    def forward(self, hidden):
        if not hidden.abs().max() < 100:
            raise RuntimeError("values of 100 and more are not for me")
        return 0.1 * hidden


@pytest.fixture(scope="module")
def server():
    with running("digits") as found:
        yield found


def lossless_webp(width, height):
    """The beginning of a WebP file that claims this size."""
    bits = (width - 1) | (height - 1) << 14
    chunk = b"VP8L" + (20).to_bytes(4, "little") + b"\x2f" + bits.to_bytes(4, "little") + bytes(15)
    return b"RIFF" + (4 + len(chunk)).to_bytes(4, "little") + b"WEBP" + chunk


def extended_webp(width, height):
    chunk = (b"VP8X" + (10).to_bytes(4, "little") + bytes(4) + (width - 1).to_bytes(3, "little")
             + (height - 1).to_bytes(3, "little"))
    return b"RIFF" + (4 + len(chunk)).to_bytes(4, "little") + b"WEBP" + chunk


def lossy_webp(width, height):
    stream = io.BytesIO()
    Image.new("RGB", (16, 16)).save(stream, "WEBP")
    found = bytearray(stream.getvalue())
    assert found[12:16] == b"VP8 "
    found[26:30] = width.to_bytes(2, "little") + height.to_bytes(2, "little")
    return bytes(found)


@pytest.mark.parametrize("claim", [lossless_webp, extended_webp, lossy_webp])
def test_a_webp_file_that_claims_too_much_is_not_opened(server, monkeypatch, claim):
    reply = server.post(claim(16_000, 16_000), headers={"content-type": "image/webp"})
    assert reply.status_code == 413
    assert "16000 × 16000" in reply.json()["error"]
    monkeypatch.setattr(Image, "open", None)    # Pillow would make room for it
    with pytest.raises(TooManyPixels), opened(claim(16_000, 16_000), 4_000_000):
        pass


@pytest.mark.parametrize("lossless", [True, False])
def test_a_webp_file_within_the_limit_is_read(server, lossless):
    stream = io.BytesIO()
    Image.new("RGB", (300, 200)).save(stream, "WEBP", lossless=lossless)
    assert server.post(stream.getvalue(), headers={"content-type": "image/webp"}).status_code == 200


def test_few_requests_wait_on_a_connection():
    body = npy(np.zeros((1, 8, 8), np.float32))
    request = (b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-type: application/x-npy\r\ncontent-length: %d\r\n\r\n%s"
               % (len(body), body))
    with running(gated_run()) as server, server.connect() as connection:
        GATE.clear()
        connection.sendall(request * (MOST_PIPELINED + 8))
        time.sleep(0.3)
        GATE.set()
        answers = raw(connection)
    assert 1 <= answers.count(b" 200 OK") <= MOST_PIPELINED + 1


def test_requests_of_a_short_pipeline_are_all_answered(server):
    body = png()
    head = b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-type: image/png\r\ncontent-length: %d\r\n\r\n" % len(body)
    with server.connect() as connection:
        connection.sendall((head + body) * 5)
        assert raw(connection).count(b" 200 OK") == 5


def test_trailers_count_as_headers(server):
    block, sent = b"".join(b"x-%d: %s\r\n" % (number, b"y" * 200) for number in range(1000)), 0
    with server.connect() as connection, contextlib.suppress(OSError):
        connection.sendall(b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-type: image/png\r\n"
                           b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n")
        for _ in range(200):
            connection.sendall(block)
            sent += 1
    assert sent < 200
    assert server.get("/live").status_code == 200


def test_a_body_that_goes_on_behind_its_answer_is_cut_off(server):
    with server.connect() as connection:
        connection.sendall(b"POST /nowhere HTTP/1.1\r\nhost: a\r\ncontent-type: image/png\r\n"
                           b"content-length: 900000\r\n\r\nx")
        answer, began = raw(connection), time.monotonic()
    assert b" 404 " in answer
    assert time.monotonic() - began < 5


def test_a_packed_text_in_a_picture_is_not_unpacked(server):
    from PIL import PngImagePlugin

    words = PngImagePlugin.PngInfo()
    words.add_text("a", "x" * 5_000_000, zip=True)
    stream = io.BytesIO()
    Image.new("L", (8, 8)).save(stream, "PNG", pnginfo=words)
    assert server.post(stream.getvalue()).status_code == 422


def test_a_path_and_a_query_that_name_two_runs(server):
    assert server.post(png(), "/runs/digits/predict?run=digits").status_code == 200
    reply = server.post(png(), "/runs/digits/predict?run=mazes")
    assert reply.status_code == 422
    assert "name it once" in reply.json()["error"]


def test_a_text_that_is_no_text_comes_back_as_json(server):
    assert json.loads(as_json({"error": "\ud800"})) == {"error": "\ud800"}
    reply = server.post(b'{"inputs": [[[[0]]]], "\\ud800": 1}', headers={"content-type": "application/json"})
    assert reply.status_code == 422
    assert reply.json()["error"]


@pytest.mark.parametrize("key", ["", "short", "x" * 15])
def test_keys_that_somebody_could_guess_are_refused(key):
    with pytest.raises(ValueError, match="16 characters"):
        Service([], keys=frozenset([key.encode()]))


def test_what_a_model_says_of_an_input_is_the_clients_fault():
    model = small_frost(FrostConfig(depth=3), Picky()).expects(torch.zeros(1, 8, 8))
    with running(own_run(model, "own")) as server:
        wild = npy(np.full((1, 8, 8), 1e6, np.float32))
        for path in ("/runs/own/trajectory", "/predict"):
            assert server.post(npy(np.zeros((1, 8, 8), np.float32)), path, NPY).status_code == 200
            assert server.post(wild, path, NPY).status_code == 422


def test_no_request_waits_for_ever_for_an_engine_that_hangs():
    with running(gated_run(slots=1), limits=replace(QUICK, deadline=0.3)) as server:
        GATE.clear()
        began = time.monotonic()
        reply = server.post(npy(np.zeros((1, 8, 8), np.float32)), headers=NPY)
        assert (reply.status_code, reply.json()["error"]) == (504, "there is no answer; the engine does not move.")
        assert 0.5 < time.monotonic() - began < 5
        GATE.set()


def test_budgets_that_nobody_has_asked_for_before_wait_in_a_short_queue(monkeypatch):
    monkeypatch.setattr(async_engine, "MOST_FITS", 2)
    run = frost.load("digits")
    go = threading.Event()

    async def asked():
        async with frost.AsyncEngine(run.model, run.calibration, slots=4) as engine:
            make = engine.budgets.make

            def slowly(budget):
                go.wait(20)
                return make(budget)
            monkeypatch.setattr(engine.budgets, "make", slowly)
            fitting = [asyncio.create_task(engine.grant(Budget(mean_depth=2 + place / 10))) for place in range(2)]
            await asyncio.sleep(0.05)
            with pytest.raises(frost.QueueFull) as full:
                await engine.grant(Budget(mean_depth=3.0))
            assert full.value.seconds > 0
            assert engine.budgets.known(Budget()) is not None    # those that are known do not wait
            go.set()
            assert len(await asyncio.gather(*fitting)) == 2
    asyncio.run(asked())


def test_the_budget_that_was_asked_for_last_is_kept(monkeypatch):
    from frost.runtime import budgets

    monkeypatch.setattr(budgets, "KEPT", 2)
    known = budgets.Budgets(None, 8)
    for depth in (1, 2):
        known.make(Budget(depth=depth))
    assert known.known(Budget(depth=1)) is not None
    known.make(Budget(depth=3))
    assert [known.known(Budget(depth=depth)) is None for depth in (1, 2, 3)] == [False, True, False]


@pytest.mark.parametrize("length", ["9" * 5000, "9" * 21])
def test_a_length_of_endless_digits(server, length):
    reply = httpx.post(f"{server.url}/v2/models/digits/infer", content=b"{}", headers={
        "inference-header-content-length": length})
    assert reply.status_code == 400


def test_nothing_above_is_a_failure_in_the_log(server):
    assert server.post(png(), headers=PNG).status_code == 200
    assert not [line for line in server.lines() if line["event"] == "failure"]
