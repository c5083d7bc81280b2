"""Every step of one input."""

import threading
import time

import httpx
import numpy as np
import pytest
import torch
from running import GATE, NPY, digits, gated_run, npy, own_run, png, running
from torch import nn

import frost
from conftest import small_frost
from frost.core.model import FrostConfig
from frost.data.images import load_image
from frost.data.splits import as_float
from frost.halting.signals import SIGNALS, along
from frost.serving.trajectory import MOST_WAITING

PATH = "/runs/digits/trajectory"
ZEROS = npy(np.zeros((1, 8, 8), np.float32))


@pytest.fixture(scope="module")
def server():
    with running("digits", "mazes") as found:
        yield found


def test_each_step_has_the_output_score_and_signals_of_the_model(server):
    run = digits()
    image = as_float(load_image(png(3), 8, 1))
    with torch.no_grad():
        expected = run.model(image[None])
    steps = server.post(png(3), PATH).json()["steps"]
    assert [step["step"] for step in steps] == list(range(1, 9))
    torch.testing.assert_close(torch.tensor([step["output"] for step in steps]), expected.outputs[0])
    torch.testing.assert_close(torch.tensor([step["score"] for step in steps]), expected.scores[0])
    for name in run.calibration.signals:
        values = along(SIGNALS[name], expected.outputs, expected.score_logits, expected.states)[0]
        torch.testing.assert_close(torch.tensor([step["signals"][name] for step in steps]), values)


def test_an_answer_at_each_position_has_one_at_each_step(server):
    steps = server.post(npy(np.zeros((6, 9, 9), np.float32)), "/runs/mazes/trajectory", NPY).json()["steps"]
    assert np.shape([step["output"] for step in steps]) == (24, 9, 9, 2)


def test_a_regressor_has_numbers_and_no_signals():
    model = frost.Frost(nn.Linear(3, 8), nn.Linear(8, 8), head=frost.Regressor(8, 2), depth=4).expects(torch.zeros(3))
    with running(own_run(model)) as server:
        steps = httpx.post(f"{server.url}/runs/own/trajectory", json={"inputs": [[1, 2, 3]]}).json()["steps"]
    with torch.no_grad():
        expected = model(torch.tensor([[1.0, 2, 3]])).outputs[0]
    torch.testing.assert_close(torch.tensor([step["output"] for step in steps]), expected)
    assert steps[0]["signals"] == {}


@pytest.mark.parametrize(("body", "path", "status", "words"), [
    (npy(np.zeros((2, 1, 8, 8), np.float32)), PATH, 422, "of one input, got 2"),
    (npy(np.zeros((8, 8), np.float32)), PATH, 422, "shape"), (npy(np.full((1, 8, 8), np.nan)), PATH, 422, "NaN"),
    (b"hello", PATH, 422, "NumPy"), (ZEROS, PATH + "?depth=2", 422, "no budget"),
    (ZEROS, "/runs/nobody/trajectory", 404, "no run of that name")])
def test_what_is_no_single_input_is_refused(server, body, path, status, words):
    reply = server.post(body, path, NPY)
    assert (reply.status_code, words in reply.json()["error"]) == (status, True), reply.text


def test_a_budget_in_the_body_is_refused(server):
    reply = httpx.post(f"{server.url}{PATH}", json={"inputs": [np.zeros((1, 8, 8)).tolist()], "depth": 2})
    assert (reply.status_code, "no budget" in reply.json()["error"]) == (422, True)


def test_steps_that_are_too_large_together_are_413():
    block = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4))
    model = frost.Frost(nn.Linear(1, 4), block, head=frost.Regressor(4, 20_000), depth=16).expects(torch.zeros(1))
    with running(own_run(model)) as server:
        reply = server.post(npy(np.zeros(1, np.float32)), "/runs/own/trajectory", NPY)
        assert (reply.status_code, "/predict gives the last one" in reply.json()["error"]) == (413, True)


def test_an_input_on_which_the_model_diverges_is_422():
    class Explodes(nn.Module):
        def forward(self, hidden):
            return hidden.exp() * 1e38

    model = small_frost(FrostConfig(depth=6), Explodes()).expects(torch.zeros(1, 8, 8))
    with running(own_run(model)) as server:
        reply = server.post(npy(np.full((1, 8, 8), 1e3, np.float32)), "/runs/own/trajectory", NPY)
        assert (reply.status_code, "diverged" in reply.json()["error"]) == (422, True)


def test_too_many_at_once_are_429_and_nothing_else_waits_for_them():
    with running(gated_run()) as server:
        GATE.clear()
        replies = []
        threads = [threading.Thread(target=lambda: replies.append(server.post(ZEROS, "/runs/gated/trajectory", NPY)))
                   for _ in range(MOST_WAITING)]
        for thread in threads:
            thread.start()
        while server.service.beside.waiting < MOST_WAITING:
            time.sleep(0.01)
        reply = server.post(ZEROS, "/runs/gated/trajectory", NPY)
        assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
        assert server.get("/stats").status_code == 200
        GATE.set()
        for thread in threads:
            thread.join()
        assert [reply.status_code for reply in replies] == [200] * MOST_WAITING


def test_a_client_that_goes_away_is_not_computed_for():
    with running(gated_run()) as server:
        GATE.clear()
        first = threading.Thread(target=server.post, args=(ZEROS, "/runs/gated/trajectory", NPY))
        first.start()
        beside = server.service.beside
        while beside.waiting < 1:
            time.sleep(0.01)
        with server.connect() as connection:
            connection.sendall(b"POST /runs/gated/trajectory HTTP/1.1\r\nhost: a\r\ncontent-type: application/x-npy\r\n"
                               b"content-length: %d\r\n\r\n%s" % (len(ZEROS), ZEROS))
            while beside.waiting < 2:
                time.sleep(0.01)
        while beside.waiting > 1:
            time.sleep(0.01)
        GATE.set()
        first.join()
        while not any(line.get("status") == 499 for line in server.lines()):
            time.sleep(0.01)


def test_the_routes_are_in_the_schema(server):
    paths = server.get("/openapi.json").json()["paths"]
    route = paths["/runs/{name}/trajectory"]["post"]
    steps = route["responses"]["200"]["content"]["application/json"]["schema"]["properties"]["steps"]
    assert set(steps["items"]["required"]) == {"step", "output", "score", "signals"}
    assert {"413", "422", "429"} < set(route["responses"])
    assert "/runs/{name}/page" in paths
