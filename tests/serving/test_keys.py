import itertools

import httpx
import pytest
from running import png, raw, running

from frost.commands.serve import keys_in
from frost.serving.app import OPEN

KEYS = (b"first-key-of-sixteen", "zweiter-schlüssel-lang".encode())
RIGHT = [{"authorization": b"Bearer " + KEYS[0]}, {"x-api-key": KEYS[1]}, {"authorization": b"bearer  " + KEYS[1]}]
WRONG = [{}, {"authorization": b"Bearer " + KEYS[0][:-1]}, {"authorization": b"Bearer " + KEYS[0] + b"x"},
         {"authorization": b"Basic " + KEYS[0]}, {"x-api-key": b""}, {"x-api-key": b"first"},
         {"authorization": KEYS[0]}, {"authorization": b"Bearer"}]
PATHS = ["/docs", "/openapi.json", "/metrics", "/stats", "/predict", "/runs/digits/predict", "/runs/digits/page",
         "/runs/digits/trajectory", "/nothing", "/v2",
         "/v2/models/digits", "/v2/models/digits/infer", "/v2/models/digits/ready", "/live/", "/LIVE",
         "/%6cive/../stats", *OPEN]
METHODS = ["GET", "POST", "OPTIONS"]


@pytest.fixture(scope="module")
def server():
    with running("digits", keys=KEYS) as found:
        yield found


def test_without_a_key_nothing_is_answered_but_health_or_an_empty_page(server):
    with httpx.Client(base_url=server.url) as client:
        for path, method, headers in itertools.product(PATHS, METHODS, WRONG):
            reply = client.request(method, path, headers=headers)
            if reply.url.path not in OPEN:
                assert reply.status_code == 401, (method, path, headers)
                assert reply.headers["www-authenticate"] == "Bearer"
            else:
                assert reply.status_code == (200 if method == "GET" else 405)


def test_two_slashes_are_another_path(server):
    with server.connect() as connection:
        connection.sendall(b"GET //live HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        assert b" 401 " in raw(connection)


@pytest.mark.parametrize("headers", RIGHT)
def test_each_key_opens(server, headers):
    assert httpx.get(f"{server.url}/stats", headers=headers).status_code == 200
    reply = httpx.post(f"{server.url}/predict", content=png(), headers={**headers, "content-type": "image/png"})
    assert reply.status_code == 200


def test_no_key_is_in_the_log(server):
    httpx.get(f"{server.url}/stats?key={KEYS[0].decode()}", headers=RIGHT[0])
    server.service.log.flush()
    text = server.log.getvalue()
    assert "request" in text
    assert "key-of" not in text
    assert "schl" not in text


def test_keys_are_read_from_a_file(tmp_path):
    file = tmp_path / "keys"
    file.write_bytes(b"# of the team\n\n" + b"\n  ".join(KEYS) + b"\r\n")
    assert keys_in(file) == frozenset(KEYS)


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"short\n", KEYS[0] + b"\nshort\n"])
def test_a_file_without_good_keys_is_refused(tmp_path, content):
    (tmp_path / "keys").write_bytes(content)
    with pytest.raises(ValueError, match="16 characters"):
        keys_in(tmp_path / "keys")
