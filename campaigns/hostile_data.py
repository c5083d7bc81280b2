"""Thirty damaged data sets (F10): each must be refused before anything is trained, and nothing run.

    python campaigns/hostile_data.py       # `make campaigns`; runs hostile_archives.py (F11) as well

F10 damages a small data set in thirty ways, before or after its hashes are pinned: after means that someone forged a
file with the right hash, and the checks behind the pin must hold alone. Each must be refused with the file named. The
control is a plain loader (`pickle.load`, no pins, headers of images only), which accepts or runs many of them.
Figures go to docs/results/campaigns.json.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import pickle
import shutil
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from frost.data.cifar import CIFAR100, Layout, load_cifar
from frost.data.folder import load_folder
from frost.data.idx import MNIST, IdxLayout, Pins, load_idx

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "campaigns.json"
CLASSES, EACH = 5, 20       # of the small data sets
SEED = 7


class Gadget:
    """An object whose unpickling makes a folder: harmless, and proof that a pickle ran something."""

    def __init__(self, marker: Path) -> None:
        self.marker = str(marker)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.marker,)


class Damage(NamedTuple):
    """One way to damage a data set."""

    name: str
    kind: str                          # cifar, idx or folder
    file: str                          # that the refusal must name
    change: Callable[[Path], object]   # of the folder
    is_forged: bool = False            # pinned after the damage


def write_set(kind: str, root: Path) -> None:
    """A small, sound data set: CIFAR files, idx files or a tree of images."""
    random = np.random.default_rng(SEED)
    labels = np.arange(CLASSES * EACH) % CLASSES
    if kind == "cifar":
        for name in ("train", "test"):
            data = random.integers(0, 256, (labels.size, 3072), dtype=np.uint8)
            save_table(root / name, {b"data": data, b"fine_labels": labels.tolist()})
        save_table(root / "meta", {b"fine_label_names": [b"class %d" % number for number in range(CLASSES)]})
    elif kind == "idx":
        for part in ("train", "t10k"):
            images = random.integers(0, 256, (labels.size, 28, 28), dtype=np.uint8)
            save_idx(root / f"{part}-images-idx3-ubyte.gz", images)
            save_idx(root / f"{part}-labels-idx1-ubyte.gz", labels.astype(np.uint8))
    else:
        for part, name, number in ((part, name, number) for part in ("train", "val") for name in "ab"
                                   for number in range(10)):
            path = root / part / name / f"{number}.{'jpg' if number % 2 else 'png'}"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=np.uint8)).save(path)


def save_table(path: Path, table: dict[bytes, Any]) -> None:
    """Write a CIFAR file."""
    path.write_bytes(pickle.dumps(table, protocol=3))


def save_idx(path: Path, array: np.ndarray) -> None:
    """Write a gzipped idx file."""
    header = struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape)
    path.write_bytes(gzip.compress(header + array.tobytes(), mtime=0))


def pinned(kind: str, root: Path) -> Layout | IdxLayout | None:
    """What the files of a set must be, taken from the files as they are now."""
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in root.glob("*") if path.is_file()}
    size = CLASSES * EACH
    if kind == "cifar":
        pins = {name: digests[name] for name in CIFAR100.pins}
        return CIFAR100._replace(pins=pins, train={"train": size}, test={"test": size}, classes=CLASSES)
    if kind == "idx":
        names = {name: Pins(digests[f"{name}.gz"]) for name in MNIST.pins}
        return MNIST._replace(pins=names, train=size, test=size)
    return None


def read_set(kind: str, root: Path, layout: Any) -> None:
    """Read a data set with the package."""
    if kind == "cifar":
        load_cifar(root, layout)
    elif kind == "idx":
        load_idx(root, layout)
    else:
        load_folder(root, 8)


def read_plainly(kind: str, root: Path) -> None:
    """Read a data set as scripts do: the control."""
    if any(path.is_fifo() for path in root.rglob("*")):
        raise OSError("a plain loader would wait for ever")
    if kind == "cifar":
        for name in ("train", "test"):
            table = pickle.loads((root / name).read_bytes(), encoding="bytes")
            np.asarray(table[b"data"]).reshape(-1, 3, 32, 32), np.array(table[b"fine_labels"])
        pickle.loads((root / "meta").read_bytes(), encoding="bytes")
    elif kind == "idx":
        for path in sorted(root.glob("*.gz")):
            np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=16 if "images" in path.name else 8)
    else:
        for path in [path for path in root.rglob("*") if path.is_file()]:
            with Image.open(path) as image:
                image.convert("RGB") if image.width * image.height < 1e6 else None


def flip(name: str, where: float = 0.5) -> Callable[[Path], object]:
    """Flip one bit of a file, at a share of its length."""
    def change(root: Path) -> None:
        content = bytearray((root / name).read_bytes())
        content[int(where * len(content))] ^= 16
        (root / name).write_bytes(content)
    return change


def rewrite(name: str, make: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    """Put something made from a file in its place."""
    return lambda root: (root / name).write_bytes(make((root / name).read_bytes()))


def edit(**fields: Callable[[Any], Any]) -> Callable[[Path], object]:
    """Change entries of the train table; None as a result takes the entry out."""
    def change(root: Path) -> None:
        table = pickle.loads((root / "train").read_bytes())
        for name, make in fields.items():
            table[name.encode()] = make(table[name.encode()])
        save_table(root / "train", {key: value for key, value in table.items() if value is not None})
    return change


def swap(one: str, other: str) -> Callable[[Path], object]:
    """Exchange two files."""
    def change(root: Path) -> None:
        first, second = (root / one).read_bytes(), (root / other).read_bytes()
        (root / one).write_bytes(second)
        (root / other).write_bytes(first)
    return change


def put(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    """Take a file away and make something else of its name."""
    def change(root: Path) -> None:
        (root / name).unlink(missing_ok=True)
        make(root / name)
    return change


def gadget(path: Path) -> None:
    """A train file that carries a gadget beside sound data."""
    labels = (np.arange(CLASSES * EACH) % CLASSES).tolist()
    data = np.zeros((len(labels), 3072), np.uint8)
    save_table(path, {b"data": data, b"fine_labels": labels, b"extra": Gadget(path.parent.parent / "executed")})


def clear(folder: Path) -> None:
    """Remove every file of a folder."""
    for path in folder.iterdir():
        path.unlink()


def gif(path: Path) -> None:
    """A GIF, whatever its name says."""
    Image.new("P", (8, 8)).save(path, format="GIF")


def huge(path: Path) -> None:
    """A PNG of a few bytes that claims ten billion pixels."""
    content = io.BytesIO()
    Image.new("L", (8, 8)).save(content, format="PNG")
    png = content.getvalue()
    header = b"IHDR" + struct.pack(">II", 100_000, 100_000) + png[24:29]
    path.write_bytes(png[:12] + header + struct.pack(">I", zlib.crc32(header)) + png[33:])


IMAGES, LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"
PICTURE, PHOTO = "train/a/0.png", "train/a/1.jpg"
DAMAGES = [
    Damage("flipped bit in train", "cifar", "train", flip("train")),
    Damage("flipped bit in the last image of test", "cifar", "test", flip("test", 0.9)),
    Damage("flipped bit in meta", "cifar", "meta", flip("meta", 0.4)),
    Damage("truncated", "cifar", "train", rewrite("train", lambda content: content[:-1000])),
    Damage("empty", "cifar", "test", rewrite("test", lambda content: b"")),
    Damage("bytes appended", "cifar", "train", rewrite("train", lambda content: content + b"more")),
    Damage("swapped splits", "cifar", "train", swap("train", "test")),
    Damage("missing split", "cifar", "test", put("test", lambda path: None)),
    Damage("folder in place of a file", "cifar", "test", put("test", Path.mkdir)),
    Damage("pipe in place of a file", "cifar", "train", put("train", os.mkfifo)),
    Damage("pickle that runs something", "cifar", "train", put("train", gadget)),
    Damage("pickle that runs something, forged", "cifar", "train", put("train", gadget), True),
    Damage("label too large, forged", "cifar", "train", edit(fine_labels=lambda old: [*old[1:], CLASSES]), True),
    Damage("label negative, forged", "cifar", "train", edit(fine_labels=lambda old: [-1, *old[1:]]), True),
    Damage("a label too few, forged", "cifar", "train", edit(fine_labels=lambda old: old[1:]), True),
    Damage("labels as text, forged", "cifar", "train", edit(fine_labels=lambda old: [*map(str, old)]), True),
    Damage("no labels, forged", "cifar", "train", edit(fine_labels=lambda old: None), True),
    Damage("images as floats, forged", "cifar", "train", edit(data=lambda old: old / 255), True),
    Damage("an image too few, forged", "cifar", "train", edit(data=lambda old: old[1:]), True),
    Damage("flipped bit in gzip", "idx", IMAGES, flip(IMAGES)),
    Damage("flipped bit in labels", "idx", LABELS, flip(LABELS)),
    Damage("truncated gzip, forged", "idx", IMAGES, rewrite(IMAGES, lambda content: content[:-1000]), True),
    Damage("idx label too large, forged", "idx", LABELS,
           put(LABELS, lambda path: save_idx(path, np.full(CLASSES * EACH, 10, np.uint8))), True),
    Damage("swapped idx splits", "idx", IMAGES, swap(IMAGES, IMAGES.replace("train", "t10k"))),
    Damage("truncated photo", "folder", PHOTO, rewrite(PHOTO, lambda content: content[:-60])),
    Damage("text named as an image", "folder", PICTURE, rewrite(PICTURE, lambda content: b"not an image")),
    Damage("flipped bit in a PNG", "folder", PICTURE, flip(PICTURE)),
    Damage("ten billion pixels", "folder", PICTURE, put(PICTURE, huge)),
    Damage("GIF named PNG", "folder", PICTURE, put(PICTURE, gif)),
    Damage("class without images", "folder", "train/a", lambda root: clear(root / "train" / "a")),
]


def judge_damage(damage: Damage, scratch: Path) -> tuple[str, str]:
    """What the package did with a damaged set, '' if all was well; and what a plain loader did."""
    root = scratch / "set"
    shutil.rmtree(scratch, ignore_errors=True)
    root.mkdir(parents=True)
    write_set(damage.kind, root)
    layout = pinned(damage.kind, root)
    read_set(damage.kind, root, layout)   # sound, so far
    damage.change(root)
    if damage.is_forged:
        layout = pinned(damage.kind, root)
    fault = "accepted"
    try:
        read_set(damage.kind, root, layout)
    except ValueError as error:
        names = (str(root / damage.file), f"{damage.file} in {root}")
        fault = "" if any(name in str(error) for name in names) else f"the file is not named: {error}"
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"
    if (scratch / "executed").exists():
        fault = "executed"
    plain = "refused"
    with contextlib.suppress(Exception):
        read_plainly(damage.kind, root)
        plain = "accepted"
    return fault, "executed" if (scratch / "executed").exists() else plain


def record(name: str, results: dict[str, Any]) -> None:
    """Write the figures beside those of other campaigns."""
    known = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    known[name] = {"command": "make campaigns", **results}
    RESULTS.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Damage, count, write, and fail if a set was not refused or if the plain loader refused them all as well."""
    with tempfile.TemporaryDirectory() as scratch:
        outcomes = {damage.name: judge_damage(damage, Path(scratch) / "case") for damage in DAMAGES}
    faults = {name: fault for name, (fault, _) in outcomes.items() if fault}
    plain = [control for _, control in outcomes.values()]
    for name, fault in faults.items():
        print(f"NOT REFUSED {name}: {fault}")
    accepted, executed = plain.count("accepted"), plain.count("executed")
    print(f"F10: {len(DAMAGES)} damaged data sets, {len(DAMAGES) - len(faults)} refused with the file named; "
          f"a plain loader accepts {accepted} and runs {executed}")
    record("F10", {"n": len(DAMAGES), "seed": SEED, "failures": len(faults),
                   "control": {"plain loader": {"n": len(plain), "accepted": accepted, "executed": executed}}})
    import hostile_archives

    return int(bool(faults) or not accepted or not executed) | hostile_archives.main()


if __name__ == "__main__":
    sys.exit(main())
