"""Structured logs: one line an event, with request ids, without bodies, keys or paths that strangers made up."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

Style = Literal["text", "json"]


class Log:
    """Writes lines to the standard error stream."""

    def __init__(self, style: Style = "text", stream: TextIO | None = None) -> None:
        self.style, self._stream = style, stream

    def __call__(self, event: str, level: str = "info", **fields: Any) -> None:
        """One line; what cannot be written is lost, and disturbs nobody."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        if self.style == "json":
            line = json.dumps({"time": now, "level": level, "event": event, **fields}, default=str)
        else:
            words = " ".join(f"{name}={_shown(value)}" for name, value in fields.items())
            line = f"frost: {now} {event}{'' if level == 'info' else f' ({level})'} {words}"
        try:
            (self._stream or sys.stderr).write(line + "\n")
        except (OSError, ValueError):
            return


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) and value.isascii() and value.isalnum() else json.dumps(value, default=str)
