"""`frost.Client`: a server of runs from Python, with or without asyncio; needs no model and no server package."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from frost.halting.budget import Budget
from frost.runtime.async_engine import EngineStopped
from frost.runtime.engine_thread import DeadlinePassed
from frost.runtime.scheduler import QueueFull

if TYPE_CHECKING:
    import httpx

KINDS = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"RIFF": "image/webp"}    # by the first bytes
SECONDS = 60.0


class Client:
    """A server at a URL.

    What the server refuses is raised: a full queue as `QueueFull` with `.seconds` to wait, a deadline before the first
    step as TimeoutError, a server that is ending as RuntimeError, a wrong key as PermissionError, the rest as
    ValueError with the server's sentence.

    Args:
        url: such as http://127.0.0.1:8000.
        key: where the server asks for one.
        run: a run by name; None is the server's first.
        seconds: that an answer may take.
    """

    def __init__(self, url: str, *, key: str | None = None, run: str | None = None, seconds: float = SECONDS) -> None:
        try:
            import httpx
        except ModuleNotFoundError:
            raise ValueError("frost.Client needs httpx, which the extra 'serve' brings; from a clone: pip install -e "
                             "'.[serve]'") from None
        self._path = "/predict" if run is None else f"/runs/{run}/predict"
        given: dict[str, Any] = {"base_url": url, "timeout": seconds,
                                 "headers": {} if key is None else {"authorization": f"Bearer {key}"}}
        self._errors = httpx.TransportError
        self._sync, self._async = httpx.Client(**given), httpx.AsyncClient(**given)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.close_async()

    def predict(self, inputs: Any, *, quantile: float | None = None, mean_depth: float | None = None,
                accuracy_loss: float | None = None, depth: int | None = None, deadline: float | None = None) -> Any:
        """The answer for one input, a dict; a list of them for a list or a batch.

        Args:
            inputs: an image file as a path or its bytes, or a list of them; an array, or a batch of arrays.
            deadline: seconds until it takes the answer that it has.
        """
        budget = Budget(quantile, mean_depth, accuracy_loss, depth)
        return _read(self._sync.send(self._request(inputs, budget, deadline)))

    async def predict_async(self, inputs: Any, *, quantile: float | None = None, mean_depth: float | None = None,
                            accuracy_loss: float | None = None, depth: int | None = None,
                            deadline: float | None = None) -> Any:
        """`predict`, awaited; one that is cancelled is given up by the server."""
        budget = Budget(quantile, mean_depth, accuracy_loss, depth)
        return _read(await self._async.send(self._request(inputs, budget, deadline)))

    def stats(self) -> dict[str, Any]:
        """The server's live numbers by run: queue, depths, rates, efficiency, drift."""
        found: dict[str, Any] = _read(self._sync.get("/stats"))["runs"]
        return found

    def is_ready(self) -> bool:
        """Whether the server is there and takes requests."""
        try:
            return self._sync.get("/ready").status_code == 200
        except self._errors:
            return False

    def close(self) -> None:
        """Close the connections of `predict`."""
        self._sync.close()

    async def close_async(self) -> None:
        """Close all connections."""
        self._sync.close()
        await self._async.aclose()

    def _request(self, inputs: Any, budget: Budget, deadline: float | None) -> httpx.Request:
        fields: dict[str, Any] = dict(budget.named())
        if deadline is not None:
            fields["deadline_ms"] = deadline * 1000
        if isinstance(inputs, (list, tuple)) and inputs and all(isinstance(one, (bytes, Path)) for one in inputs):
            images = [base64.b64encode(_bytes_of(one)).decode() for one in inputs]
            return self._sync.build_request("POST", self._path, json={"images": images, **fields})
        kind, body = _body_of(inputs)
        return self._sync.build_request("POST", self._path, content=body, params=fields,
                                        headers={"content-type": kind})


def _body_of(inputs: Any) -> tuple[str, bytes]:
    """One input, or a batch of arrays, as a body and its type."""
    if isinstance(inputs, (bytes, Path)):
        data = _bytes_of(inputs)
        kind = next((name for start, name in KINDS.items() if data.startswith(start)), None)
        if kind is None:
            raise ValueError("an image is a PNG, JPEG or WebP file, as a path or its bytes; this is none.")
        return kind, data
    if isinstance(inputs, Sequence) and not inputs:
        raise ValueError("there is nothing to predict; give at least one input.")
    stream = io.BytesIO()
    try:
        np.save(stream, np.asarray(inputs), allow_pickle=False)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(f"inputs are an image file or its bytes, a list of them, or an array; got "
                         f"{type(inputs).__name__} ({error}).") from None
    return "application/x-npy", stream.getvalue()


def _bytes_of(image: bytes | Path) -> bytes:
    return image if isinstance(image, bytes) else image.read_bytes()


def _read(response: httpx.Response) -> Any:
    """The answer, or what the server refused as the exception that it is here."""
    try:
        value = response.json()
    except ValueError:
        raise ValueError(f"the server answered with status {response.status_code} and no JSON; is it a frost server?"
                         ) from None
    if response.status_code == 200:
        return value["answers"] if isinstance(value, dict) and "answers" in value else value
    sentence = str(value.get("error", value)) if isinstance(value, dict) else str(value)
    if response.status_code == 429:
        full = QueueFull(sentence)
        full.seconds = float(response.headers.get("retry-after", 1))
        raise full
    known = {401: PermissionError, 503: EngineStopped, 504: DeadlinePassed}
    raise known.get(response.status_code, ValueError)(sentence)
