import base64
import json
from contextlib import suppress

import httpx
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import NPY, PNG, npy, own_run, png, raw, running
from torch import nn

from frost.core.model import Frost, FrostConfig
from frost.serving.asks import Refusal
from frost.serving.decode import array_of
from frost.serving.service import Service

JSON = {"content-type": "application/json"}
ONE = base64.b64encode(png()).decode()


@pytest.fixture(scope="module")
def server():
    with running("digits") as found:
        yield found


def refused(reply, status):
    assert reply.status_code == status, reply.text
    assert list(reply.json()) == ["error"]
    assert reply.headers["x-request-id"]
    return reply.json()["error"]


@pytest.mark.parametrize(("body", "status", "words"), [
    (b"", 400, "no JSON"), (b"{", 400, "no JSON"), (b"\xff\xfe", 400, "no JSON"), (b'{"inputs": [NaN]}', 400, "NaN"),
    (b"[]", 422, "object"), (b"{}", 422, "images"), (b'{"images": []}', 422, "at least one"),
    (b'{"images": "x"}', 422, "list"), (b'{"images": ["!"]}', 422, "base64"), (b'{"images": [1]}', 422, "base64"),
    (b'{"images": ["aGVsbG8="]}', 422, "no PNG"), (b'{"inputs": [[1, [2]]]}', 422, "array of numbers"),
    (b'{"inputs": [["a"]]}', 422, "array of numbers"), (b'{"inputs": [1e999]}', 422, "shape"),
    (b'{"inputs": [[1, 2]]}', 422, "shape"), (b'{"inputs": [1], "images": [1]}', 422, "either"),
    (json.dumps({"images": [ONE], "depht": 2}).encode(), 422, "there is no 'depht'"),
    (json.dumps({"images": [ONE], "depth": 99}).encode(), 422, "from 1 to 8"),
    (json.dumps({"images": [ONE], "depth": 1.5}).encode(), 422, "whole number"),
    (json.dumps({"images": [ONE], "depth": True}).encode(), 422, "must be a number"),
    (json.dumps({"images": [ONE], "depth": [1]}).encode(), 422, "must be a number"),
    (json.dumps({"images": [ONE], "mean_depth": 99}).encode(), 422, "between 1 and 8"),
    (json.dumps({"images": [ONE], "quantile": -1}).encode(), 422, "lie in"),
    (json.dumps({"images": [ONE], "quantile": 0.5, "depth": 2}).encode(), 422, "choose one"),
    (json.dumps({"images": [ONE], "deadline_ms": -1}).encode(), 422, "deadline_ms"),
    (b'{"images": ["' + ONE.encode() + b'"], "depth": 1' + b"0" * 400 + b"}", 422, "depth")])
def test_json_that_is_no_request(server, body, status, words):
    assert words in refused(server.post(body, headers=JSON), status)


@pytest.mark.parametrize(("query", "words"), [
    ("depth=two", "must be a number"), ("depth=nan", "must be a number"), ("depth=2&depth=3", "twice"),
    ("quantile=0.5&mean_depth=2", "choose one"), ("speed=9", "Known: quantile"), ("deadline_ms=inf", "number")])
def test_a_query_that_is_no_budget(server, query, words):
    assert words in refused(server.post(png(), f"/predict?{query}"), 422)


@pytest.mark.parametrize("kind", ["", "text/plain", "image/gif", "multipart/form-data; boundary=x", "é"])
def test_other_content_types_are_415(server, kind):
    assert "image/png" in refused(server.post(png(), headers={"content-type": kind.encode()}), 415)


@pytest.mark.parametrize("body", [b"", b"hello", png()[:40], png(size=64)[:-2000], b"\x89PNG\r\n\x1a\n",
                                  b"GIF89a" + b"\0" * 50])
def test_what_is_no_image_is_422(server, body):
    refused(server.post(body), 422)


@pytest.mark.parametrize("body", [
    b"", b"hello", npy(np.zeros((1, 8, 8), np.float32))[:-1], npy(np.zeros((1, 8, 8), "S4")), npy(np.zeros(())),
    npy(np.zeros((1, 8, 8), np.complex64)), npy(np.zeros((0, 1, 8, 8), np.float32)), npy(np.full((1, 8, 8), np.nan)),
    npy(np.zeros((8, 8), np.float32)), npy(np.zeros((1, 8, 8), np.int64)), npy(np.zeros((1, 8, 8), [("a", "f4")]))])
def test_what_is_no_array_is_422(server, body):
    refused(server.post(body, headers=NPY), 422)


def test_a_pickle_in_an_array_is_not_opened(server, tmp_path):
    class Gadget:
        def __reduce__(self):
            return (tmp_path.joinpath("owned").touch, ())

    body = npy(np.array([Gadget()], dtype=object))
    refused(server.post(body, headers=NPY), 422)
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 127), st.binary(min_size=1, max_size=8))
def test_damaged_headers_of_arrays_are_refused_or_read(place, bytes_there):
    body = bytearray(npy(np.zeros((1, 8, 8), np.float32)))
    body[place:place + len(bytes_there)] = bytes_there
    with suppress(Refusal):    # anything else is a failure
        assert array_of(bytes(body)).nbytes <= len(body)


@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "/nothing", 404), ("GET", "/predict", 405), ("DELETE", "/predict", 405), ("POST", "/live", 405),
    ("POST", "/runs/digits/predict/", 404), ("POST", "/runs//predict", 404), ("GET", "/v2/models/nobody", 404),
    ("GET", "/v2/models/digits/versions/2", 404), ("GET", "/../etc/passwd", 404), ("OPTIONS", "/predict", 405)])
def test_unknown_paths_and_methods(server, method, path, status):
    reply = httpx.request(method, f"{server.url}{path}")
    assert reply.status_code in (status, 307) if path.endswith("/") else reply.status_code == status
    if reply.status_code != 307:
        refused(reply, status)


@pytest.mark.parametrize("data", [b"\0\0\0\0\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                                  b"POST /predict HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
                                  b"POST /predict HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
                                  b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
def test_bytes_that_are_no_http_close_the_connection(server, data):
    with server.connect() as connection:
        connection.sendall(data)
        answer = raw(connection)
    assert b" 500 " not in answer
    assert server.get("/ready").status_code == 200


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["application/json", "application/x-npy", "image/png", "image/webp", "image/jpeg"]),
       st.binary(max_size=400), st.sampled_from(["/predict", "/v2/models/digits/infer", "/runs/digits/predict"]))
def test_any_body_has_an_answer_below_500(server, kind, body, path):
    assert server.post(body, path, {"content-type": kind}).status_code in (200, 400, 413, 415, 422)


def test_nothing_above_leaves_a_failure_in_the_log(server):
    assert [line for line in server.lines() if line["event"] == "failure"] == []


def test_an_input_on_which_the_model_diverges_is_the_clients():
    class Explodes(nn.Module):
        def forward(self, hidden):
            return hidden.exp() * 1e38

    model = Frost(nn.Conv2d(1, 4, 1), Explodes(), channels=4, classes=3,
                  config=FrostConfig(depth=6)).expects(torch.zeros(1, 4, 4))
    with running(own_run(model)) as server:
        body = npy(np.full((1, 4, 4), 1e3, np.float32))
        assert "diverged" in refused(server.post(body, headers=NPY), 422)
        both = server.post(npy(np.full((2, 1, 4, 4), 1e3, np.float32)), headers=NPY).json()["answers"]
        assert ["diverged" in answer["error"] for answer in both] == [True, True]


def test_a_failure_of_ours_is_500_without_a_word_about_it(server, monkeypatch):
    def broken(self, name):
        raise KeyError("a secret")

    monkeypatch.setattr(Service, "run_named", broken)
    with running("digits") as other:
        monkeypatch.undo()
        monkeypatch.setattr(Service, "run_named", broken)
        for path in ("/predict", "/runs/digits/trajectory"):
            reply = other.post(png(), path, PNG)
            assert "secret" not in refused(reply, 500)
            failure = [line for line in other.lines() if line["event"] == "failure"][-1]
            assert failure["request_id"] == reply.headers["x-request-id"]
