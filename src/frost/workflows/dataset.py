"""Open a data set by name with a progress bar, and see that a model takes its images."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from frost.data.catalogue import load
from frost.data.splits import DataSet, Images
from frost.workflows.progress import Report, progress
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
    channels, height, width = data.train.image_shape
    for name, ours, theirs in (("image_size", model.image_size, height), ("image_size", model.image_size, width),
                               ("image_channels", model.image_channels, channels),
                               ("classes", model.classes, len(data.classes))):
        if ours != theirs:
            raise ValueError(f"model.{name} is {ours}, but {data.name} has {theirs}; "
                             f"--set model.{name}={theirs} makes it fit.")
