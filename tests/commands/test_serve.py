"""`frost serve` as a process: signals, logs, and what it refuses."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

from frost.checkpoint import pretrained
from frost.cli import main
from frost.serving.served import named_runs

PNG = (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x08\x00\x00\x00\x08\x08\x00\x00\x00\x00\xe1d\xe1W"
       b"\x00\x00\x00\x0cIDATx\x9cc`\x18\x1c\x00\x00\x00H\x00\x01a\xf7H\xda\x00\x00\x00\x00IEND\xaeB`\x82")


class Process:
    """A server of its own, and the lines that it has logged."""

    def __init__(self, *words, **environment):
        self.lines = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "frost", "serve", *words, "--port", "0", "--log", "json", "--backend", "eager"],
            stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.url = self.line("ready")["url"]

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(json.loads(line))

    def line(self, event):
        for _ in range(600):
            found = [line for line in self.lines if line["event"] == event]
            if found:
                return found[-1]
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"no {event} in {self.lines}")

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=20)
        self._reader.join()
        return self.process.returncode, out

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        self._reader.join()


def npy_body(count):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({count}, 1, 8, 8), }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + np.random.rand(count * 64).astype(
        "<f4").tobytes()


@pytest.mark.slow
def test_sigterm_answers_what_was_taken_and_exits_with_0():
    with Process("digits", "--slots", "4", "--max-queue", "100000") as server, ThreadPoolExecutor(8) as pool:
        replies = [pool.submit(httpx.post, f"{server.url}/predict", content=npy_body(64), timeout=20,
                               headers={"content-type": "application/x-npy"}) for _ in range(8)]
        stats = {}
        while not stats.get("occupied"):
            stats = httpx.get(f"{server.url}/stats").json()["runs"]["digits"]
        began = time.monotonic()
        status, out = server.end()
        assert (status, time.monotonic() - began < 11) == (0, True)
        statuses = [reply.result().status_code for reply in replies]
        assert set(statuses) <= {200, 503}    # 503 has come after the signal
        assert statuses.count(200) > 0
        assert out == f"digits: {64 * statuses.count(200):,} answers\n"


KEY = "the-secret-of-this-team"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with a key, of a run in a folder."""
    folder = tmp_path_factory.mktemp("served")
    shutil.copytree(pretrained()["digits"], folder / "mine")
    (folder / "keys").write_text(f"{KEY}\n")
    with Process(str(folder / "mine"), "--depth", "2", "--key-file", str(folder / "keys")) as found:
        found.folder = folder / "mine"
        yield found
        assert found.end(signal.SIGINT)[0] == 0


def ask(server, **headers):
    return httpx.post(f"{server.url}/predict", content=PNG, headers={
        "authorization": f"Bearer {KEY}", "content-type": "image/png", **headers}).json()


@pytest.mark.slow
def test_a_run_is_read_anew_on_sighup_if_it_verifies(server):
    before, file = ask(server), server.folder / "weights.safetensors"
    assert (before["run"], before["depth"]) == ("mine", 2)
    weights = file.read_bytes()
    file.write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    server.process.send_signal(signal.SIGHUP)
    assert "weights.safetensors" in server.line("reload failed")["error"]
    assert ask(server) == before
    file.write_bytes(weights)
    server.process.send_signal(signal.SIGHUP)
    assert server.line("reloaded")["run"] == "mine"
    assert ask(server) == before


@pytest.mark.slow
def test_the_log_has_ids_and_no_keys_bodies_or_made_up_paths(server):
    ask(server, **{"x-request-id": "mine-1"})
    httpx.get(f"{server.url}/made-up-path?key={KEY}")
    while not any(line.get("status") == 401 for line in server.lines):
        time.sleep(0.02)
    text = json.dumps(server.lines)
    assert "secret" not in text
    assert "made-up" not in text
    assert "PNG" not in text
    assert {"time", "level", "event", "request_id", "route", "method", "status", "seconds", "depth", "run"} <= set(
        next(line for line in server.lines if line.get("request_id") == "mine-1"))


@pytest.mark.parametrize(("words", "sentence"), [
    (["nobody"], "there is no run at nobody"), (["digits", "digits"], "two runs are named 'digits'"),
    (["digits", "--depth", "9"], "depth must lie between 1 and 8"), (["digits", "--slots", "0"], "slots"),
    (["digits", "--host", "256.1.1.1"], "cannot be listened at"), (["digits", "--port", "99999"], "listened at"),
    (["digits", "--floor", "2"], "shallower"), (["digits", "--under-load", "shallower"], "floor"),
    (["a b=digits"], "letters, digits"), (["digits", "--max-queue", "1"], "max_queue"),
    (["digits", "--key-file", "/nonexistent/keys"], "/nonexistent/keys"),
    (["digits", "--quantile", "0.5", "--depth", "2"], "not allowed with"), ([], "RUN")])
def test_a_mistake_is_one_line(words, sentence, capsys):
    try:
        status = main(["serve", *words, "--port", "0"] if "--port" not in words else ["serve", *words])
    except SystemExit as stop:
        status = stop.code
    lines = capsys.readouterr().err.strip().splitlines()
    assert status == 2
    assert sentence in lines[-1]
    assert len(lines) == 1


def test_a_run_of_the_wrong_kind_says_what_to_do(tmp_path, capsys):
    import frost
    model = frost.build(frost.named("frost-resnet-8px"))
    model.save(tmp_path / "raw")
    assert main(["serve", str(tmp_path / "raw"), "--mean-depth", "2", "--port", "0"]) == 2
    assert re.search(r"no calibration.*frost calibrate", capsys.readouterr().err)


def test_runs_have_names(tmp_path):
    (tmp_path / "here").mkdir()
    assert named_runs(["digits", "new=digits", str(tmp_path / "here")], pretrained) == {
        "digits": "digits", "new": "digits", "here": str(tmp_path / "here")}
    assert named_runs(["hf://user/thing@v1"], pretrained) == {"thing": "hf://user/thing@v1"}
