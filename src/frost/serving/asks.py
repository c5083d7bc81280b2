"""A request as the handlers see it, and what they give back; no framework."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import orjson

from frost.serving.limits import Limits

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
JSON = "application/json"
CLOSED = "frost.closed"    # in a request's scope: a future that is done when its connection has ended
WHOLE = "frost.whole"      # in a request's scope: its body is there


class Reply(NamedTuple):
    """Status, body and headers."""

    status: int
    body: bytes
    kind: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


class Refusal(Exception):
    """The request is answered with this status and sentence."""

    def __init__(self, status: int, sentence: str, *headers: tuple[str, str]) -> None:
        super().__init__(sentence)
        self.reply = Reply(status, as_json({"error": sentence}), JSON, headers)


class ClientGone(Exception):
    """The client has closed the connection; there is no one to answer."""


class Ask:
    """One request."""

    def __init__(self, scope: Message, receive: Receive, limits: Limits, arrived: float) -> None:
        self.receive, self.limits, self.arrived = receive, limits, arrived
        self._scope, self._closed = scope, scope.get(CLOSED)
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query_string: bytes = scope["query_string"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.notes: dict[str, Any] = {}    # for the log

    def header(self, name: bytes) -> str:
        """A header's value, or nothing."""
        return self.headers.get(name, b"").decode("latin-1").strip()

    def query(self) -> dict[str, str]:
        """The query; a name that comes twice is refused."""
        if not self.query_string:
            return {}
        pairs = parse_qsl(self.query_string.decode("latin-1"), keep_blank_values=True, max_num_fields=None)
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            raise Refusal(422, "a name of the query came twice; say it once.")
        return dict(pairs)

    async def body(self) -> bytes:
        """The whole body, within its limits."""
        limits = self.limits
        if self.header(b"content-encoding").lower() not in ("", "identity"):
            raise Refusal(415, "compressed bodies are not taken; send it as it is.")
        declared = self.header(b"content-length")
        if declared and (not declared.isdecimal() or int(declared[:20]) > limits.body):
            raise self._too_large()
        if WHOLE in self._scope:    # nearly always: no timer is needed
            return await self._read(limits.body)
        try:
            async with asyncio.timeout(limits.body_seconds):
                return await self._read(limits.body)
        except TimeoutError:
            raise Refusal(408, f"the body did not arrive within {limits.body_seconds:g} s.",
                          ("connection", "close")) from None

    async def _read(self, most: int) -> bytes:
        message = await self.receive()
        body: bytes = message.get("body", b"")
        if message["type"] == "http.request" and not message.get("more_body"):
            if len(body) > most:
                raise self._too_large()
            return body
        parts = bytearray(body)
        while message["type"] == "http.request" and message.get("more_body"):
            message = await self.receive()
            parts += message.get("body", b"")
            if len(parts) > most:
                raise self._too_large()
        if message["type"] != "http.request":
            raise ClientGone
        return bytes(parts)

    @contextmanager
    def leaving(self) -> Iterator[asyncio.Future[None]]:
        """A future that is done when the client goes away; for after the body has come.

        Our own protocol says when a connection ends, which costs nothing; another server is asked by a task.
        """
        if self._closed is not None:
            yield self._closed
            return
        watcher = asyncio.ensure_future(_gone(self.receive))
        try:
            yield watcher
        finally:
            watcher.cancel()

    def _too_large(self) -> Refusal:
        return Refusal(413, f"a body has at most {self.limits.body:,} bytes; send fewer or smaller inputs.",
                       ("connection", "close"))


async def _gone(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def as_json(value: Any) -> bytes:
    """Compact JSON; what is not finite is null."""
    try:
        return orjson.dumps(value, default=str)
    except TypeError:    # a text that is no text, which a client has sent
        return json.dumps(value, allow_nan=False, default=str).encode()


def reply_json(value: Any, status: int = 200, *headers: tuple[str, str]) -> Reply:
    """An answer in JSON."""
    return Reply(status, as_json(value), JSON, headers)


def parsed(body: bytes, most_depth: int) -> Any:
    """JSON from a stranger: at most so deep, without NaN and infinity; anything else is a refusal."""
    try:
        value = json.loads(body, parse_constant=_no_constant)
    except RecursionError:
        raise Refusal(400, f"the JSON is nested deeper than {most_depth}.") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise Refusal(400, f"the body is no JSON: {error}.") from None
    level, depth = [value] if isinstance(value, (list, dict)) else [], 0
    while level:
        depth += 1
        if depth > most_depth:
            raise Refusal(400, f"the JSON is nested deeper than {most_depth}.")
        level = [part for node in level for part in (node.values() if isinstance(node, dict) else node)
                 if isinstance(part, (list, dict))]
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
