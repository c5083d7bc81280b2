"""Trees of image files, `train/CLASS/…` with `val/CLASS/…` or `test/CLASS/…`, decoded as they are needed.

Every file is looked at before training starts, so that a bad one is found then and not hours later; none is followed
out of the tree. A tree small enough to be held as bytes is decoded once, with `decoded`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from frost.data.images import SUFFIXES, check_image, load_image
from frost.data.splits import DataSet, Report, Split, as_float, hold_out

DECODED_LIMIT = 2 * 1024**3                  # bytes
IGNORED = ("Thumbs.db", "desktop.ini")       # what file managers leave behind, besides names with a leading dot


@dataclass(frozen=True, slots=True)
class FolderSplit:
    """Image files with their labels; an image is decoded each time it is asked for."""

    root: Path
    files: tuple[str, ...]   # relative to `root`
    labels: Tensor           # (n,), long
    size: int                # pixels a side of what comes out
    channels: int = 3

    def __len__(self) -> int:
        return len(self.files)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of what comes out."""
        return self.channels, self.size, self.size

    def read(self, rows: Sequence[int]) -> Tensor:
        """The images of these rows, (b, c, size, size), uint8."""
        return torch.stack([load_image(self.root / self.files[row], self.size, self.channels) for row in rows])

    def batch(self, rows: Tensor) -> Tensor:
        """The images of these rows, (b, c, size, size), float in [0, 1]."""
        return as_float(self.read(rows.tolist()))

    def take(self, indices: Sequence[int]) -> FolderSplit:
        """The split with these rows only."""
        return replace(self, files=tuple(self.files[index] for index in indices),
                       labels=self.labels[torch.as_tensor(indices)])


def load_folder(root: Path, size: int, *, name: str = "folder", channels: int = 3, only: Collection[str] | None = None,
                report: Report | None = None) -> DataSet[FolderSplit]:
    """The tree at `root`, every file checked.

    Reported on is `test/`, or else `val/`. With both, `val/` is the validation split; otherwise it is held out of
    `train/` by the rule of `hold_out`.

    Args:
        only: names of the classes to take, all of which must be there; others are passed over.
        report: called with what is done, how many files are checked and how many there are.
    """
    parts = [part for part in ("train", "val", "test") if (root / part).is_dir()]
    if len(parts) < 2 or parts[0] != "train":
        raise ValueError(f"{root} must hold train/CLASS/… and val/CLASS/… or test/CLASS/…, found "
                         f"{', '.join(parts) or 'none of them'}; arrange the images so.")
    classes = _classes(root, "train", only)
    for part in parts[1:]:
        odd = sorted(set(classes) ^ set(_classes(root, part, only)))
        if odd:
            raise ValueError(f"{root / part} must have the same classes as {root / 'train'}; "
                             f"only one of them has {_few(odd)}.")
    splits = {part: _split(root, part, classes, size, channels) for part in parts}
    _check(root, [file for split in splits.values() for file in split.files], report)
    train, validation, test = splits["train"], splits.get("val"), splits[parts[-1]]
    if len(parts) == 2 or validation is None:
        kept, held = hold_out(train.labels.numpy())
        train, validation = train.take(kept.tolist()), train.take(held.tolist())
    return DataSet(name, train, validation, test, classes)


def decoded(split: FolderSplit, report: Report | None = None) -> Split:
    """The whole split decoded into memory as bytes; refused if it would not fit."""
    if not fits(len(split), split.image_shape):
        raise ValueError(f"{len(split):,} images of {split.size} × {split.size} pixels need more than "
                         f"{DECODED_LIMIT:,} bytes; read them by the batch or lower the image size.")
    images = torch.empty((len(split), *split.image_shape), dtype=torch.uint8)
    for row in range(len(split)):
        images[row] = split.read([row])[0]
        if report is not None:
            report("decoding images", row + 1, len(split))
    return Split(images, split.labels)


def fits(count: int, image_shape: tuple[int, int, int]) -> bool:
    """Whether that many images may be held in memory as bytes."""
    return count * int(np.prod(image_shape)) <= DECODED_LIMIT


def _classes(root: Path, part: str, only: Collection[str] | None) -> tuple[str, ...]:
    """The names of the class folders, sorted; their place is their label."""
    found = [entry.name for entry in _entries(root / part, root) if entry.is_dir() and (not only or entry.name in only)]
    missing = sorted(set(only or ()) - set(found))
    if missing:
        raise ValueError(f"{root / part} lacks {len(missing)} of {len(only or ())} classes: {_few(missing)}.")
    if len(found) < 2:
        raise ValueError(f"{root / part} must hold a folder for each of at least two classes, found {len(found)}.")
    return tuple(sorted(found))


def _split(root: Path, part: str, classes: tuple[str, ...], size: int, channels: int) -> FolderSplit:
    files: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        folder = root / part / name
        images = sorted(entry.name for entry in _entries(folder, root))
        if not images:
            raise ValueError(f"{folder} must hold at least one image; add some or remove the folder.")
        files += [f"{part}/{name}/{image}" for image in images]
        labels += [label] * len(images)
    return FolderSplit(root, tuple(files), torch.tensor(labels, dtype=torch.long), size, channels)


def _entries(folder: Path, root: Path) -> list[os.DirEntry[str]]:
    """What a folder holds, without what file managers leave behind; a link out of the tree is refused."""
    with os.scandir(folder) as found:
        entries = [entry for entry in found if not entry.name.startswith(".") and entry.name not in IGNORED]
    for entry in entries:
        if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(root.resolve()):
            raise ValueError(f"{entry.path} is a link that leads out of {root}; put the file itself there.")
    return entries


def _check(root: Path, files: list[str], report: Report | None) -> None:
    for count, file in enumerate(files, start=1):
        path = root / file
        if path.suffix.lower() not in SUFFIXES:
            raise ValueError(f"{path} must end in one of {' '.join(SUFFIXES)}; convert or remove it.")
        check_image(path)
        if report is not None:
            report("checking images", count, len(files))


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
