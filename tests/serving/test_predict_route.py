import asyncio
import base64
import io
import threading
import time

import httpx
import numpy as np
import pytest
import torch
from running import GATE, NPY, PNG, digits, gated_run, npy, own_run, png, running
from torch import nn

import frost
from frost.data.images import load_image
from frost.data.splits import as_float
from frost.serving.app import App
from frost.serving.log import Log
from frost.serving.served import EngineOptions
from frost.serving.service import Service


@pytest.fixture(scope="module")
def server():
    with running("digits", "mazes", options=EngineOptions(slots=8, ladder=False)) as found:
        yield found


@pytest.fixture(scope="module")
def expected():
    """What the engine itself says of eight pictures at a mean depth of 3.5, in the same shape."""
    run = digits()
    engine = frost.Engine(run.model, run.calibration.at_mean_depth(3.5), slots=8)
    return list(engine.run(as_float(load_image(png(seed), 8, 1)) for seed in range(8)))


def test_an_image_has_the_answer_of_the_engine(server, expected):
    for seed in range(8):
        reply = server.post(png(seed), params={"mean_depth": 3.5})
        answer = reply.json()
        probabilities = expected[seed].output.double().softmax(dim=-1)
        assert reply.status_code == 200
        assert answer["label"] == int(expected[seed].output.argmax())
        assert answer["class"] == str(answer["label"])
        assert answer["probabilities"] == pytest.approx(probabilities.tolist(), abs=1e-12)
        assert (answer["depth"], answer["score"]) == (expected[seed].depth, expected[seed].score)
        assert (answer["is_late"], answer["is_reduced"], answer["run"]) == (False, False, "digits")
        assert answer["budget"] == {"mean_depth": 3.5}


def test_every_kind_of_body_has_the_same_answer(server):
    image = load_image(png(3), 8, 1)
    array = as_float(image).numpy()
    one = server.post(png(3)).json()
    bodies = [({"images": [base64.b64encode(png(3)).decode()]}, None), ({"inputs": [array.tolist()]}, None),
              (None, npy(array[None]))]
    for value, body in bodies:
        reply = (httpx.post(f"{server.url}/predict", json=value) if value else server.post(body, headers=NPY))
        assert reply.status_code == 200, reply.text
        answer, = reply.json()["answers"]
        assert answer == {name: part for name, part in one.items() if name != "run"}
    assert server.post(npy(array), headers=NPY).json() == one
    fortran = np.asfortranarray(np.random.default_rng(0).random((5, 1, 8, 8), dtype=np.float32))
    assert server.post(npy(fortran), headers=NPY).json() == server.post(
        npy(np.ascontiguousarray(fortran)), headers=NPY).json()


@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
def test_the_other_formats_are_read(server, kind):
    reply = server.post(png(1, 32, "RGB", kind), headers={"content-type": f"image/{kind.lower()}"})
    assert reply.status_code == 200


def test_a_large_image_is_decoded_beside_the_loop(server):
    assert server.post(png(1, 200, "L")).json()["depth"] == 8


def test_each_request_names_its_budget_in_the_query_or_in_the_body(server):
    text = base64.b64encode(png(1)).decode()
    assert server.post(png(1), params={"depth": 3}).json()["depth"] == 3
    assert server.post(png(1), params={"quantile": 0}).json()["depth"] == 1
    assert server.post(png(1)).json() | {"budget": 0} == server.post(png(1), params={"quantile": 1}).json() | {
        "budget": 0}
    reply = httpx.post(f"{server.url}/predict", json={"images": [text, text], "depth": 2})
    assert [answer["depth"] for answer in reply.json()["answers"]] == [2, 2]
    reply = httpx.post(f"{server.url}/predict", params={"depth": 3}, json={"images": [text], "depth": 2})
    assert reply.status_code == 422
    assert "came in the query and in the body" in reply.json()["error"]


def test_runs_are_reached_by_name(server):
    maze = npy(np.zeros((6, 9, 9), np.float32))
    for path in ("/runs/mazes/predict", "/predict?run=mazes"):
        answer = server.post(maze, path, NPY).json()
        assert answer["run"] == "mazes"
        assert np.shape(answer["labels"]) == (9, 9)
        assert 0 <= answer["confidence"] <= 1
    reply = server.post(maze, "/runs/nobody/predict", NPY)
    assert (reply.status_code, reply.json()) == (404, {"error": "there is no run of that name; there are digits, "
                                                                "mazes."})


def test_a_run_of_problems_takes_no_images(server):
    reply = server.post(png(), "/runs/mazes/predict")
    assert reply.status_code == 415
    assert "application/x-npy" in reply.json()["error"]


def test_numbers_are_answered_as_numbers():
    block = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8))
    model = frost.Frost(nn.Linear(3, 8), block, head=frost.Regressor(8, 2), depth=4).expects(torch.zeros(3))
    with running(own_run(model)) as server:
        answer = httpx.post(f"{server.url}/predict", json={"inputs": [[1, 2, 3]], "depth": 2}).json()["answers"][0]
        alone = frost.Engine(model, frost.AtDepth(2)).predict(torch.tensor([[1.0, 2, 3]]))
        assert answer["numbers"] == pytest.approx(alone.outputs[0].tolist(), abs=1e-6)


def test_a_request_id_comes_back_where_it_is_plain(server):
    assert server.post(png(), headers=PNG | {"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    assert server.get("/v2", headers={"x-request-id": "abc-2"}).headers["x-request-id"] == "abc-2"
    made = server.post(png(), headers=PNG | {"x-request-id": "a b\t{}"}).headers["x-request-id"]
    assert made != "a b\t{}"
    assert made


def test_a_deadline_takes_the_answer_that_there_is():
    with running(gated_run()) as server:
        GATE.clear()
        threading.Timer(0.3, GATE.set).start()
        answer = httpx.post(f"{server.url}/predict", json={"inputs": np.zeros((1, 1, 8, 8)).tolist(),
                                                           "deadline_ms": 50}, timeout=20).json()["answers"][0]
        assert answer["is_late"]
        assert answer["depth"] < 4


def test_a_deadline_before_the_first_step_is_504():
    body = npy(np.zeros((1, 8, 8), np.float32))
    with running(gated_run(slots=1)) as server:
        engine, waiting = server.service.runs["gated"].engine, 0
        GATE.clear()
        replies = []
        threads = [threading.Thread(target=lambda ms=ms: replies.append((ms, server.post(
            body, f"/predict?deadline_ms={ms}", NPY)))) for ms in (20_000, 20_000, 50)]
        for thread in threads:
            thread.start()
            while not engine.progress.occupied or engine.queued_steps < waiting:    # they come in this order
                time.sleep(0.01)
            waiting += 4
        time.sleep(0.1)
        GATE.set()
        for thread in threads:
            thread.join()
        assert {ms: reply.status_code for ms, reply in replies} == {20_000: 200, 50: 504}


def test_a_full_queue_is_429_with_the_time_to_wait():
    body = npy(np.zeros((20, 1, 8, 8), np.float32))
    with running(gated_run(slots=1, max_queue=100)) as server:
        engine = server.service.runs["gated"].engine
        GATE.clear()
        first = threading.Thread(target=server.post, args=(body, "/predict", NPY))
        first.start()
        while engine.queued_steps < 70:
            time.sleep(0.01)
        reply = server.post(body, headers=NPY)
        assert reply.status_code == 429
        assert int(reply.headers["retry-after"]) >= 1
        assert "the queue holds 100" in reply.json()["error"]
        GATE.set()
        first.join()
        assert server.post(body, headers=NPY).status_code == 200
        assert engine.queued_steps == 0


def test_more_than_the_queue_ever_holds_is_413():
    with running(gated_run(slots=1, max_queue=100)) as server:
        body = npy(np.zeros((26, 1, 8, 8), np.float32))
        assert server.post(body, headers=NPY).status_code == 413
        assert server.post(body, headers=NPY, params={"depth": 3}).status_code == 200


def test_a_client_that_goes_away_frees_its_slot():
    body = npy(np.zeros((1, 8, 8), np.float32))
    with running(gated_run(slots=1)) as server:
        engine = server.service.runs["gated"].engine
        GATE.clear()
        connection = server.connect()
        connection.sendall(b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-type: application/x-npy\r\n"
                           b"content-length: %d\r\n\r\n%s" % (len(body), body))
        while engine.progress.occupied == 0:
            time.sleep(0.01)
        connection.close()
        while not server.service.metrics.text().count(b'code="499"'):
            time.sleep(0.01)
        GATE.set()
        while engine.progress.occupied:
            time.sleep(0.01)
        assert engine.counts.cancelled == 1
        assert server.lines()[-1]["status"] == 499


POST = (b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-type: application/x-npy\r\n"
        b"content-length: %d\r\n\r\n%s")


@pytest.mark.parametrize("count", [1, 3])
def test_clients_that_go_away_are_not_computed_for(count):
    body = npy(np.zeros((1, 8, 8), np.float32))
    with running(gated_run()) as server:
        GATE.clear()
        engine = server.service.runs["gated"].engine
        connections = [server.connect() for _ in range(count)]
        for connection in connections:
            connection.sendall(POST % (len(body), body))
        while engine.progress.occupied + engine.progress.waiting < count:
            time.sleep(0.01)
        for connection in connections:
            connection.close()
        while sum(line.get("status") == 499 for line in server.lines()) < count:
            time.sleep(0.01)
        GATE.set()
        while engine.counts.cancelled < count:
            time.sleep(0.01)
        assert (engine.counts.answered, engine.progress.occupied) == (0, 0)


def test_another_server_tells_by_its_messages_that_a_client_has_gone():
    async def asked():
        run = gated_run()
        service = Service([run], log=Log("json", io.StringIO()))
        app, body, sent = App(service), npy(np.zeros((1, 8, 8), np.float32)), []
        await service.start()
        GATE.clear()
        messages = [{"type": "http.request", "body": body}]

        async def receive():
            if messages:
                return messages.pop()
            while not run.engine.progress.occupied:
                await asyncio.sleep(0.01)
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)
        scope = {"type": "http", "method": "POST", "path": "/predict", "query_string": b"",
                 "headers": [(b"content-type", b"application/x-npy")]}
        await asyncio.wait_for(app(scope, receive, send), 10)
        GATE.set()
        while not run.engine.counts.cancelled:
            await asyncio.sleep(0.01)
        await service.stop()
        return sent, run.engine.counts
    sent, counts = asyncio.run(asked())
    assert (sent, counts.answered, counts.cancelled) == ([], 0, 1)
