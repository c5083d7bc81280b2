"""`frost predict RUN IMAGE…`: what a run sees in image files, and how many steps it took for each.

Runs every step and then picks the one where an image stops; the engine that saves the steps is another room.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from frost.analysis.halting import halt
from frost.checkpoint import Run, load
from frost.config import from_dict
from frost.core.trajectory import IterativeModel, Prediction
from frost.data.images import SUFFIXES, load_image
from frost.data.splits import as_float
from frost.halting.policy import AtDepth, ByScore, Policy
from frost.report.tables import percent, table
from frost.training.evaluate import run_frozen
from frost.workflows.evaluate import rule_at, shown
from frost.workflows.progress import progress
from frost.zoo.registry import ModelConfig


class Seen(NamedTuple):
    """The answer for one image, at the step where it stopped."""

    file: Path
    label: int
    name: str           # of the class
    confidence: float   # softmax of the output at its label
    depth: int
    score: float

    def to_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {"file": str(self.file), "label": self.label, "class": self.name, "confidence": self.confidence,
                "depth": self.depth, "score": self.score}


class Unseen(NamedTuple):
    """A file without an answer."""

    file: Path
    error: str

    def to_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {"file": str(self.file), "error": self.error}


class Predictions(NamedTuple):
    """What a run answered for all files, in their order."""

    run: str
    depth: int                 # T
    quantile: float | None
    threshold: float | None    # None where no score stops an image
    rows: list[Seen | Unseen]
    seconds: float

    @property
    def seen(self) -> list[Seen]:
        """The rows with an answer; never empty."""
        return [row for row in self.rows if isinstance(row, Seen)]

    @property
    def mean_depth(self) -> float:
        """Steps per image."""
        return sum(row.depth for row in self.seen) / len(self.seen)


def predict(run_path: Path | str, files: Sequence[Path], *, quantile: float | None = None, depth: int | None = None,
            batch: int = 64) -> Predictions:
    """Classify PNG, JPEG and WebP files; one that cannot be read is a row with an error and stops no other.

    Args:
        run_path: a folder, or the name of a run that comes with the package.
        files: a folder stands for the images directly in it, in the order of their names.
        quantile: stop each image by its score; without it and `depth`, every image takes T steps.
        depth: stop every image at this step.
        batch: images run together, always that many, whatever is left over.
    """
    started = time.monotonic()
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}.")
    run = load(run_path)
    policy = _policy(run, quantile, depth)
    paths = list(_expanded(files))
    if not paths:
        raise ValueError("there is nothing to predict; name at least one image file or folder.")
    rows = _answered(run, paths, policy, batch)
    failed = [row.error for row in rows if isinstance(row, Unseen)]
    if len(failed) == len(rows):
        raise ValueError(failed[0] if len(failed) == 1 else
                         f"none of {len(rows)} files gave an answer; of the first: {failed[0]}")
    threshold = policy.threshold if isinstance(policy, ByScore) else None
    return Predictions(shown(run_path, run), run.model.depth, quantile, threshold, rows, time.monotonic() - started)


def as_json(result: Predictions) -> dict[str, Any]:
    """One object; a row is an answer or has the key `error`."""
    return {"run": result.run, "depth": result.depth, "quantile": result.quantile, "threshold": result.threshold,
            "images": len(result.seen), "mean_depth": result.mean_depth,
            "rows": [row.to_json() for row in result.rows], "seconds": result.seconds}


def text(result: Predictions) -> str:
    """The same for a person."""
    body = [[_printable(row.file), _printable(row.name), percent(row.confidence), str(row.depth), f"{row.score:.3f}"]
            if isinstance(row, Seen) else [_printable(row.file), "no answer", "", "", ""] for row in result.rows]
    count = len(result.seen)
    images = "1 image" if count == 1 else f"{count:,} images"
    rule = "" if result.quantile is None else f" · quantile {result.quantile:g}"
    errors = [f"no answer: {_printable(row.error)}" for row in result.rows if isinstance(row, Unseen)]
    return "\n".join([
        f"{result.run} · {images}{rule} · mean depth {result.mean_depth:.2f} of {result.depth}",
        "",
        table(["file", "class", "confidence", "depth", "score"], body),
        *(["", *errors] if errors else []),
    ])


def _policy(run: Run, quantile: float | None, depth: int | None) -> Policy:
    if quantile is not None and depth is not None:
        raise ValueError(f"choose one of quantile and depth, got {quantile} and {depth}.")
    if quantile is not None:
        return rule_at(run, quantile)
    if depth is not None and not 1 <= depth <= run.model.depth:
        raise ValueError(f"depth must lie between 1 and {run.model.depth}, the steps that {run.path} was trained for, "
                         f"got {depth}.")
    return AtDepth(run.model.depth if depth is None else depth)


def _expanded(files: Iterable[Path]) -> Iterator[Path | Unseen]:
    """The files, with the images of a folder in its place."""
    for file in files:
        try:
            if not file.is_dir():
                yield file
                continue
            images = sorted(entry for entry in file.iterdir() if entry.suffix.lower() in SUFFIXES
                            and not entry.name.startswith(".") and entry.is_file())
        except OSError as error:
            yield Unseen(file, f"{file} cannot be opened: {error.strerror}.")
            continue
        yield from images
        if not images:
            yield Unseen(file, f"{file} holds no PNG, JPEG or WebP file; name the folder that holds the images.")


def _answered(run: Run, paths: Sequence[Path | Unseen], policy: Policy, batch: int) -> list[Seen | Unseen]:
    """A row for each path, decoding no more images at a time than run together."""
    config = from_dict(ModelConfig, run.config["model"], "model")
    names = _class_names(run, config.classes)
    rows: dict[int, Seen | Unseen] = {}
    waiting: dict[int, tuple[Path, Tensor]] = {}    # by their place in `paths`
    with progress("predicting", len(paths)) as report:
        for place, path in enumerate(paths):
            if isinstance(path, Unseen):
                rows[place] = path
            else:
                try:
                    waiting[place] = path, load_image(path, config.image_size, config.image_channels)
                except (ValueError, OSError) as error:
                    rows[place] = Unseen(path, str(error))
            if len(waiting) == batch or (waiting and place == len(paths) - 1):
                images = torch.stack([image for _, image in waiting.values()])
                prediction = _run_batch(run.model, images, policy, batch)
                files = [file for file, _ in waiting.values()]
                rows.update(zip(waiting, _rows(files, prediction, names), strict=True))
                waiting.clear()
            report(place + 1, "")
    return [rows[place] for place in range(len(paths))]


def _run_batch(model: IterativeModel, images: Tensor, policy: Policy, batch: int) -> Prediction:
    """The answers for at most `batch` images, uint8 (n, c, h, w)."""
    # Kernels round differently for batches of another size: black images fill a short one up, so that an answer
    # does not depend on how many files came along.
    padded = torch.cat([images, images.new_zeros(batch - len(images), *images.shape[1:])])
    prediction = halt(run_frozen(model, as_float(padded), batch), policy)
    return Prediction(*(part[:len(images)] for part in prediction))


def _rows(files: Sequence[Path], prediction: Prediction, names: Sequence[str]) -> Iterator[Seen | Unseen]:
    shares, labels = prediction.outputs.double().softmax(dim=-1).max(dim=-1)
    for i, file in enumerate(files):
        if not bool(torch.isfinite(shares[i]) and torch.isfinite(prediction.scores[i])):
            yield Unseen(file, f"the model answers {file} with NaN or infinity; it diverged, train it again.")
            continue
        label = int(labels[i])
        yield Seen(file, label, names[label], shares[i].item(), int(prediction.depth[i]), prediction.scores[i].item())


def _class_names(run: Run, classes: int) -> list[str]:
    """The names that the run keeps, else the labels themselves."""
    names = run.config.get("classes")
    known = names if isinstance(names, list) and len(names) == classes else range(classes)
    return [str(name) for name in known]


def _printable(words: object) -> str:
    """Without line breaks and control codes, which the name of a file may hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(words))
