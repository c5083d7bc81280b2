"""MNIST and Fashion-MNIST from their official idx files, gzipped or not.

Files are pinned by hash, gzipped and not. What is inside counts: a file that another gzip has packed, as Debian's of
Fashion-MNIST is, has another hash and the same content. Unpacking stops at the size that the file must have.
"""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from frost.data.hashes import check_bytes, read_file
from frost.data.splits import DataSet, Split, hold_out, take

SIDE, CLASSES = 28, 10
PACKED_LIMIT = 32 * 1024 * 1024   # bytes; the largest official .gz has 26,421,880
BYTES_1D, BYTES_3D = 0x801, 0x803   # idx magic numbers: unsigned bytes in one or three dimensions


class Pins(NamedTuple):
    """What one file must be, as SHA-256; None is not known."""

    packed: str | None            # as its authors gzipped it
    plain: str | None = None      # what is inside


class IdxLayout(NamedTuple):
    """One of the two sets: four files, named as their authors named them."""

    name: str
    folder: str               # where torchvision puts it, below its root
    pins: Mapping[str, Pins]
    train: int                # images
    test: int
    classes: tuple[str, ...]


MNIST = IdxLayout(
    name="mnist", folder="MNIST/raw", train=60_000, test=10_000, classes=tuple("0123456789"),
    pins={"train-images-idx3-ubyte": Pins("440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                                          "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
          "train-labels-idx1-ubyte": Pins("3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                                          "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
          "t10k-images-idx3-ubyte": Pins("8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                                         "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
          "t10k-labels-idx1-ubyte": Pins("f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                                         "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2")})

# No hash of the unpacked files is published. These are of Debian's package, whose files are the official ones but for
# their gzip headers: with the name and the time of 31 August 2017 put back, their hashes are the packed ones.
FASHION_MNIST = IdxLayout(
    name="fashion-mnist", folder="FashionMNIST/raw", train=60_000, test=10_000,
    classes=("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    pins={"train-images-idx3-ubyte": Pins("3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                                          "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
          "train-labels-idx1-ubyte": Pins("a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                                          "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
          "t10k-images-idx3-ubyte": Pins("346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                                         "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
          "t10k-labels-idx1-ubyte": Pins("67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                                         "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34")})


def load_idx(place: Path, layout: IdxLayout) -> DataSet[Split]:
    """The set whose files lie in `place`, in a folder of its name there, or where torchvision puts them."""
    images, labels = _part(place, layout, "train", layout.train)
    tested = _part(place, layout, "t10k", layout.test)
    train, validation = hold_out(labels)
    return DataSet(layout.name, take(images, labels, train), take(images, labels, validation),
                   take(*tested, np.arange(layout.test)), layout.classes)


def find_idx(place: Path, layout: IdxLayout) -> Path | None:
    """The folder at `place` that holds the first of the four files; None if there is none."""
    first = next(iter(layout.pins))
    folders = (place / layout.name, place / layout.folder, place)
    return next((folder for folder in folders if _find(folder, first) is not None), None)


def _find(folder: Path, name: str) -> Path | None:
    spellings = (name, name.replace("-idx", ".idx"))
    names = [f"{spelling}{ending}" for ending in (".gz", "") for spelling in spellings]
    return next((folder / name for name in names if (folder / name).exists()), None)


def _part(place: Path, layout: IdxLayout, part: str, count: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    images, _ = _read(place, layout, f"{part}-images-idx3-ubyte", (count, SIDE, SIDE))
    labels, path = _read(place, layout, f"{part}-labels-idx1-ubyte", (count,))
    if labels.max() >= CLASSES:
        raise ValueError(f"{path} must hold labels from 0 to {CLASSES - 1}, got {labels.max()}; fetch it again.")
    return images[:, None], labels.astype(np.int64)


def _read(place: Path, layout: IdxLayout, name: str, shape: tuple[int, ...]) -> tuple[NDArray[np.uint8], Path]:
    folder = find_idx(place, layout) or place
    path = _find(folder, name)
    if path is None:
        raise ValueError(f"{folder} lacks {name}.gz; put the official file there.")
    pins = layout.pins[name]
    size = 4 + 4 * len(shape) + int(np.prod(shape))
    content = _packed_content(path, pins, size) if path.suffix == ".gz" else read_file(path, size, pins.plain)
    return parse_idx(content, shape, str(path)), path


def _packed_content(path: Path, pins: Pins, size: int) -> bytes:
    """What is inside a gzipped file; one that another gzip has packed is known by its content."""
    if pins.plain is None:
        return _unpacked(read_file(path, PACKED_LIMIT, pins.packed), size, path)
    content = _unpacked(read_file(path, PACKED_LIMIT, None), size, path)
    check_bytes(content, pins.plain, str(path))
    return content


def _unpacked(packed: bytes, size: int, path: Path) -> bytes:
    """At most one byte more than `size`: enough to see that there is too much."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
            return stream.read(size + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is damaged ({error}); fetch it again.") from None


def parse_idx(content: bytes, shape: tuple[int, ...], name: str) -> NDArray[np.uint8]:
    """The array in an idx file, which must be unsigned bytes of this shape; `name` is for the error."""
    words = 1 + len(shape)
    expected = (BYTES_1D if len(shape) == 1 else BYTES_3D, *shape)
    header = struct.unpack(f">{words}I", content[:4 * words]) if len(content) >= 4 * words else ()
    if header != expected or len(content) != 4 * words + int(np.prod(shape)):
        raise ValueError(f"{name} must be an idx file of {' × '.join(map(str, shape))} bytes, but its header is "
                         f"{header} and its length {len(content):,}; fetch it again.")
    return np.frombuffer(content, dtype=np.uint8, offset=4 * words).reshape(shape)
