"""Each row of the table of limits has a test here."""

import base64
import io
import re
import struct
import threading
import time
import zlib

import httpx
import numpy as np
import pytest
from running import GATE, NPY, PNG, QUICK, gated_run, npy, png, raw, running

from documents import DOCS
from frost.serving.limits import LIMITS
from frost.serving.trajectory import MOST_NUMBERS, MOST_WAITING

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def server():
    with running("digits") as found:
        yield found


def flat_png(width, height, rows=None):
    """A grey picture of zeros, which packs to next to nothing; only some of its rows, if that is said."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    packed = zlib.compress(bytes((width + 1) * (height if rows is None else rows)), 9)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", packed) + chunk(b"IEND", b""))


def test_the_table_in_the_documents_is_that_of_the_code():
    page = (DOCS / "guides" / "serve-a-run.md").read_text()
    rows = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \| [^|]+ \|$", page.split("## Limits")[1], re.M))
    assert rows["body"] == f"{LIMITS.body // 2**20} MiB"
    assert rows["request line and headers"] == f"{LIMITS.header // 1024} KiB"
    assert rows["image"] == f"{LIMITS.pixels // 10**6} megapixels"
    assert rows["inputs in a request"] == str(LIMITS.images)
    assert rows["JSON"] == f"{LIMITS.json_depth} levels"
    assert rows["numbers in a trajectory"] == f"{MOST_NUMBERS:,}"
    assert rows["trajectories at once"] == str(MOST_WAITING)
    for name, seconds in (("headers arrive within", LIMITS.header_seconds), ("deadline", LIMITS.deadline),
                          ("body arrives within", LIMITS.body_seconds), ("drain", LIMITS.drain),
                          ("answer is taken within", LIMITS.answer_seconds)):
        assert rows[name] == f"{seconds:g} s"


def test_a_body_that_announces_too_much_is_refused_before_it_comes(server):
    with server.connect() as connection:
        connection.sendall(b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-type: image/png\r\n"
                           b"content-length: 1000000000\r\n\r\n")
        answer = raw(connection)
    assert b" 413 " in answer
    assert b"connection: close" in answer.lower()


def test_a_body_that_grows_too_large_is_refused(server):
    def chunks():
        for _ in range(100):
            yield b"x" * 65536

    try:
        assert httpx.post(f"{server.url}/predict", content=chunks(), headers=PNG).status_code == 413
    except httpx.TransportError:    # the server has closed while the client was still sending
        assert server.lines()[-1]["status"] == 413


def test_a_body_just_within_the_limit_is_read(server):
    exact = png() + b"\0" * (QUICK.body - len(png()))
    assert server.post(exact).status_code == 200
    assert server.post(exact + b"\0").status_code == 413


def test_a_packed_body_is_not_unpacked(server):
    reply = server.post(zlib.compress(bytes(10**7)), headers=PNG | {"content-encoding": "gzip"})
    assert reply.status_code == 415


def test_headers_that_do_not_end_are_cut_off(server):
    with server.connect() as connection:
        connection.sendall(b"GET /live HTTP/1.1\r\n")
        try:
            for number in range(2000):
                connection.sendall(b"x-%d: %s\r\n" % (number, b"y" * 200))
            answer = raw(connection)
        except OSError:    # closed while something was still under way
            pass
        else:
            assert b" 431 " in answer
    assert server.get("/live").status_code == 200


def test_long_headers_in_one_piece_are_refused(server):
    assert server.get("/v2", headers={"x-long": "y" * QUICK.header}).status_code == 431


def test_pixels_are_counted_before_they_are_decoded(server):
    for side in (5_000, 60_000):
        reply = server.post(flat_png(side, side, rows=1))
        assert reply.status_code == 413
        assert "make it smaller" in reply.json()["error"]
    assert server.post(flat_png(2001, 2000)).status_code == 413
    assert server.post(flat_png(2000, 2000)).status_code == 200


def test_images_in_a_list_have_the_same_limits(server):
    big = base64.b64encode(flat_png(2001, 2000)).decode()
    assert httpx.post(f"{server.url}/predict", json={"images": [big]}).status_code == 413


def test_inputs_are_counted(server):
    one = base64.b64encode(png()).decode()
    assert httpx.post(f"{server.url}/predict", json={"images": [one] * 64}).status_code == 200
    for reply in (httpx.post(f"{server.url}/predict", json={"images": [one] * 65}),
                  server.post(npy(np.zeros((65, 1, 8, 8), np.float32)), headers=NPY)):
        assert reply.status_code == 413
        assert "at most 64" in reply.json()["error"]
    assert httpx.post(f"{server.url}/v2/models/digits/infer", json={"inputs": [
        {"name": "input", "datatype": "FP32", "shape": [65, 1, 8, 8], "data": [0] * 65 * 64}]}).status_code == 413


@pytest.mark.parametrize(("depth", "status"), [(30, 422), (31, 400), (1_000, 400), (200_000, 400)])
def test_json_is_not_nested_for_ever(server, depth, status):
    body = b'{"inputs": [' + b"[" * depth + b"]" * depth + b"]}"    # two levels of its own
    assert server.post(body, headers=JSON).status_code == status


def test_headers_have_to_arrive_in_time(server):
    with server.connect() as silent, server.connect() as slow:
        slow.sendall(b"POST /predict HTTP/1.1\r\nhost")
        assert b" 408 " in raw(silent)
        assert b" 408 " in raw(slow)


def test_the_second_request_of_a_connection_has_to_arrive_in_time_as_well(server):
    with server.connect() as connection:
        connection.sendall(b"GET /live HTTP/1.1\r\nhost: a\r\n\r\nGET /live HTTP/1.1\r\nho")
        answer = raw(connection)
    assert b" 200 " in answer
    assert b" 408 " in answer


def test_a_body_has_to_arrive_in_time(server):
    with server.connect() as connection:
        connection.sendall(b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-type: image/png\r\n"
                           b"content-length: 100\r\n\r\nabc")
        answer = raw(connection)
    assert b" 408 " in answer
    assert b"did not arrive" in answer


def test_slow_senders_do_not_hold_the_others_up(server):
    slow = [server.connect() for _ in range(30)]
    for connection in slow:
        connection.sendall(b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-type: image/png\r\ncontent-length: 9\r\n\r\n")
    assert server.post(png()).status_code == 200
    for connection in slow:
        assert b" 408 " in raw(connection)
        connection.close()


def test_an_answer_has_to_be_taken_in_time():
    import torch
    from running import own_run
    from torch import nn

    import frost
    block = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4))
    model = frost.Frost(nn.Linear(1, 4), block, head=frost.Regressor(4, 20_000), depth=2).expects(torch.zeros(1))
    body = npy(np.zeros((30, 1), np.float32))
    with running(own_run(model)) as server, server.connect() as connection:
        connection.sendall(b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-type: application/x-npy\r\n"
                           b"content-length: %d\r\n\r\n%s" % (len(body), body))
        while not any(line["event"] == "request" for line in server.lines()):
            time.sleep(0.05)
        time.sleep(QUICK.answer_seconds + 0.3)    # nothing is read until the server has given up
        answer = raw(connection)
    announced = int(re.search(rb"content-length: (\d+)", answer)[1])
    assert len(answer) < announced
    assert announced > 5_000_000


def test_a_deadline_has_a_longest(server):
    assert server.post(png(), params={"deadline_ms": 30_000}).status_code == 200
    reply = server.post(png(), params={"deadline_ms": 30_001})
    assert reply.status_code == 422
    assert "between 0 and 30000" in reply.json()["error"]


def test_a_drain_ends_in_time_even_if_an_engine_hangs():
    body = npy(np.zeros((1, 8, 8), np.float32))
    with running(gated_run(slots=1)) as server:
        GATE.clear()
        replies = []
        thread = threading.Thread(target=lambda: replies.append(server.post(body, headers=NPY)))
        thread.start()
        while not server.service.runs["gated"].engine.progress.occupied:
            time.sleep(0.01)
        server.service.ended()
        thread.join(QUICK.drain + 2)
        assert replies[0].status_code == 503
        GATE.set()


def test_bytes_behind_an_array_are_refused(server):
    stream = io.BytesIO()
    np.save(stream, np.zeros((1, 8, 8), np.float32))
    assert server.post(stream.getvalue() + b"x", headers=NPY).status_code == 422


def test_a_request_on_its_way_when_the_server_ends_hears_so():
    with running("digits") as server, server.connect() as fresh, httpx.Client(base_url=server.url) as used:
        assert used.get("/live").status_code == 200
        server.service.ended()
        time.sleep(0.05)
        fresh.sendall(b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n")
        assert used.post("/predict").status_code == 503
        assert b" 503 " in raw(fresh)
