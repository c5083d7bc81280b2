"""Open Inference Protocol v2, asked by a stranger's client."""

import httpx
import numpy as np
import pytest
import torch
from running import digits, npy, running

import frost
from frost.serving.served import EngineOptions

client_module = pytest.importorskip("tritonclient.http")


@pytest.fixture(scope="module")
def server():
    with running("digits", "addition", options=EngineOptions(slots=8, ladder=False)) as found:
        yield found


@pytest.fixture
def client(server):
    found = client_module.InferenceServerClient(f"127.0.0.1:{server.port}")
    yield found
    found.close()


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).random((5, 1, 8, 8), dtype=np.float32)


def tensor(images, is_binary=True):
    found = client_module.InferInput("input", images.shape, "FP32")
    found.set_data_from_numpy(images, binary_data=is_binary)
    return found


def test_health_and_metadata(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("digits")
    assert client.is_model_ready("digits", "1")
    assert not client.is_model_ready("nobody")
    assert client.get_server_metadata()["name"] == "frost"
    about = client.get_model_metadata("digits")
    assert about["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [-1, 1, 8, 8]}]
    assert {entry["name"]: entry["shape"] for entry in about["outputs"]}["probabilities"] == [-1, 10]


@pytest.mark.parametrize("is_binary", [True, False])
def test_inference_has_the_answers_of_the_engine(client, images, is_binary):
    run = digits()
    expected = frost.Engine(run.model, run.calibration.at_mean_depth(3.5), slots=8).predict(torch.from_numpy(images))
    outputs = [client_module.InferRequestedOutput(name, binary_data=is_binary)
               for name in ("label", "logits", "depth", "score", "is_late")]
    found = client.infer("digits", [tensor(images, is_binary)], outputs=outputs, parameters={"mean_depth": 3.5},
                         request_id="mine")
    assert found.as_numpy("label").tolist() == expected.outputs.argmax(dim=1).tolist()
    assert np.array_equal(found.as_numpy("logits"), expected.outputs.numpy())
    assert found.as_numpy("depth").tolist() == expected.depth.tolist()
    assert found.as_numpy("is_late").tolist() == [False] * 5
    assert found.get_response()["id"] == "mine"


def test_all_outputs_come_where_none_is_named(client, images):
    found = client.infer("digits", [tensor(images)])
    assert found.as_numpy("probabilities").shape == (5, 10)
    assert found.as_numpy("probabilities").sum(axis=1) == pytest.approx(1)
    assert found.as_numpy("depth").tolist() == [8] * 5


def test_an_answer_at_each_position_is_a_map(client):
    sums = np.zeros((2, 2, 64), np.float32)
    found = client.infer("addition", [tensor(sums)])
    assert found.as_numpy("label").shape == (2, 64)


def test_errors_are_the_protocols(server, client, images):
    with pytest.raises(client_module.InferenceServerException, match="there is no run of that name"):
        client.infer("nobody", [tensor(images)])
    with pytest.raises(client_module.InferenceServerException, match="8×8 pixels"):
        client.infer("digits", [tensor(images[:, :, :4])])
    with pytest.raises(client_module.InferenceServerException, match="there is no 'speed'"):
        client.infer("digits", [tensor(images)], parameters={"speed": 1})


GOOD = {"name": "input", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": [0] * 64}


@pytest.mark.parametrize(("request_", "status"), [
    ([], 400), ({}, 400), ({"inputs": 1}, 400), ({"inputs": [1]}, 400), ({"inputs": []}, 422),
    ({"inputs": [GOOD, GOOD]}, 422), ({"inputs": [{**GOOD, "name": "x"}]}, 422),
    ({"inputs": [{**GOOD, "datatype": "BYTES"}]}, 422), ({"inputs": [{**GOOD, "shape": [2, 1, 8, 8]}]}, 422),
    ({"inputs": [{**GOOD, "shape": [-1, 1, 8, 8]}]}, 422), ({"inputs": [{**GOOD, "shape": []}]}, 422),
    ({"inputs": [{**GOOD, "data": ["a"] * 64}]}, 422), ({"inputs": [{**GOOD, "data": None}]}, 422),
    ({"inputs": [{**GOOD, "shape": [0, 1, 8, 8], "data": []}]}, 422),
    ({"inputs": [{**GOOD, "parameters": {"binary_data_size": 256}}]}, 400),
    ({"inputs": [{**GOOD, "parameters": {"binary_data_size": -1}}]}, 400),
    ({"inputs": [{**GOOD, "parameters": 3}]}, 400), ({"inputs": [GOOD], "outputs": [{"name": "x"}]}, 422),
    ({"inputs": [GOOD], "outputs": 3}, 422), ({"inputs": [GOOD], "parameters": {"depth": 99}}, 422)])
def test_a_request_that_is_none(server, request_, status):
    reply = httpx.post(f"{server.url}/v2/models/digits/infer", json=request_)
    assert reply.status_code == status, reply.text
    assert list(reply.json()) == ["error"]


@pytest.mark.parametrize("length", ["x", "-1", "9999999"])
def test_a_length_of_the_header_that_is_none(server, length):
    reply = server.post(npy(np.zeros(3)), "/v2/models/digits/infer", {"inference-header-content-length": length})
    assert reply.status_code == 400
