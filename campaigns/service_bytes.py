"""Bodies that lie about their size, bombs, odd pictures (F20) and two hundred slow sockets (F23).

Of `campaigns/service.py`. A refusal has to come within a second and must not cost memory, whatever was announced.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.server
import io
import socket
import struct
import threading
import time
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from clients import HERE, Plain, Process, Served, capacity, quantile, request_of
from PIL import Image, PngImagePlugin
from service_load import slow_run

GROWTH, SECONDS, BODY_SECONDS = 32.0, 1.0, 11.0
SOCKETS = 200
SLOWER = 1.5
ODD = (("1", "PNG"), ("P", "PNG"), ("LA", "PNG"), ("RGBA", "PNG"), ("I;16", "PNG"), ("CMYK", "JPEG"),
       ("L", "JPEG"), ("RGBA", "WEBP"))
POST = b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-type: image/png\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"


class Attack(NamedTuple):
    """What is sent, and which answers are well."""

    name: str
    parts: Iterator[bytes]
    statuses: tuple[int, ...]
    seconds: float = SECONDS


def image(mode: str, size: tuple[int, int], kind: str = "PNG", **how: Any) -> bytes:
    """A black picture's bytes."""
    stream = io.BytesIO()
    Image.new(mode, size).save(stream, kind, **how)
    return stream.getvalue()


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes that claims so many pixels."""
    png = image("L", (8, 8))
    header = b"IHDR" + struct.pack(">II", width, height) + png[24:29]
    return png[:12] + header + struct.pack(">I", zlib.crc32(header)) + png[33:]


def attacks(megabytes: int) -> list[Attack]:
    """All of them, made anew; large bodies are of so many megabytes."""
    block = bytes(2**20)
    text = PngImagePlugin.PngInfo()
    text.add_text("a", "x" * 50_000_000, zip=True)
    packed = gzip.compress(bytes(100_000_000), 6)
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000), }"
    huge = b"\x93NUMPY\x01\x00v\x00" + header.ljust(117) + b"\n"
    refused = (400, 413, 415, 422)

    def sized(length: bytes, body: bytes = b"x") -> Iterator[bytes]:
        return iter([POST + b"content-length: " + length + b"\r\n\r\n" + body])

    def sent(body: bytes, kind: str = "image/png", more: bytes = b"", path: str = "/predict") -> Iterator[bytes]:
        return iter([request_of(body, kind, path, more)])

    def streamed() -> Iterator[bytes]:
        yield CHUNKED
        for _ in range(megabytes):
            yield b"100000\r\n" + block + b"\r\n"

    def announced() -> Iterator[bytes]:
        yield POST + b"content-length: %d\r\n\r\n" % (megabytes * 2**20)
        for _ in range(megabytes):
            yield block

    def tiny() -> Iterator[bytes]:
        yield CHUNKED
        for _ in range(1000):
            yield b"1\r\nx\r\n" * 1000
        yield b"0\r\n\r\n"

    deep = b'{"inputs": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    both = POST + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    infer = b'{"inputs": [{"name": "input", "shape": [4294967295, 4294967295, 3], "datatype": "FP64", "data": [1]}]}'
    wide = image("L", (32, 32), "JPEG").replace(b"\0\x20\0\x20", b"\xea\x60\xea\x60")
    found = [
        Attack("length of a terabyte", sized(b"1000000000000"), (413,)), Attack("length < 0", sized(b"-5"), (400, 413)),
        Attack("length of 5,000 digits", sized(b"9" * 5000), (400, 413)),
        Attack("length in words", sized(b"many"), (400, 413)),
        Attack("length too short", sized(b"2", b"x" * 500), (422, 400)),
        Attack("length too long", sized(b"500"), (408,), BODY_SECONDS),
        Attack("length and chunks", iter([both]), refused),
        Attack("two lengths", sized(b"3\r\ncontent-length: 9", b"abc"), refused),
        Attack("a gigabyte in chunks", streamed(), (413,)), Attack("a gigabyte announced", announced(), (413,)),
        Attack("a million chunks", tiny(), refused),
        Attack("gzip bomb", sent(packed, more=b"content-encoding: gzip\r\n"), (415,)),
        Attack("ten billion pixels", sent(bomb(100_000, 100_000)), (413,)),
        Attack("no pixels", sent(bomb(0, 0)), refused), Attack("a line of pixels", sent(bomb(2**31 - 1, 1)), refused),
        Attack("packed text in a PNG", sent(image("L", (32, 32), pnginfo=text)), (200, *refused)),
        Attack("five megapixels", sent(image("RGB", (2500, 2000))), (413,)),
        Attack("JPEG of 60,000 × 60,000", sent(wide, "image/jpeg"), refused),
        Attack("huge array", sent(huge, "application/x-npy"), (422,)),
        Attack("deep JSON", sent(deep, "application/json"), (400,)),
        Attack("huge tensor", sent(infer, "application/json", path="/v2/models/cifar100-cpu/infer"), (422,))]
    found += [Attack(f"{kind} named PNG", sent(image("RGB", (32, 32), kind)), refused)
              for kind in ("GIF", "TIFF", "BMP", "ICO", "PPM")]
    found += [Attack(f"mode {mode}", sent(image(mode, (32, 32), kind), f"image/{kind.lower()}"), (200, *refused))
              for mode, kind in ODD]
    return found


def f20(folder: Path, share: float, seed: int) -> dict[str, Any]:
    """Every attack, several times; the control is a plain server."""
    rounds, megabytes = max(1, round(5 * share)), max(64, round(1024 * share))
    faults, slowest, count = [], 0.0, 0
    with Served("cifar100-cpu") as server:
        for attack in attacks(2):
            _send(server, attack)
        before = server.megabytes
        most = before
        for _ in range(rounds):
            for attack in attacks(megabytes):
                status, seconds = _send(server, attack)
                count, most = count + 1, max(most, server.megabytes)
                slowest = max(slowest, seconds if attack.seconds == SECONDS else 0.0)
                if status not in attack.statuses or seconds > attack.seconds:
                    faults.append(f"{attack.name}: {status} after {seconds:.2f} s")
        growth, tracebacks = most - before, server.tracebacks
    with Plain("cifar100-cpu") as plain:
        began = plain.megabytes
        large = request_of(image("RGB", (9000, 9000)), "image/png")
        _send(plain, Attack("eighty megapixels", iter([large]), (200,), 30.0))
        plain_growth = plain.status("VmHWM") / 1024 - began
    failures = len(faults) + tracebacks + (growth > GROWTH) + (plain_growth <= GROWTH)
    return {"n": count, "failures": int(failures), "faults": sorted(set(faults)), "growth mb": round(growth, 1),
            "slowest refusal seconds": round(slowest, 2),
            "control": {"a plain server": {"growth mb": round(plain_growth)}}}


def _send(server: Process, attack: Attack) -> tuple[int, float]:
    """Send an attack until an answer comes; status, and the seconds from the last byte that was needed."""
    with socket.create_connection((HERE, server.port), timeout=30) as connection:
        began = time.perf_counter()
        status: list[int] = []

        def read() -> None:
            with contextlib.suppress(OSError):
                answer = connection.recv(4096)
                status.append(int(answer[9:12]) if answer[:5] == b"HTTP/" else 0)
        reader = threading.Thread(target=read)
        reader.start()
        with contextlib.suppress(OSError):
            for part in attack.parts:
                if status:
                    break
                connection.sendall(part)
                if attack.name == "a million chunks":    # its time begins when it has been sent
                    began = time.perf_counter()
        reader.join(30)
        return status[0] if status else 0, time.perf_counter() - began


def f23(folder: Path, share: float, seed: int) -> dict[str, Any]:
    """Two hundred sockets that send or read hardly anything, beside normal requests at half load."""
    run, requests = slow_run(folder)
    seconds = max(8.0, 40 * share)
    with Served(run, "--slots", "16") as server:
        half = capacity(server, requests, 5.0) / 2
        alone = quantile(server.open(requests, seconds, half, seed=seed), 0.99)
        stop = threading.Event()
        crowd = threading.Thread(target=lambda: asyncio.run(_slow_sockets(server.port, requests[0], stop)))
        crowd.start()
        time.sleep(1.0)
        found = server.open(requests, seconds, half, seed=seed)
        stop.set()
        crowd.join()
    among, lost = quantile(found, 0.99), sum(got.status != 200 for got in found)
    blocked = _one_at_a_time()
    return {"n": SOCKETS, "failures": int(among > SLOWER * alone) + lost + int(not blocked), "requests": len(found),
            "lost": lost, "p99 alone": round(alone, 3), "p99 among them": round(among, 3),
            "control": {"one connection at a time, one slow socket": {"n": 5, "no answer": blocked}}}


async def _slow_sockets(port: int, request: bytes, stop: threading.Event) -> None:
    """Connections that begin requests and do not end them, or do not read; those that are closed come again."""
    async def one(kind: int) -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(HERE, port)
                head, _, body = request.partition(b"\r\n\r\n")
                content = {0: b"", 1: head, 2: head + b"\r\n\r\n" + body, 3: b""}[kind]
                ended = asyncio.create_task(reader.read(65536)) if kind != 3 else None
                if kind == 3:
                    writer.write(b"GET /docs HTTP/1.1\r\nhost: a\r\n\r\n" * 50)
                for place in range(40):
                    if stop.is_set() or writer.is_closing() or (ended is not None and ended.done()):
                        break
                    writer.write(content[3 * place:3 * place + 3])
                    await asyncio.sleep(0.5)
                if ended is not None:
                    ended.cancel()
                writer.transport.abort()
    await asyncio.gather(*(one(number % 4) for number in range(SOCKETS)))


def _one_at_a_time() -> int:
    """Requests of five that a server with one connection at a time does not answer beside a slow one."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words: Any) -> None:
            return

    server, blocked = http.server.HTTPServer((HERE, 0), Handler), 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with socket.create_connection(server.server_address[:2]) as slow:
        slow.sendall(b"GET / HT")
        time.sleep(0.2)
        for _ in range(5):
            try:
                urllib.request.urlopen(f"http://{HERE}:{server.server_address[1]}/", timeout=0.4).close()
            except OSError:
                blocked += 1
    server.shutdown()
    server.server_close()
    return blocked
