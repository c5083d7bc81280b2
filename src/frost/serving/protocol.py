"""Deadlines for receiving a request and for taking its answer, which uvicorn has none of.

Headers have to arrive in time and within their size; the body's time and size are `asks.Ask.body`'s.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from frost.serving.asks import CLOSED, Refusal
from frost.serving.limits import LIMITS, Limits

LINGER = 0.3    # seconds that an idle connection stays open when the server ends


class TimedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a stopwatch."""

    limits: ClassVar[Limits] = LIMITS
    _stopwatch: asyncio.TimerHandle | None = None
    _header_bytes: int | None = 0    # None while no header is awaited

    def connection_made(self, transport: Any) -> None:
        """A connection has until then to send a request's headers."""
        super().connection_made(transport)
        self._closed: asyncio.Future[None] = self.loop.create_future()
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited any more, and nobody waits for an answer."""
        self._have_headers()
        super().connection_lost(exc)
        if not self._closed.done():
            self._closed.set_result(None)

    def on_message_begin(self) -> None:
        """The first byte of a request, on a connection that may have served others."""
        super().on_message_begin()
        self.scope[CLOSED] = self._closed    # type: ignore[literal-required]
        if self._stopwatch is None:
            self._await_headers()

    def on_headers_complete(self) -> None:
        """The headers are there."""
        self._have_headers()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Bytes of a header that does not end are too many at some point."""
        super().data_received(data)
        if self._header_bytes is not None and self.parser is not None:
            self._header_bytes += len(data)
            if self._header_bytes > self.limits.header:
                self._refuse(431, "request line and headers are too long.")

    def on_response_complete(self) -> None:
        """A client has some time to take its answer."""
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self.loop.call_later(self.limits.answer_seconds, self._abort_if_not_taken)

    def shutdown(self) -> None:
        """The server ends: a request that is on its way hears so, instead of a connection that breaks."""
        if self.cycle is None or self.cycle.response_complete:
            self.loop.call_later(LINGER, super().shutdown)
        else:
            super().shutdown()

    def _await_headers(self) -> None:
        self._header_bytes = 0
        self._stopwatch = self.loop.call_later(self.limits.header_seconds, self._too_slow)

    def _have_headers(self) -> None:
        self._header_bytes = None
        if self._stopwatch is not None:
            self._stopwatch.cancel()
            self._stopwatch = None

    def _too_slow(self) -> None:
        self._stopwatch = None
        self._refuse(408, f"the headers did not arrive within {self.limits.header_seconds:g} s.")

    def _refuse(self, status: int, sentence: str) -> None:
        """Answer without an application, and close; behind an answer that is under way, only close."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
            return
        if not self.transport.is_closing():
            body = Refusal(status, sentence).reply.body
            self.transport.write(b"HTTP/1.1 %d \r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
                                 b"connection: close\r\n\r\n%s" % (status, len(body), body))
            self.transport.close()

    def _abort_if_not_taken(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()


def timed(limits: Limits) -> type[TimedProtocol]:
    """The protocol with these limits."""
    return type("Timed", (TimedProtocol,), {"limits": limits})
