import hashlib
import http.server
import threading
from pathlib import Path

import pytest

from frost.data.download import Remote, cache_folder, fetch

BODY = bytes(range(256)) * 400   # 102,400 bytes
QUICK = {"timeout": 0.4, "attempts": 3, "pause": 0.01}


class Server(http.server.ThreadingHTTPServer):
    """Serves BODY, and misbehaves once for each word in `faults`."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults: list[str] = []
        self.asked: list[str | None] = []   # the Range of each request
        self.release = threading.Event()    # ends a stall


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        fault = self.server.faults.pop(0) if self.server.faults else ""
        if fault.isdigit():
            return self.send_error(int(fault))
        start = int(wanted[6:-1]) if wanted and fault != "ignores ranges" else 0
        body = BODY[start:]
        self.send_response(206 if start else 200)
        if start:
            shown = start + 7 if fault == "another part" else start
            self.send_header("Content-Range", f"bytes {shown}-{len(BODY) - 1}/{len(BODY)}")
        if fault == "longer":
            body += b"more"
        if fault == "corrupt":
            body = body[:100] + b"?" + body[101:]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:{"cut": 40_000, "stall": 40_000, "silence": 0}.get(fault, len(body))])
        self.wfile.flush()
        if fault in ("stall", "silence"):
            self.server.release.wait(5)
        return None

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.release.set()
    server.shutdown()
    server.server_close()
    thread.join()


def remote(server: Server) -> Remote:
    url = f"http://127.0.0.1:{server.server_port}/set.tar.gz"
    return Remote(url, len(BODY), hashlib.sha256(BODY).hexdigest(), "https://the.page")


def test_a_file_is_fetched_and_named(server, tmp_path):
    seen = []
    path = fetch(remote(server), tmp_path / "cache", report=lambda *report: seen.append(report), **QUICK)
    assert path == tmp_path / "cache" / "set.tar.gz"
    assert path.read_bytes() == BODY
    assert seen[-1] == ("fetching set.tar.gz", len(BODY), len(BODY))


def test_a_whole_file_is_not_fetched_again(server, tmp_path):
    for _ in range(2):
        fetch(remote(server), tmp_path, **QUICK)
    assert server.asked == [None]


def test_a_damaged_file_is_fetched_again(server, tmp_path):
    (tmp_path / "set.tar.gz").write_bytes(BODY[:-1] + b"?")
    assert fetch(remote(server), tmp_path, **QUICK).read_bytes() == BODY


@pytest.mark.parametrize("fault", ["cut", "stall"])
def test_a_download_goes_on_where_the_connection_broke(server, tmp_path, fault):
    server.faults = [fault]
    assert fetch(remote(server), tmp_path, **QUICK).read_bytes() == BODY
    assert server.asked == [None, "bytes=40000-"]


def test_a_later_run_goes_on_where_an_earlier_one_was_killed(server, tmp_path):
    (tmp_path / "set.tar.gz.part").write_bytes(BODY[:70_000])
    assert fetch(remote(server), tmp_path, **QUICK).read_bytes() == BODY
    assert server.asked == ["bytes=70000-"]


def test_progress_keeps_a_bad_connection_going(server, tmp_path):
    server.faults = ["cut", "cut"]   # 40,000 bytes each; then the rest
    assert fetch(remote(server), tmp_path, timeout=1, attempts=2, pause=0.01).read_bytes() == BODY
    assert server.asked == [None, "bytes=40000-", "bytes=80000-"]


@pytest.mark.parametrize("fault", ["ignores ranges", "another part", "416", "500", "503"])
def test_a_server_that_resumes_wrongly_is_asked_again(server, tmp_path, fault):
    (tmp_path / "set.tar.gz.part").write_bytes(BODY[:70_000])
    server.faults = [fault]
    assert fetch(remote(server), tmp_path, **QUICK).read_bytes() == BODY


@pytest.mark.parametrize("fault", ["corrupt", "longer"])
def test_wrong_bytes_are_thrown_away(server, tmp_path, fault):
    server.faults = [fault]
    assert fetch(remote(server), tmp_path, **QUICK).read_bytes() == BODY
    assert server.asked == [None, None]


@pytest.mark.parametrize(("fault", "why"), [("corrupt", "hash should be"), ("longer", "sends more than 102,400"),
                                            ("503", "answers 503"), ("silence", "connection broke")])
def test_it_gives_up_in_the_end(server, tmp_path, fault, why):
    server.faults = [fault] * 10
    with pytest.raises(ValueError, match=why):
        fetch(remote(server), tmp_path, timeout=0.2, attempts=2, pause=0.01)
    assert len(server.asked) == 2
    assert not (tmp_path / "set.tar.gz").exists()


def test_a_damaged_part_is_noticed_at_the_end(server, tmp_path):
    (tmp_path / "set.tar.gz.part").write_bytes(b"?" * 70_000)
    assert fetch(remote(server), tmp_path, **QUICK).read_bytes() == BODY
    assert server.asked == ["bytes=70000-", None]


def test_a_part_that_is_too_long_is_begun_again(server, tmp_path):
    (tmp_path / "set.tar.gz.part").write_bytes(BODY + b"more")
    assert fetch(remote(server), tmp_path, **QUICK).read_bytes() == BODY
    assert server.asked == [None]


def test_a_file_that_is_not_there_is_asked_for_once(server, tmp_path):
    server.faults = ["404"] * 5
    with pytest.raises(ValueError, match="answers 404"):
        fetch(remote(server), tmp_path, **QUICK)
    assert len(server.asked) == 1


def test_without_a_network_the_advice_names_file_page_and_place(server, tmp_path):
    nowhere = remote(server)._replace(url="http://127.0.0.1:9/set.tar.gz")
    with pytest.raises(ValueError, match="could not be fetched") as raised:
        fetch(nowhere, tmp_path, **QUICK)
    text = str(raised.value)
    assert all(part in text for part in ("set.tar.gz", "https://the.page", str(tmp_path)))
    assert "\n" not in text


def test_the_cache_folder_can_be_chosen(monkeypatch):
    monkeypatch.setenv("FROST_CACHE", "/somewhere/else")
    assert cache_folder() == Path("/somewhere/else")
    monkeypatch.delenv("FROST_CACHE")
    assert cache_folder() == Path.home() / ".cache" / "frost"
