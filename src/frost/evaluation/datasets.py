"""Open a data set by name with a progress bar, and see that a model takes its images."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import torch
from torch import Tensor

from frost.checkpoint import Run
from frost.config import from_dict
from frost.data.catalogue import NAMES, PROBLEMS, load
from frost.data.splits import DataSet, Images
from frost.report.progress import Report, progress
from frost.zoo.registry import ModelConfig


def open_data(name: str, folder: Path | None, image_size: int, download: bool = False) -> DataSet[Images]:
    """The data set, read and checked in full before anything else begins; long work shows a bar."""
    with ExitStack() as bars:
        shown: dict[tuple[str, int], Report] = {}

        def report(what: str, done: int, total: int) -> None:
            if (what, total) not in shown:
                bars.close()    # the bar before is full
                shown[what, total] = bars.enter_context(progress(what, total))
            shown[what, total](done, "")

        return load(name, folder, download=download, image_size=image_size, report=report)


def check_fits(model: ModelConfig, data: DataSet[Images]) -> None:
    """Refuse a model that cannot take these images, naming the settings that would make it fit."""
    channels, *sides = data.train.image_shape
    dimensions = len(model.input_shape) - 1
    if dimensions != len(sides):
        raise ValueError(f"model.backbone is {model.backbone}, for inputs with {dimensions} dimension(s), but those of "
                         f"{data.name} have {len(sides)}.")
    for name, ours, theirs in (*(("image_size", model.image_size, side) for side in sides),
                               ("image_channels", model.image_channels, channels),
                               ("classes", model.classes, len(data.classes))):
        if ours != theirs:
            raise ValueError(f"model.{name} is {ours}, but {data.name} has {theirs}; "
                             f"--set model.{name}={theirs} makes it fit.")


def words_of(data: str) -> tuple[str, str]:
    """What quality is called for a data set, and what its inputs are."""
    return ("solved", "problems") if data in PROBLEMS else ("accuracy", "images")


def batches_of(images: Images, batch: int = 256) -> Iterator[Tensor]:
    """All images in their order, some at a time."""
    for rows in torch.arange(len(images)).split(batch):
        yield images.batch(rows)


def labelled(images: Images, batch: int = 256) -> Iterator[tuple[Tensor, Tensor]]:
    """All images in their order with their labels, some at a time."""
    for rows in torch.arange(len(images)).split(batch):
        yield images.batch(rows), images.labels[rows]


def data_of(run: Run, folder: Path | None, download: bool) -> DataSet[Images]:
    """The data set that a run was trained on, if it fits the model."""
    model, name = from_dict(ModelConfig, run.config["model"], "model"), run.config.get("data")
    if name not in NAMES:
        raise ValueError(f"{run.path / 'config.json'} must name the data set that the model was trained on, one of "
                         f"{', '.join(NAMES)}; it has data = {name!r}.")
    data = open_data(name, folder, model.image_size, download)
    ours, theirs = model.input_shape, data.test.image_shape
    if ours != theirs:
        raise ValueError(f"{run.path} takes images of {'×'.join(map(str, ours))}, but {name} has "
                         f"{'×'.join(map(str, theirs))}; name the data it was trained on with --data DIR.")
    if len(data.classes) != model.classes:
        raise ValueError(f"{run.path} tells {model.classes} classes apart, but {name} has {len(data.classes)}; "
                         "name the data it was trained on with --data DIR.")
    known = run.config.get("classes")
    if isinstance(known, list) and [*map(str, known)] != [*data.classes]:
        odd = ", ".join(sorted(set(map(str, known)) ^ set(data.classes))[:3])
        raise ValueError(f"{run.path} was trained on other classes than {name} has, only one of them knows {odd}; "
                         "name the data it was trained on with --data DIR.")
    return data
