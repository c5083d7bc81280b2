"""One image file as a tensor: which formats are read, up to which size, and what becomes of odd modes.

PNG, JPEG and WebP only. The size is taken from the header, before anything is decoded.
"""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, PngImagePlugin
from torch import Tensor

FORMATS = ("PNG", "JPEG", "WEBP")
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
MOST_PIXELS = 64_000_000
MOST_BYTES = 128 * 1024 * 1024
TAIL = 1 << 16   # bytes at the end of a JPEG among which its end marker must be; cameras append a little
# The limits here are stricter than Pillow's. Said once: a filter around each image would be of all threads.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
PngImagePlugin.MAX_TEXT_MEMORY = PngImagePlugin.MAX_TEXT_CHUNK = 2**20    # bytes of packed words in a picture


class TooManyPixels(ValueError):
    """An image is larger than it may be, by its header."""


def load_image(source: Path | bytes, size: int, channels: int = 3, most_pixels: int = MOST_PIXELS) -> Tensor:
    """A square image, (c, size, size), uint8, as `image_array` has it."""
    return torch.from_numpy(image_array(source, size, channels, most_pixels))


def image_array(source: Path | bytes, size: int, channels: int = 3,
                most_pixels: int = MOST_PIXELS) -> NDArray[np.uint8]:
    """A square image, (c, size, size): turned upright, scaled by its shorter side, cut at the centre.

    Transparent pixels count as black, 16-bit levels lose their lower byte, animations give their first frame.
    """
    with opened(source, most_pixels) as (image, name):
        return decoded(image, name, size, channels)


def decoded(image: Image.Image, name: str, size: int, channels: int) -> NDArray[np.uint8]:
    """The same of an image that is open."""
    try:
        ImageOps.exif_transpose(image, in_place=True)
        return _square(image, size, channels)
    except Exception as error:   # decoders raise nearly anything
        raise ValueError(f"{name} cannot be decoded ({error}); replace or remove it.") from None


def image_of_pixels(pixels: NDArray[np.uint8], size: int, channels: int = 3) -> Tensor:
    """The same for pixels that have been decoded: (height, width) or (height, width, channels)."""
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in (1, 3, 4)) or not pixels.size:
        raise ValueError(f"pixels must be (height, width) or (height, width, 1, 3 or 4), got {pixels.shape}.")
    image = Image.fromarray(pixels[:, :, 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels)
    return torch.from_numpy(_square(image, size, channels))


def _square(image: Image.Image, size: int, channels: int) -> NDArray[np.uint8]:
    square = _plain(image, channels)
    if square.size != (size, size):
        square = ImageOps.fit(square, (size, size), Image.Resampling.BICUBIC)
    return np.ascontiguousarray(np.array(square).reshape(size, size, channels).transpose(2, 0, 1))


def check_image(path: Path) -> None:
    """Refuse a file that is no image of a known format and size, that ends too soon, or that cannot be decoded.

    A PNG carries a checksum for each chunk, so that it need not be decoded; a JPEG is, at an eighth of its size.
    """
    with opened(path) as (image, name):
        kind = image.format
        try:
            image.verify()   # of a PNG, the checksum of every chunk
        except Exception as error:
            raise ValueError(f"{name} is damaged ({error}); replace or remove it.") from None
    with path.open("rb") as stream:
        if not _is_whole(stream, kind, path.stat().st_size):
            raise ValueError(f"{name} ends too soon for a {kind}; replace or remove it.")
    if kind == "PNG":
        return
    with opened(path) as (image, name):
        try:
            image.draft("RGB", (1, 1))
            image.load()
        except Exception as error:
            raise ValueError(f"{name} cannot be decoded ({error}); replace or remove it.") from None


@contextmanager
def opened(source: Path | bytes, most_pixels: int = MOST_PIXELS) -> Iterator[tuple[Image.Image, str]]:
    """An image whose header has been read and found acceptable, and its name; nothing is decoded yet."""
    name = "the image" if isinstance(source, bytes) else str(source)
    if isinstance(source, Path) and not source.is_file():
        raise ValueError(f"{name} must be an image file; there is none.")
    size = len(source) if isinstance(source, bytes) else source.stat().st_size
    if size > MOST_BYTES:
        raise ValueError(f"{name} has {size:,} bytes, the most is {MOST_BYTES:,}; make it smaller.")
    if isinstance(source, bytes):
        _check_webp(source, name, most_pixels)
    try:
        image = Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise TooManyPixels(f"{name} has more than {most_pixels:,} pixels; make it smaller.") from None
    except Exception as error:
        reason = "" if isinstance(error, Image.UnidentifiedImageError) else f" ({error})"
        raise ValueError(f"{name} is no PNG, JPEG or WebP image{reason}; replace or remove it.") from None
    with image:
        if image.width * image.height > most_pixels:
            raise _too_many(name, image.width, image.height, most_pixels)
        yield image, name


def _too_many(name: str, width: int, height: int, most: int) -> TooManyPixels:
    return TooManyPixels(f"{name} has {width} × {height} pixels, the most is {most:,} in all; make it smaller.")


def _check_webp(data: bytes, name: str, most_pixels: int) -> None:
    """The size that a WebP file claims: Pillow makes room for two such pictures when it opens one."""
    kind, head = data[12:16], data[:30].ljust(30, b"\0")
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return
    if kind == b"VP8X":
        width, height = (int.from_bytes(head[place:place + 3], "little") + 1 for place in (24, 27))
    elif kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    else:
        width, height = (int.from_bytes(head[place:place + 2], "little") & 0x3FFF for place in (26, 28))
    if width * height > most_pixels:
        raise _too_many(name, width, height, most_pixels)


def _plain(image: Image.Image, channels: int) -> Image.Image:
    """Any mode as RGB or as grey levels."""
    if image.mode.startswith("I"):   # 16 bits, which Pillow would clip at 255
        image = Image.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8))
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", rgba.size, (0, 0, 0, 255)), rgba)
    mode = "L" if channels == 1 else "RGB"
    return image if image.mode == mode else image.convert(mode)


def _is_whole(stream: IO[bytes], kind: str | None, size: int) -> bool:
    """Whether a file reaches the end that its format announces."""
    if kind == "WEBP":
        announced: int = struct.unpack("<I", stream.read(8)[4:])[0]
        return size >= announced + 8
    stream.seek(max(0, size - TAIL))
    return (b"\xff\xd9" if kind == "JPEG" else b"IEND") in stream.read(TAIL)
