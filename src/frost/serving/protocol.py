"""Deadlines for receiving a request and for taking its answer, which uvicorn has none of.

Headers have to arrive in time and within their size; the body's time and size are `asks.Ask.body`'s.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from frost.serving.asks import CLOSED, WHOLE, Refusal
from frost.serving.limits import LIMITS, Limits

LINGER = 0.3           # seconds that an idle connection stays open when the server ends
MOST_PIPELINED = 16    # requests that wait on a connection for the answer before theirs
NO_HTTP = (400, "this is no HTTP request.")


class TimedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a stopwatch."""

    limits: ClassVar[Limits] = LIMITS
    _stopwatch: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None    # until an answer has to be taken
    _waiting_bytes: int | None = 0    # of a header that has not ended; None while none is awaited
    _header_bytes = 0                 # of the headers and trailers of a request
    _fault: tuple[int, str] = NO_HTTP    # what a refusal of the parser says

    def connection_made(self, transport: Any) -> None:
        """A connection has until then to send a request's headers."""
        super().connection_made(transport)
        self._closed: asyncio.Future[None] = self.loop.create_future()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited any more, and nobody waits for an answer."""
        self._have_headers()
        super().connection_lost(exc)
        if not self._closed.done():
            self._closed.set_result(None)

    def on_message_begin(self) -> None:
        """The first byte of a request, on a connection that may have served others."""
        if len(self.pipeline) >= MOST_PIPELINED:
            self._wrong(400, f"at most {MOST_PIPELINED} requests may wait on a connection.")
        super().on_message_begin()
        self.scope[CLOSED] = self._closed    # type: ignore[literal-required]
        self._waiting_bytes = self._header_bytes = 0
        self._watch()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer behind a body in chunks."""
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > self.limits.header:
            self._wrong(431, "request line and headers are too long.")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The headers are there."""
        self._have_headers()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The body is there; reading goes on, or nobody would see the client leave."""
        super().on_message_complete()
        self.scope[WHOLE] = True    # type: ignore[literal-required]
        if not self.pipeline and not self.transport.is_closing():
            self.flow.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Bytes of a header that does not end are too many at some point; no bytes go on for ever."""
        super().data_received(data)
        if self.parser is None or self.transport.is_closing():
            return
        if self._waiting_bytes is not None:
            self._waiting_bytes += len(data)
            if self._waiting_bytes > self.limits.header:
                self._refuse(431, "request line and headers are too long.")
        if self.cycle is not None and self.cycle.response_complete:
            self._watch()

    def on_response_complete(self) -> None:
        """A client has some time to take its answer, and to send the rest of what is answered already."""
        super().on_response_complete()
        if self._taking is not None:
            self._taking.cancel()
        if self.transport.get_write_buffer_size():
            self._taking = self.loop.call_later(self.limits.answer_seconds, self._abort_if_not_taken)
        if self.cycle.response_complete and self.cycle.more_body:
            self._watch()

    def send_400_response(self, msg: str) -> None:
        """What is no request, or too much of one."""
        self._refuse(*self._fault)

    def shutdown(self) -> None:
        """The server ends: a request that is on its way hears so, instead of a connection that breaks."""
        if self.cycle is None or self.cycle.response_complete:
            self.loop.call_later(LINGER, super().shutdown)
        else:
            super().shutdown()

    def _watch(self) -> None:
        """Wait for headers, and no longer than they may take."""
        if self._stopwatch is None:
            self._stopwatch = self.loop.call_later(self.limits.header_seconds, self._too_slow)

    def _have_headers(self) -> None:
        self._waiting_bytes = None
        if self._stopwatch is not None:
            self._stopwatch.cancel()
            self._stopwatch = None

    def _too_slow(self) -> None:
        self._stopwatch = None
        self._refuse(408, f"the headers did not arrive within {self.limits.header_seconds:g} s.")

    def _wrong(self, status: int, sentence: str) -> None:
        """In the parser, which gives up and asks for `send_400_response`."""
        self._fault = (status, sentence)
        raise ValueError(sentence)

    def _refuse(self, status: int, sentence: str) -> None:
        """Answer without an application, and close; behind an answer that is under way, only close."""
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
            self.flow.pause_reading()
            return
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
