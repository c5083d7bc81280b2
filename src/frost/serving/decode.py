"""From a body to inputs: image bytes, an array in NumPy's format, or JSON; nothing that a stranger sends is run.

Sizes are known before anything is decoded. Small images are decoded where they come, for a thread would take longer to
wake than to decode; the others go to a few threads.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import binascii
import io
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from frost.core.inputs import Signature
from frost.data.images import TooManyPixels, decoded, opened
from frost.serving.asks import Ask, Refusal, parsed

IMAGE_KINDS = ("image/png", "image/jpeg", "image/webp")
NPY, JSON = "application/x-npy", "application/json"
INLINE_PIXELS = 128 * 128
INLINE_BYTES = 16 * 1024
MOST_HEADER = 4096       # bytes of the header of an array
THREADS = ThreadPoolExecutor(2, "frost-decode")
Found = TypeVar("Found")


class Decoded(NamedTuple):
    """What a body held."""

    inputs: Sequence[Any]
    is_batch: bool                 # answers come in a list
    fields: dict[str, Any]         # of JSON, beside the inputs


class Reader(NamedTuple):
    """What a run takes."""

    signature: Signature
    size: int | None               # of image files; None where the run takes none
    channels: int

    async def read(self, ask: Ask, body: bytes) -> Decoded:
        """The inputs of a request; what is none is a refusal."""
        kind = ask.header(b"content-type").split(";")[0].strip().lower()
        if kind in IMAGE_KINDS and self.size is not None:
            return Decoded([await self._image(body, ask.limits.pixels)], False, {})
        if kind == NPY:
            return self._split(await _beside(array_of, len(body), body), ask)
        if kind == JSON:
            return await self._json(await _beside(parsed, len(body), body, ask.limits.json_depth), ask)
        known = [*(IMAGE_KINDS if self.size is not None else ()), NPY, JSON]
        raise Refusal(415, f"Content-Type must be one of {', '.join(known)} for this run; got "
                           f"'{kind[:80]}'.")

    async def _image(self, data: bytes, most_pixels: int) -> Tensor:
        try:
            with opened(data, most_pixels) as (image, name):
                if image.width * image.height <= INLINE_PIXELS:
                    return self._floats(image, name)
                return await asyncio.get_running_loop().run_in_executor(THREADS, self._floats, image, name)
        except ValueError as error:
            raise Refusal(413 if isinstance(error, TooManyPixels) else 422, str(error)) from None

    def _floats(self, image: Image, name: str) -> Tensor:
        """The bits of `data.splits.as_float`, by NumPy: each call of torch gives the engine's thread a turn."""
        assert self.size is not None
        return torch.from_numpy(decoded(image, name, self.size, self.channels).astype(np.float32) / np.float32(255))

    async def _json(self, value: Any, ask: Ask) -> Decoded:
        """{"images": [base64, …]} or {"inputs": [numbers, …]}, and what else is said."""
        if not isinstance(value, dict) or ("images" in value) == ("inputs" in value):
            raise Refusal(422, 'the JSON must be an object with either "images", a list of base64 strings, or '
                               '"inputs", a list of nested numbers.')
        fields = {name: part for name, part in value.items() if name not in ("images", "inputs")}
        name = "images" if "images" in value else "inputs"
        items = value[name]
        if not isinstance(items, list) or not items:
            raise Refusal(422, f'"{name}" must be a list of at least one, got {type(items).__name__}.')
        check_count(len(items), ask)
        if name == "inputs":
            return Decoded(await _beside(self._numbers, len(items) * 512, items), True, fields)
        if self.size is None:
            raise Refusal(415, f'this run takes no images; send "inputs", each a {self.signature.described()}.')
        return Decoded([await self._image(_base64(item, place), ask.limits.pixels)
                        for place, item in enumerate(items)], True, fields)

    def _numbers(self, items: list[Any]) -> list[Any]:
        return [self._input_of(item, place) for place, item in enumerate(items)]

    def _input_of(self, item: Any, place: int) -> Any:
        """One input of numbers: nested lists, or an object or list of them where the run takes several tensors."""
        parts = self.signature.parts
        if self.signature.kind == "tensor":
            return _tensor(item, parts[0].dtype, place)
        if self.signature.kind == "dict":
            if not isinstance(item, dict) or sorted(item) != [part.name for part in parts]:
                raise Refusal(422, f"input {place} must be an object with {', '.join(part.name for part in parts)}.")
            return {part.name: _tensor(item[part.name], part.dtype, place) for part in parts}
        if not isinstance(item, list) or len(item) != len(parts):
            raise Refusal(422, f"input {place} must be a list of {len(parts)} arrays.")
        return tuple(_tensor(own, part.dtype, place) for own, part in zip(item, parts, strict=True))

    def _split(self, array: np.ndarray, ask: Ask) -> Decoded:
        """An array as one input, or as a batch of them."""
        if self.signature.kind != "tensor":
            raise Refusal(415, f"this run takes a {self.signature.described()}; send JSON, or use /v2.")
        shape, tensor = self.signature.parts[0].shape, torch.from_numpy(array)
        if tuple(array.shape) == shape:
            return Decoded([tensor], False, {})
        if tuple(array.shape[1:]) == shape and len(array):
            check_count(len(array), ask)
            return Decoded(list(tensor), True, {})
        raise Refusal(422, f"the run takes an array of shape {list(shape)}, or a batch of them; got "
                           f"{list(array.shape)[:16]}.")


def check_count(count: int, ask: Ask) -> None:
    """Refuse more inputs than a request may hold."""
    if count > ask.limits.images:
        raise Refusal(413, f"a request holds at most {ask.limits.images} inputs, got {count}; send several requests.")


def array_of(body: bytes) -> np.ndarray:
    """An array in NumPy's own format, version 1 to 3: numbers only, and exactly as many bytes as it says."""
    stream = io.BytesIO(body)
    try:
        version = np.lib.format.read_magic(stream)
        length = int.from_bytes(stream.read(2 if version == (1, 0) else 4), "little")
        if version not in ((1, 0), (2, 0), (3, 0)) or length > MOST_HEADER:
            raise ValueError("its header is of another version or too long")
        header = ast.literal_eval(stream.read(length).decode("latin-1").strip())
        dtype, shape = np.dtype(header["descr"]), tuple(int(size) for size in header["shape"])
        if dtype.kind not in "biuf" or dtype.itemsize > 8 or len(shape) > 16 or min(shape, default=1) < 0:
            raise ValueError("it holds something else than numbers")
        if math.prod(shape) * dtype.itemsize != len(body) - stream.tell():
            raise ValueError("its size is not what its header says")
        flat = np.frombuffer(body, dtype, offset=stream.tell())
        array = flat.reshape(shape, order="F" if header["fortran_order"] else "C")
        return np.array(array, dtype.newbyteorder("="), order="C")    # a copy: torch wants to be able to write
    except (ValueError, TypeError, LookupError, SyntaxError, RecursionError, MemoryError, ArithmeticError) as why:
        raise Refusal(422, f"the body is no array in NumPy's format ({str(why)[:120]}).") from None


def _tensor(item: Any, dtype: torch.dtype, place: int) -> Tensor:
    try:
        return torch.tensor(item, dtype=dtype)
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise Refusal(422, f"input {place} is no array of numbers ({str(error).splitlines()[0][:120]}).") from None


def _base64(item: Any, place: int) -> bytes:
    try:
        return base64.b64decode(item, validate=True)
    except (ValueError, TypeError, binascii.Error):
        raise Refusal(422, f"image {place} is no base64 text.") from None


async def _beside(work: Callable[..., Found], size: int, *given: Any) -> Found:
    """Small work at once, other work in a thread."""
    if size <= INLINE_BYTES:
        return work(*given)
    return await asyncio.get_running_loop().run_in_executor(THREADS, work, *given)
