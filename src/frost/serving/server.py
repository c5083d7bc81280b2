"""The process: one socket, one event loop, and what its signals mean.

    SIGTERM, SIGINT   no more requests, those that were taken are answered, exit 0; a second SIGINT ends it at once
    SIGHUP            every run is read anew; one that does not verify stays as it is
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Generator

import uvicorn

from frost.core.interpreter import share_interpreter
from frost.serving.app import App
from frost.serving.protocol import LINGER, timed
from frost.serving.service import Service

GRACE = 2.0    # seconds of the drain that are left for what comes before and after it


class Server(uvicorn.Server):
    """uvicorn's server, which ends by our signals and says when it is there."""

    def __init__(self, service: Service, ready: Callable[[], None] = lambda: None) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)    # the application has a log of its own
        drain = max(1, round(service.limits.drain - GRACE))
        super().__init__(uvicorn.Config(
            App(service), http=timed(service.limits), ws="none", lifespan="on", log_config=None, access_log=False,
            server_header=False, proxy_headers=False, timeout_graceful_shutdown=drain))
        self.service, self.status = service, 0
        self._ready = ready
        service.ended = self._died

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Signals of ours, where this is the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        handled = {signal.SIGTERM: self.end, signal.SIGINT: self.end,
                   signal.SIGHUP: lambda: self.service.spawn(self.service.reload())}
        for number, handler in handled.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        share_interpreter()
        self._ready()

    def end(self) -> None:
        """Take no more requests, answer those that were taken, and leave; asked again, leave at once.

        For a moment more, connections are accepted, so that those that had come are answered and not broken.
        """
        self.force_exit = self.should_exit = self.service.is_draining
        self.service.is_draining = True
        self.service.log("ending")
        self._loop.call_soon_threadsafe(self._loop.call_later, LINGER, self._leave)

    def _leave(self) -> None:
        self.should_exit = True

    def _died(self) -> None:
        """An engine has died: leave with an error, so that the process is started again."""
        self.status = 1
        self.end()


def bound(host: str, port: int) -> socket.socket:
    """A listening address; one that is not to be had is a ValueError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)    # asyncio sets no TCP_NODELAY without it
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except (OSError, OverflowError) as error:
        found.close()
        raise ValueError(f"{host}:{port} cannot be listened at ({error}); choose another --host or --port.") from None
    return found


def serve(service: Service, listening: socket.socket) -> int:
    """Serve until a signal comes; the exit status."""
    host, port = listening.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    backends = [served.engine.worker.backend for served in service.runs.values()]
    server = Server(service, lambda: service.log("ready", url=url, runs=list(service.runs), backends=backends))
    with listening:
        server.run([listening])
    status = server.status if server.started else 1
    is_stuck = service.beside.waiting > 0    # nobody waits for it any more, and no thread can be stopped
    service.log("ended", **({"given_up": "a trajectory"} if is_stuck else {}))
    service.log.flush()
    if is_stuck:
        os._exit(status)
    return status
