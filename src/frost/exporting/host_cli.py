"""The command line of `host.py`, and its check; needs Pillow for image files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
TOLERANCE = 1e-4


class Checked(NamedTuple):
    """What the golden inputs gave."""

    inputs: int
    near: int           # depths that differ because a signal is next to its threshold
    wrong: list[int]    # numbers of the inputs whose depth or output differs beyond that
    largest: float      # difference of outputs where depths agree
    classes: int        # answers of which a class differs, where depths agree


def check(host: Any) -> Checked:
    """The golden inputs, beside the answers that PyTorch gave for them."""
    host.check_files("golden.npz")
    with np.load(host.folder / "golden.npz", allow_pickle=False) as golden:
        inputs = [golden[part["name"]] for part in host.policy["inputs"]]
        outputs, depths, values = golden["outputs"], golden["depths"], golden["values"]
    answers = host.predict(tuple(inputs))
    same = answers.depths == depths
    rows, place = np.arange(len(depths)), np.minimum(answers.depths, depths).clip(1) - 1
    thresholds = host.thresholds()[0].T[place]                                              # (n, s)
    with np.errstate(invalid="ignore"):
        is_near = np.abs(values[rows, place] - thresholds) <= TOLERANCE * np.maximum(1, np.abs(thresholds))
        gaps = np.abs(answers.outputs - outputs).reshape(len(rows), -1)
        is_off = gaps > TOLERANCE * np.maximum(1, np.abs(outputs).reshape(len(rows), -1))
    differ = np.zeros(len(rows), bool)
    if host.policy["gives"] == "classes":
        differ = (answers.outputs.argmax(-1) != outputs.argmax(-1)).reshape(len(rows), -1).any(axis=1)
    is_near_row = (is_near & np.isfinite(thresholds)).any(axis=1) & (answers.depths > 0)
    wrong = np.where(same, is_off.any(axis=1), ~is_near_row)
    return Checked(len(rows), int((~same & is_near_row).sum()), np.flatnonzero(wrong).tolist(),
                   float(gaps[same].max(initial=0.0)), int((differ & same).sum()))


def read_image(file: Path, size: int, channels: int) -> Array:
    """A square picture (c, size, size) in [0, 1]: upright, scaled by its shorter side, cut at the centre."""
    from PIL import Image, ImageOps

    with Image.open(file, formats=("PNG", "JPEG", "WEBP")) as opened:
        image = ImageOps.exif_transpose(opened)
        if image.mode.startswith("I"):    # 16 bits, which Pillow would clip at 255
            image = Image.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8))
        if image.has_transparency_data:
            rgba = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", rgba.size, (0, 0, 0, 255)), rgba)
        plain = image.convert("L" if channels == 1 else "RGB")
        square = ImageOps.fit(plain, (size, size), Image.Resampling.BICUBIC)
    levels = np.asarray(square).reshape(size, size, channels).transpose(2, 0, 1)
    return np.ascontiguousarray(levels, np.float32) / np.float32(255)


def _classified(host: Any, files: Sequence[Path], budget: float | None) -> Iterator[str]:
    """A line for each image: its class, how sure, and how many steps."""
    how = host.policy["preprocessing"]
    if how is None:
        raise ValueError("this package takes no image files; call Host.predict with arrays.")
    names = host.policy["classes"]
    for answer in host.run((read_image(file, how["size"], how["channels"]) for file in files), budget):
        if answer.output is None:
            yield f"{files[answer.number]}\t{answer.error}"
            continue
        shares = np.exp(answer.output.astype(np.float64) - answer.output.max())
        label = int(shares.argmax())
        yield f"{files[answer.number]}\t{names[label]}\t{shares[label] / shares.sum():.1%}\tdepth {answer.depth}"


def main(open_host: Callable[[], Any], words: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Runs the package in which this file lies.")
    parser.add_argument("files", nargs="*", type=Path, metavar="IMAGE", help="PNG, JPEG or WebP")
    parser.add_argument("--budget", type=float, metavar="D", help="mean depth (default: the rule chosen at export)")
    parser.add_argument("--check", action="store_true", help="run the golden inputs")
    options = parser.parse_args(words)
    try:
        host = open_host()
        if options.check:
            found = check(host)
            print(f"{found.inputs} inputs: {len(found.wrong)} wrong, {found.near} depths next to a threshold, outputs "
                  f"within {found.largest:.1e}")
            return 1 if found.wrong else 0
        if not options.files:
            parser.error("name an image, or --check")
        for line in _classified(host, options.files, options.budget):
            print(line)
    except (ValueError, OSError, ImportError) as error:
        print(f"host.py: {error}", file=sys.stderr)
        return 2
    return 0
