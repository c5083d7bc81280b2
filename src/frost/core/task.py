"""What an answer is judged by: a loss that is minimised, and a quality that budgets rest on; one number a sample each.

    loss       (outputs, targets) → (b,); drives training and ranking (18)
    quality    (outputs, targets) → (b,) in [0, 1]; drives calibration and every table; for a classifier, right or not

Outputs of classes have the classes last: (b, k), or (b, …, k) where there is an answer at each position. A position
whose target is −100, PyTorch's `ignore_index`, does not count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from frost.rowwise import flat_rows

Judge = Callable[[Tensor, Tensor], Tensor]
Gives = Literal["classes", "numbers"]    # what an output holds: logits of classes, the last axis; or plain numbers
IGNORED = -100


class Task(NamedTuple):
    """How answers are judged."""

    gives: Gives
    loss: Judge | None             # None: the user has to bring one
    quality: Judge | None
    smoothed: Callable[[Tensor, Tensor, float], Tensor] | None = None    # the loss with label smoothing, if it has one

    def losses(self, outputs: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
        """ℓ_{i,t} of (18) and (21), the loss of every sample at every step: (b, t, …), (b, …) → (b, t)."""
        if self.loss is None:
            raise ValueError("this model has no loss of its own; pass one: frost.fit(model, loader, loss=…), a "
                             "function of outputs and targets that gives one number a sample.")
        if label_smoothing and self.smoothed is None:
            raise ValueError("label_smoothing is for losses of ours over classes; set it to 0 with a loss of your own.")
        smoothed, plain = self.smoothed, self.loss
        if label_smoothing and smoothed is not None:
            return over_steps(lambda now, then: smoothed(now, then, label_smoothing), outputs, targets, "loss")
        return over_steps(plain, outputs, targets, "loss")

    def qualities(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """How good every answer is at every step, in [0, 1]: (b, t, …), (b, …) → (b, t)."""
        if self.quality is None:
            raise ValueError("how good an answer is has to be said: a Regressor takes tolerance=…, and fit, calibrate "
                             "and evaluate take quality=…, a function of outputs and targets that gives a number in "
                             "[0, 1] a sample.")
        values = over_steps(self.quality, outputs, targets, "quality").to(torch.float32)
        if values.device.type != "meta" and bool(torch.isnan(values).any()):
            raise ValueError("a quality must lie in [0, 1], got NaN; say what an answer is worth where nothing is "
                             "there to be right about, 0 divided by 0.")
        if values.device.type != "meta" and not bool(((values >= 0) & (values <= 1)).all()):
            low, high = values.min().item(), values.max().item()
            raise ValueError(f"a quality must lie in [0, 1], got values from {low:.3g} to {high:.3g}; divide by the "
                             "best that can be had.")
        return values

    def with_judges(self, loss: Judge | None, quality: Judge | None) -> Task:
        """The same task, judged by the user's functions where they are given."""
        return Task(self.gives, loss or self.loss, quality or self.quality, None if loss else self.smoothed)


def over_steps(judge: Judge, outputs: Tensor, targets: Tensor, name: str) -> Tensor:
    """A judge applied at every step, (b, t, …), (b, …) → (b, t); what gives no number a sample is a ValueError."""
    count, depth = outputs.shape[:2]
    found = []
    for step in range(depth):
        values = judge(outputs[:, step], targets)
        if not isinstance(values, Tensor) or tuple(values.shape) != (count,):
            came = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
            raise ValueError(f"a {name} must give one number a sample, shape ({count},), got {came}; use "
                             "reduction='none' and take the mean over all axes but the first.")
        found.append(values)
    return torch.stack(found, dim=1)


def cross_entropy(outputs: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """−log p of the right class, in the mean over the positions that count: (b, …, k), (b, …) → (b,)."""
    check_classes(outputs, targets)
    losses = F.cross_entropy(outputs.flatten(0, -2), targets.flatten().long(), reduction="none", ignore_index=IGNORED,
                             label_smoothing=label_smoothing).view(targets.shape)
    if losses.ndim == 1:
        return losses
    return losses.flatten(1).sum(dim=1) / (targets.long() != IGNORED).flatten(1).sum(dim=1).clamp_min(1)


def right(outputs: Tensor, targets: Tensor) -> Tensor:
    """Whether the class is right, at every position that counts: (b, …, k), (b, …) → bool (b,)."""
    check_classes(outputs, targets)
    targets = targets.long()    # in bytes, −100 is a class
    is_right = outputs.argmax(dim=-1) == targets
    return is_right if targets.ndim == 1 else (is_right | (targets == IGNORED)).flatten(1).all(dim=1)


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean of the squared differences, (b, …), (b, …) → (b,)."""
    return flat_rows((outputs - _like(outputs, targets)).square()).mean(dim=1)


@dataclass(frozen=True, slots=True)
class Within:
    """Whether every number is off by at most a tolerance, (b, …), (b, …) → bool (b,)."""

    tolerance: float

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """One answer a sample."""
        return flat_rows((outputs - _like(outputs, targets)).abs() <= self.tolerance).all(dim=1)


def within(tolerance: float) -> Judge:
    """Whether every number is off by at most `tolerance`, in the unit of the targets: a quality for regression."""
    if not (isinstance(tolerance, (int, float)) and tolerance > 0):
        raise ValueError(f"tolerance must be a positive number, in the unit of the targets; got {tolerance!r}.")
    return Within(float(tolerance))


CLASSES = Task("classes", cross_entropy, right, cross_entropy)


def check_classes(outputs: Tensor, targets: Tensor) -> None:
    """Refuse targets that are no classes of the outputs' shape."""
    if targets.is_floating_point() or targets.dtype == torch.bool:
        raise ValueError(f"targets of a classifier must be whole numbers (torch.long), got {targets.dtype}; for "
                         "classes use targets.long(), numbers are for a Regressor.")
    if targets.shape != outputs.shape[:-1]:
        raise ValueError(f"targets must have the shape of the answers, {tuple(outputs.shape[:-1])}, got "
                         f"{tuple(targets.shape)}; a Classifier gives one class a sample, Dense one at each position.")
    if targets.device.type == "cpu" and targets.numel():
        known = targets.long()
        known = known if known.ndim == 1 else known[known != IGNORED]    # one answer a sample always counts
        if known.numel() and not 0 <= int(known.min()) <= int(known.max()) < outputs.shape[-1]:
            raise ValueError(f"targets must lie between 0 and {outputs.shape[-1] - 1}, the classes of the outputs, got "
                             f"{int(known.min())} to {int(known.max())}; −100 marks positions that do not count.")


def _like(outputs: Tensor, targets: Tensor) -> Tensor:
    """Targets in the shape of the outputs: a column may have lost its axis, nothing else may differ."""
    if targets.shape == outputs.shape[:1] and outputs.shape[1:] == (1,):
        targets = targets[:, None]
    if targets.shape != outputs.shape:
        raise ValueError(f"targets must have the shape of the outputs, {tuple(outputs.shape)}, got "
                         f"{tuple(targets.shape)}.")
    return targets.to(outputs.dtype)
