"""CIFAR-10 and CIFAR-100 from the official Python files, in a folder or still in their archive.

The official files are pickles, and a pickle can run any program. So each is checked against a pinned hash before it is
opened, and opened by a reader that can build nothing but arrays and plain containers.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from frost.data.archives import read_members
from frost.data.hashes import read_file
from frost.data.splits import DataSet, Split, hold_out, take

LIMIT = 160 * 1024 * 1024   # bytes; the largest official file has 155,249,918
SIDE, CHANNELS = 32, 3


class Layout(NamedTuple):
    """How one of the two sets is stored, and what its files must be."""

    name: str
    folder: str                  # inside the archive, and where unpacking puts it
    archive: str
    pins: Mapping[str, str]      # file → SHA-256 or MD5, `hasher` tells them apart
    train: Mapping[str, int]     # file → images in it
    test: Mapping[str, int]
    meta: str
    labels: str                  # keys inside the files
    names: str
    classes: int


CIFAR100 = Layout(
    name="cifar100", folder="cifar-100-python", archive="cifar-100-python.tar.gz",
    pins={"train": "735e79b04f092ca3d2e6d07f368c0a7d70d48c48d28865950cc24454cf45129b",
          "test": "4b67687d9933c4db8f0831104447f15b93774f4f464bd0516f0f0f2ac83b7864",
          "meta": "a5d4786345c961390f865e93b434dbd5c6904ce880667e0cb888c97d449f28b9"},
    train={"train": 50_000}, test={"test": 10_000}, meta="meta",
    labels="fine_labels", names="fine_label_names", classes=100)

# Only the MD5 of these is published. It stops damage and mix-ups; against a file forged to collide there is the reader
# below, which runs nothing.
CIFAR10 = Layout(
    name="cifar10", folder="cifar-10-batches-py", archive="cifar-10-python.tar.gz",
    pins={"data_batch_1": "c99cafc152244af753f735de768cd75f",
          "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
          "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
          "data_batch_4": "634d18415352ddfa80567beed471001a",
          "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
          "test_batch": "40351d587109b95175f43aff81a1287e",
          "batches.meta": "5ff9c542aee3614f3951f8cda6e48888"},
    train={f"data_batch_{number}": 10_000 for number in range(1, 6)}, test={"test_batch": 10_000}, meta="batches.meta",
    labels="labels", names="label_names", classes=10)


def load_cifar(place: Path, layout: Layout) -> DataSet[Split]:
    """The set found at `place`: its folder, one that holds that folder or its archive, or the archive itself.

    Training images that are held out for validation are chosen by `hold_out`. Images stay bytes.
    """
    files = _read(place, layout)   # emptied as it is used, to hold little twice
    images, labels = _joined(files, layout.train, layout, place)
    train, validation = hold_out(labels)
    tested = _joined(files, layout.test, layout, place)
    return DataSet(layout.name, take(images, labels, train), take(images, labels, validation),
                   take(*tested, np.arange(len(tested[1]))), _class_names(files[layout.meta], layout, place))


def find_cifar(place: Path, layout: Layout) -> Path | None:
    """The folder or the archive that `place` is or holds; None if there is neither."""
    folders = [folder for folder in (place / layout.folder, place) if (folder / layout.meta).exists()]
    archives = [path for path in (place / layout.archive, place) if path.name.endswith(".tar.gz") and path.is_file()]
    return next(iter([*folders, *archives]), None)


def _read(place: Path, layout: Layout) -> dict[str, bytes]:
    found = find_cifar(place, layout)
    if found is None:
        raise ValueError(f"{place} holds neither {layout.folder}/ nor {layout.archive}; put one of them there.")
    if found.is_file():
        pins = {f"{layout.folder}/{name}": pin for name, pin in layout.pins.items()}
        return {name.rpartition("/")[2]: content for name, content in read_members(found, pins, LIMIT).items()}
    return {name: read_file(found / name, LIMIT, pin) for name, pin in layout.pins.items()}


# numpy's own rebuilding function, taken from an array because its module has moved between versions
REBUILD = np.empty(0).__reduce__()[0]
ALLOWED = {("numpy.core.multiarray", "_reconstruct"): REBUILD, ("numpy._core.multiarray", "_reconstruct"): REBUILD,
           ("numpy", "ndarray"): np.ndarray, ("numpy", "dtype"): np.dtype}


class _ArraysOnly(pickle.Unpickler):
    """A reader of pickles that refuses to look up anything but what an array is made of."""

    def find_class(self, module: str, name: str) -> Any:
        """What a pickle may call; called by the base class for every global."""
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return ALLOWED[module, name]


def read_table(content: bytes, name: str) -> dict[str, Any]:
    """A pickled dictionary of arrays, lists and strings; `name` is for the error."""
    try:
        table = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
        return {key.decode() if isinstance(key, bytes) else key: value for key, value in table.items()}
    except Exception as error:   # damaged pickles raise nearly anything
        raise ValueError(f"{name} is not a CIFAR file ({error}); fetch it again.") from None


def _joined(files: dict[str, bytes], wanted: Mapping[str, int], layout: Layout,
            place: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    parts = [_images(files.pop(name), count, layout, f"{name} in {place}") for name, count in wanted.items()]
    images, labels = zip(*parts, strict=True)
    return (images[0], labels[0]) if len(parts) == 1 else (np.concatenate(images), np.concatenate(labels))


def _images(content: bytes, count: int, layout: Layout, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    table = read_table(content, name)
    data, labels = table.get("data"), table.get(layout.labels)
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape != (count, CHANNELS * SIDE * SIDE):
        found = f"{data.dtype} {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
        raise ValueError(f"{name} must hold {count:,} images of 3,072 bytes, got {found}; fetch it again.")
    is_right = isinstance(labels, list) and len(labels) == count and all(
        type(label) is int and 0 <= label < layout.classes for label in labels)
    if not is_right:
        raise ValueError(f"{name} must hold {count:,} labels from 0 to {layout.classes - 1}; fetch it again.")
    return data.reshape(count, CHANNELS, SIDE, SIDE), np.array(labels, dtype=np.int64)


def _class_names(content: bytes, layout: Layout, place: Path) -> tuple[str, ...]:
    names = read_table(content, f"{layout.meta} in {place}").get(layout.names)
    if not isinstance(names, list) or not all(isinstance(name, bytes) for name in names) \
            or len(set(names)) != len(names) or len(names) != layout.classes:
        raise ValueError(f"{layout.meta} in {place} must name {layout.classes} classes; fetch it again.")
    return tuple(name.decode() for name in names)
