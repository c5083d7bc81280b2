"""The ASGI application: keys, request ids, errors, counts and logs around every request.

`POST /predict` is met before the router, which would cost more than a small model; everything else is FastAPI's.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import re
import secrets
import time
from itertools import count
from typing import TYPE_CHECKING, Any

from frost.serving.asks import CLOSED, Ask, ClientGone, Message, Receive, Refusal, Reply, Send
from frost.serving.predict import predict

if TYPE_CHECKING:
    from fastapi import FastAPI

    from frost.serving.service import Service

# Answered without a key; the page at / says nothing by itself.
OPEN = ("/", "/live", "/ready", "/v2/health/live", "/v2/health/ready")
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
GONE = 499    # the client's own status in the log and the counts; it is never sent


class App:
    """The whole service as an ASGI application."""

    def __init__(self, service: Service) -> None:
        from frost.serving.routes import make_routes
        self.service = service
        self.routes: FastAPI = make_routes(service)
        self._prefix, self._count = f"{secrets.token_hex(4)}-", count()    # asking the system each time is dear
        self._digests = [hashlib.sha256(key).digest() for key in service.keys]

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Meet one request, or the server's beginning and end."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._meet(scope, receive, send)
        else:
            raise RuntimeError(f"only HTTP is served, got {scope['type']}.")

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.service.start()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.service.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _meet(self, scope: Message, receive: Receive, send: Send) -> None:
        began = time.monotonic()
        ask = Ask(scope, receive, self.service.limits, began)
        given = ask.header(b"x-request-id")
        ask.notes["request_id"] = given if REQUEST_ID.fullmatch(given) else f"{self._prefix}{next(self._count):x}"
        scope["frost.ask"] = ask
        try:
            reply = await self._answered(scope, ask)
            if reply is None:
                await self._routed(scope, receive, send, ask, began)
                return
        except Refusal as refusal:
            reply = refusal.reply
        except ClientGone:
            self._note(ask, GONE, began)
            return
        except asyncio.CancelledError:
            if CLOSED not in scope:    # a server that cancels what its client has left
                self._note(ask, GONE, began)
                raise
            # ours has waited long enough for it
            reply = Refusal(503, "the server has ended before there was an answer.", ("connection", "close")).reply
        except Exception as error:
            reply = failed(self.service, ask, error).reply
        self._note(ask, reply.status, began)
        await self._send(send, reply, ask.notes["request_id"])

    async def _answered(self, scope: Message, ask: Ask) -> Reply | None:
        """The answer of /predict; None for what the router shall have."""
        if len(ask.query_string) + sum(map(len, ask.headers)) + sum(map(len, ask.headers.values())) > (
                self.service.limits.header):
            raise too_much_header(self.service.limits.header)
        self._check_key(ask)
        path = ask.path
        if ask.method != "POST" or not path.endswith("/predict"):
            return None
        if path == "/predict":
            name = ask.query().get("run")
        elif path.startswith("/runs/") and path.count("/") == 3:
            name = path[6:-8]
        else:
            return None
        served = self.service.run_named(name)
        ask.notes["route"], ask.notes["run"] = "/predict", served.name
        if self.service.is_draining:
            raise Refusal(503, "the server is ending and takes no more requests.", ("connection", "close"))
        return await predict(served, ask)

    def _check_key(self, ask: Ask) -> None:
        """Refuse a request without a key where keys are asked for; every key is compared, in constant time."""
        if not self._digests or ask.path in OPEN:
            return
        word = ask.header(b"authorization")
        given = word[7:].strip() if word[:7].lower() == "bearer " else ask.header(b"x-api-key")
        digest = hashlib.sha256(given.encode("latin-1")).digest()
        found = False
        for known in self._digests:
            found |= hmac.compare_digest(digest, known)
        if not found:
            raise Refusal(401, "a key is needed: Authorization: Bearer KEY, or X-API-Key: KEY.",
                          ("www-authenticate", "Bearer"))

    async def _routed(self, scope: Message, receive: Receive, send: Send, ask: Ask, began: float) -> None:
        status = GONE

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()),
                                      (b"x-request-id", ask.notes["request_id"].encode())]
            await send(message)
        with contextlib.suppress(ClientGone):
            await self.routes(scope, receive, noted)
        self._note(ask, status, began)

    def _note(self, ask: Ask, status: int, began: float) -> None:
        """Count and log a request."""
        seconds = time.monotonic() - began
        notes = ask.notes
        route = notes.pop("route", "unknown")
        self.service.metrics.count(route, notes.get("run", ""), status, seconds)
        self.service.log("request", "info" if status < 500 else "error", route=route, method=_known(ask.method),
                         status=status, seconds=round(seconds, 6), **notes)

    async def _send(self, send: Send, reply: Reply, request_id: str) -> None:
        """Send an answer."""
        headers = [(b"content-type", reply.kind.encode()), (b"content-length", str(len(reply.body)).encode()),
                   (b"x-request-id", request_id.encode()),
                   *((name.encode(), value.encode()) for name, value in reply.headers)]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})


def too_much_header(most: int) -> Refusal:
    """Of a request line and headers that are too long."""
    return Refusal(431, f"request line and headers have at most {most:,} bytes together.", ("connection", "close"))


def failed(service: Service, ask: Ask, error: Exception) -> Refusal:
    """Of a failure of ours, which is in the log and not in the answer."""
    service.log("failure", "error", request_id=ask.notes["request_id"], error=f"{type(error).__name__}: {error}")
    return Refusal(500, "something went wrong here; the log has it under the request's id.")


def _known(method: str) -> str:
    """A method that goes into a log."""
    return method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "other"


def asked(scope: Any) -> Ask:
    """The request as the handlers see it."""
    found: Ask = scope["frost.ask"]
    return found
