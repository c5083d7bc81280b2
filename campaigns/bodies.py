"""What the campaigns of `frost serve` send, and a run whose steps are slow."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def picture(pixels: NDArray[np.uint8], kind: str = "PNG") -> bytes:
    """An image file's bytes."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def pictures(count: int, size: int, seed: int, kind: str = "PNG", channels: int = 3) -> list[bytes]:
    """Smooth random pictures."""
    generator, found = np.random.default_rng(seed), []
    for _ in range(count):
        small = Image.fromarray(generator.integers(0, 256, (6, 6, 3), dtype=np.uint8))
        large = small.resize((size, size), Image.Resampling.BICUBIC)
        found.append(picture(np.asarray(large if channels == 3 else large.convert("L")), kind))
    return found


def npy(array: NDArray[Any]) -> bytes:
    """An array in NumPy's format."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def untrained(folder: Path, name: str = "frost-vit-b16", **changes: Any) -> str:
    """A run of a model of the zoo that has learnt nothing, calibrated on noise; the time of its steps is real."""
    import torch

    from frost.evaluation.calibrating import calibrate
    from frost.zoo.registry import build, named

    model = build(replace(named(name), **changes), seed=0).eval()
    shape = model.signature.parts[0].shape if model.signature else ()
    batches = [(torch.rand(8, *shape), torch.zeros(8, dtype=torch.int64)) for _ in range(2)]
    calibrate(model, batches, "rank", is_shown=False)
    model.save(folder)
    return str(folder)
