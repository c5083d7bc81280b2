"""Structured logs: one line an event, with request ids, without bodies, keys or paths that strangers made up."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from frost.serving.asks import as_json

Style = Literal["text", "json"]
LATER = 0.05    # seconds until lines are written together; each write lets other threads in


class Log:
    """Writes lines to the standard error stream."""

    def __init__(self, style: Style = "text", stream: TextIO | None = None) -> None:
        self.style, self._stream = style, stream
        self._lines: list[str] = []

    def __call__(self, event: str, level: str = "info", **fields: Any) -> None:
        """One line; what cannot be written is lost, and disturbs nobody."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        if self.style == "json":
            line = as_json({"time": now, "level": level, "event": event, **fields}).decode()
        else:
            words = " ".join(f"{name}={_shown(value)}" for name, value in fields.items())
            line = f"frost: {now} {event}{'' if level == 'info' else f' ({level})'} {words}"
        self._lines.append(line + "\n")
        if level != "info" or (loop := asyncio._get_running_loop()) is None:
            self.flush()
        elif len(self._lines) == 1:
            loop.call_later(LATER, self.flush)

    def flush(self) -> None:
        """Write what has been gathered."""
        lines, self._lines = self._lines, []
        stream = self._stream or sys.stderr
        with contextlib.suppress(OSError, ValueError):
            stream.write("".join(lines))
            stream.flush()


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) and value.isascii() and value.isalnum() else json.dumps(value, default=str)
