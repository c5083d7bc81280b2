"""TensorBoard: the records of a run as curves (`pip install 'frost-ssm[train]'`)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Self

from frost.training.evaluate import Validation
from frost.training.loop import StepRecord

CURVES = ("loss", "task", "relative", "anchoring", "accuracy", "scale", "hurst", "learning_rate", "gradient_norm",
          "easy_score", "hard_score", "median_score")


def check_board() -> None:
    """Refuse before anything is written if TensorBoard is not installed."""
    if not importlib.util.find_spec("tensorboard"):
        raise ValueError("--tensorboard needs tensorboard: pip install 'frost-ssm[train]'; the logbook is written in "
                         "any case.")


class Board:
    """Writes event files that `tensorboard --logdir RUN` shows."""

    def __init__(self, folder: Path, last_step: int = 0) -> None:
        check_board()
        from torch.utils.tensorboard import SummaryWriter  # here, because importing it takes seconds

        self._writer = SummaryWriter(str(folder), purge_step=last_step + 1)

    def write(self, record: StepRecord) -> None:
        """The curves of a training step."""
        for name in CURVES:
            value = getattr(record, name)
            if value is not None:
                self._writer.add_scalar(f"train/{name}", value, record.step)
        for step, accuracy in enumerate(record.accuracy_per_step or (), 1):
            self._writer.add_scalar(f"train-accuracy/t{step:02d}", accuracy, record.step)

    def write_validation(self, validation: Validation, step: int) -> None:
        """The depth–accuracy curve on held-out images."""
        for name, curve in (("accuracy", validation.accuracy), ("loss", validation.loss)):
            for t, value in enumerate(curve or (), 1):
                self._writer.add_scalar(f"validation-{name}/t{t:02d}", value, step)

    def flush(self) -> None:
        """Hand everything to the disk; called before a checkpoint."""
        self._writer.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()
