"""Requests that nobody meant, from the OpenAPI schema and of damaged bytes (F19); every route without its key (F27).

Of `campaigns/service.py`. Requests from the schema need the extra `campaigns`.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import random
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from bodies import npy, pictures
from clients import HERE, Plain, Process, Served, request_of

GROWTH = 20.0          # MB
DOCUMENTED = (503, 504)
WAIT = 0.4             # seconds for the answer to damaged bytes, which may never come
NAME = "run-of-the-campaign"    # which nobody learns without the key
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
OPEN = ("/", "/live", "/ready", "/v2/health/live", "/v2/health/ready")    # the page at / asks for the key itself
KEY = "a-key-of-the-campaign-0123456789"


def f19(folder: Path, share: float, seed: int) -> dict[str, Any]:
    """Half of the requests from the schema, half damaged bytes."""
    count = max(200, round(10_000 * share))
    with Served("digits") as server:
        _from_schema(server, count // 20, seed + 1)
        asyncio.run(_damaged(server, count // 20, seed + 1))    # warm: what is made at first use is no leak
        before = server.megabytes
        asked = _from_schema(server, count // 2, seed)
        asyncio.run(_damaged(server, count - asked, seed))
        growth, tracebacks, ours = server.megabytes - before, server.tracebacks, _bad_statuses(server)
        alive = server.get("/live")["live"]
    with Plain("digits") as plain:
        statuses = asyncio.run(_damaged(plain, 200, seed))
        control = {"n": 200, "5xx": sum(number for status, number in statuses.items() if status >= 500),
                   "tracebacks": plain.tracebacks}
    failures = ours + tracebacks + (growth > GROWTH) + (not alive) + (not control["5xx"] or not control["tracebacks"])
    return {"n": count, "failures": int(failures), "from the schema": asked, "undocumented 5xx": ours,
            "tracebacks": tracebacks, "growth mb": round(growth, 1), "control": {"a plain server": control}}


def _bad_statuses(server: Process) -> int:
    """Answers with a 5xx that the documents do not have, by the log."""
    found = Counter(int(status) for status in re.findall(r'"status": (5\d\d)', server.text()))
    return sum(count for status, count in found.items() if status not in DOCUMENTED)


def _from_schema(server: Process, count: int, seed: int) -> int:
    """So many requests that schemathesis makes up, sound ones and not, over all operations; how many were sent."""
    import requests
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    schema, sent = schemathesis.openapi.from_url(f"{server.url}/openapi.json"), 0
    operations = [found.ok() for found in schema.get_all_operations()]
    weights = [6 if operation.method.upper() == "POST" else 1 for operation in operations]
    with requests.Session() as session:
        for operation, weight in zip(operations, weights, strict=True):
            for mode in schemathesis.GenerationMode:
                goal = max(1, round(count * weight / sum(weights) / 2))

                @seeded(seed)
                @settings(max_examples=goal, database=None, deadline=None, phases=[Phase.generate],
                          suppress_health_check=list(HealthCheck))
                @given(case=operation.as_strategy(generation_mode=mode))
                def send(case: Any) -> None:
                    nonlocal sent
                    try:
                        session.request(**{**case.as_transport_kwargs(base_url=server.url), "timeout": 40})
                    except requests.RequestException:    # what this client cannot say, it has not said
                        return
                    sent += 1
                try:
                    send()
                except Exception as error:
                    if "Unsatisfiable" not in type(error).__name__ and "Negative" not in str(error):
                        raise
    return sent


def samples() -> list[bytes]:
    """Sound requests, to be damaged."""
    image, generator = pictures(1, 8, 0, channels=1)[0], random.Random(0)
    array = npy(np.full((1, 8, 8), 0.5, np.float32))
    tensor = {"name": "input", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": [0.5] * 64}
    numbers = json.dumps({"inputs": [[[[generator.random() for _ in range(8)] for _ in range(8)]]], "mean_depth": 2})
    chunked = b"POST /predict HTTP/1.1\r\nhost: a\r\ncontent-type: image/png\r\ntransfer-encoding: chunked\r\n\r\n"
    return [request_of(image, "image/png"), request_of(image, "image/png", "/predict?mean_depth=2&deadline_ms=50"),
            request_of(array, "application/x-npy", "/runs/digits/predict"),
            request_of(numbers.encode(), "application/json"),
            request_of(json.dumps({"inputs": [tensor]}).encode(), "application/json", "/v2/models/digits/infer"),
            chunked + b"%x\r\n%s\r\n0\r\n\r\n" % (len(image), image),
            *(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode() for path in ("/", "/stats", "/metrics"))]


def damaged(request: bytes, chance: random.Random) -> bytes:
    """A request with some bytes changed, cut out, doubled or put in."""
    found = bytearray(request)
    for _ in range(chance.randint(1, 6)):
        place, way = chance.randrange(len(found) + 1), chance.randrange(6)
        stop = min(len(found), place + chance.choice((1, 2, 8, 64)))
        if way == 0 and place < len(found):
            found[place] ^= 1 << chance.randrange(8)
        elif way == 1:
            del found[place:stop]
        elif way == 2:
            found[place:place] = found[place:stop]
        elif way == 3:
            found[place:place] = chance.randbytes(chance.choice((1, 4, 200)))
        elif way == 4:
            found[place:place] = chance.choice((b"\r\n", b"\0", b"content-length: 7\r\n", b"%00", b"-1", b"NaN",
                                                b"1e999", b"\xff\xfe", b"[" * 50, b"transfer-encoding: chunked\r\n"))
        else:
            found += chance.randbytes(20)
        found = found or bytearray(b"\0")
    return bytes(found)


async def _damaged(server: Process, count: int, seed: int) -> Counter[int]:
    """Send damaged requests, a connection each; the statuses that came."""
    chance, room, sound = random.Random(seed), asyncio.Semaphore(50), samples()
    statuses: Counter[int] = Counter()

    async def one(content: bytes) -> None:
        async with room:
            reader, writer = await asyncio.open_connection(HERE, server.port)
            try:
                writer.write(content)
                await writer.drain()
                answer = await asyncio.wait_for(reader.read(65536), WAIT)
                if match := re.match(rb"HTTP/1\.1 (\d\d\d)", answer):
                    statuses[int(match[1])] += 1
            except (OSError, TimeoutError):
                pass
            finally:
                writer.close()
    await asyncio.gather(*(one(damaged(chance.choice(sound), chance)) for _ in range(count)))
    return statuses


def f27(folder: Path, share: float, seed: int) -> dict[str, Any]:
    """Every route by every method, with keys of every kind."""
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as file:
        file.write(f"{KEY}\n")
        file.flush()
        with Served(f"{NAME}=digits", "--key-file", file.name) as server:
            count, opened, closed = _by_all_keys(server)
            page = httpx.get(server.url).text
            told = KEY in server.text() or KEY in page or NAME in page
    with Served(f"{NAME}=digits") as server:
        _, without, _ = _by_all_keys(server)
    return {"n": count, "failures": opened + closed + told + int(not without), "answered without the key": opened,
            "refused with it": closed, "control": {"no --key-file": {"n": count, "answered": without}}}


def _by_all_keys(server: Process) -> tuple[int, int, int]:
    """Requests, those that were answered without the right key and should not, and those refused with it."""
    right = {"authorization": f"Bearer {KEY}"}
    client = http.client.HTTPConnection(HERE, server.port, timeout=30)    # it sends paths and headers as they are

    def status_of(path: str, method: str, headers: dict[str, str]) -> int:
        client.request(method, path, headers=headers)
        answer = client.getresponse()
        answer.read()
        return answer.status

    client.request("GET", "/openapi.json", headers=right)
    paths = json.load(client.getresponse())["paths"]
    known = [path.replace("{name}", NAME).replace("{version}", "1") for path in paths]
    known += ["/openapi.json", "/nowhere", "//live", "/live/", "/live/../stats", "/live%2f..%2fstats", "/LIVE",
              "/predict/live", "/stats?x=/live", "/v2/health/live/../../../stats"]
    wrong: list[dict[str, str]] = [
        {}, {"authorization": "Bearer"}, {"authorization": "Bearer "}, {"authorization": f"Bearer {KEY[:-1]}"},
        {"authorization": f"Bearer {KEY}x"}, {"authorization": f"Bearer {KEY.upper()}"}, {"authorization": KEY},
        {"authorization": f"Basic {KEY}"}, {"x-api-key": KEY[:16]}, {"x-api-key": ""}, {"cookie": f"key={KEY}"},
        {"authorization": "Bearer " + "x" * len(KEY)}, {"x-api-key": KEY, "authorization": "Bearer no"}]
    count = opened = closed = 0
    for path, method in itertools.product(known, METHODS):
        for headers in wrong:
            count, status = count + 1, status_of(path, method, headers)
            opened += status != 401 and path not in OPEN
        for headers in (right, {"x-api-key": KEY}):
            count, status = count + 1, status_of(path, method, headers)
            closed += status == 401
    client.close()
    return count, opened, closed
