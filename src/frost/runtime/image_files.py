"""Answers for image files: decoded ahead by threads, run by the engine, one row a file in the order of the files.

A million files need no more memory than a hundred: a few batches are decoded before they are needed, and no more.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from frost.checkpoint import Run
from frost.config import from_dict
from frost.data.filelist import Failure
from frost.data.images import load_image
from frost.data.prefetch import read_ahead
from frost.data.splits import as_float
from frost.halting.drift import Watch
from frost.halting.stopping import StoppingRule
from frost.interrupt import StopRequest
from frost.runtime.engine import Engine
from frost.runtime.live import Result
from frost.runtime.probabilities import surest
from frost.runtime.stream import Request
from frost.zoo.registry import ModelConfig

DECODERS = 2    # threads
AHEAD = 2       # batches that are decoded before they are needed
PATIENCE = 1.0  # seconds that images under way have when the process is asked to stop


class Answer(NamedTuple):
    """The answer for one image, at the step where it stopped."""

    file: str
    label: int
    name: str           # of the class
    confidence: float   # softmax of the output at its label
    depth: int
    score: float

    def to_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {"file": self.file, "label": self.label, "class": self.name, "confidence": self.confidence,
                "depth": self.depth, "score": self.score}


def answered(run: Run, files: Iterable[str | Failure], policy: StoppingRule, batch: int, request: StopRequest,
              watch: Watch | None) -> Iterator[Answer | Failure]:
    """A row for each file, in order, as the engine gives them."""
    config = from_dict(ModelConfig, run.config["model"], "model")
    names = run.class_names(config.classes)
    engine = Engine(run.model, policy, "refill" if run.model.stationary else "compact", batch, watch=watch)

    def decoded(file: str | Failure) -> Request:
        """The image of a file; one that cannot be read goes on as a request without one."""
        if isinstance(file, Failure):
            return Request(None, (file.file, file.error))
        try:
            image = as_float(load_image(Path(file), config.image_size, config.image_channels))
        except (ValueError, OSError) as error:
            return Request(None, (file, str(error)))
        return Request(image, (file, None))

    # when the process is asked to stop, no more is read, and what is under way is answered, unless that takes long
    stream = read_ahead(decoded, takewhile(lambda _: not request, files), DECODERS, AHEAD * batch)
    for result in engine.run(stream, stops=lambda: bool(request) and time.monotonic() > request.since + PATIENCE):
        yield _row(result, names)


def _row(result: Result, names: Sequence[str]) -> Answer | Failure:
    file, error = result.key
    if error is not None or result.output is None or result.score is None:
        return Failure(file, error or f"{file}: {result.error}.")
    label, confidence = surest(result.output)
    return Answer(file, label, names[label], confidence, result.depth, result.score)
