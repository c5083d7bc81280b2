"""What is read from a state: C, D and the halting score, and how an answer is judged.

    Classifier   one class a sample, (b, k)
    Regressor    numbers, (b, k)
    Dense        a class at each position, (b, …, k): segmentation, tagging, mazes
    OwnHead      any module of the user's, on the normalised state

The first three are linear, so that C_λ and D_λ of (17) hold for them. A module of the user's gets no power of λ and no
D. Heads are the same for FROST and for every baseline, so that they differ in their dynamics only.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from torch import Tensor, nn

from frost.core.block import called
from frost.core.layout import channels_last, normalised_pool, normalised_positions, pool, positions_of
from frost.core.scaling import Scale, scaled_readout
from frost.core.task import CLASSES, Gives, Judge, Task, squared_error, within
from frost.halting.score import LinearScore, Sees, class_features, make_score
from frost.rowwise import RowLinear


class Head(nn.Module, ABC):
    """Reads an output and a score's logit from a state."""

    is_linear: ClassVar[bool] = True    # C and D are linear maps: λ folds into them, and bounds on states bound outputs
    task: Task
    score: LinearScore                  # set by the model, which knows what it may see

    def __init__(self, channels: int) -> None:
        super().__init__()
        if channels < 1:
            raise ValueError(f"channels must be at least 1, got {channels}.")
        self.channels = channels

    @abstractmethod
    def once(self, x: Tensor, axis: int, mask: Tensor | None) -> Tensor | None:
        """D(x), once per input; None for heads without D."""

    @abstractmethod
    def read(self, norm: nn.Module, hidden: Tensor, axis: int, context: dict[str, Tensor],
             scale: Scale | None) -> tuple[Tensor, Tensor]:
        """C_λ(h) without D, and what the score looks at, (b, c); `scale` is None where there is no λ."""

    def output_features(self, output: Tensor, mask: Tensor | None) -> Tensor | None:
        """What the score may see of an output, (b, f); None if it says nothing about itself."""
        return class_features(output, mask) if self.task.gives == "classes" else None

    @property
    def feature_count(self) -> int:
        """f; 0 if an output says nothing about itself."""
        return 3 if self.task.gives == "classes" else 0

    def make_score(self, sees: Sees) -> None:
        """Give the head its halting score (19); one that it has, of another model or a copy, stays as it was taught."""
        if not hasattr(self, "score"):
            self.score = make_score(self.channels, sees, self.feature_count)
        elif self.score.sees_output != (sees == "output"):
            raise ValueError("this head has a score already, which sees another thing than "
                             f"score_sees='{sees}'; make a new head.")

    def score_logit(self, features: Tensor, output: Tensor, mask: Tensor | None = None,
                    isolate: bool = False) -> Tensor:
        """The logit of the score (19), (b, c) → (b,); isolated, its gradients do not reach the state."""
        seen = self.output_features(output.detach(), mask) if self.score.sees_output else None
        return self.score(features.detach() if isolate else features, seen)


class PooledHead(Head):
    """C and D on the state's mean over all positions that count.

    Paper choice: D has no bias, so that D_λ = D holds exactly (17); it maps pooled x to the outputs.
    """

    def __init__(self, channels: int, outputs: int) -> None:
        super().__init__(channels)
        self.readout = RowLinear(channels, outputs)
        self.feedthrough = RowLinear(channels, outputs, bias=False)

    def once(self, x: Tensor, axis: int, mask: Tensor | None) -> Tensor | None:
        """D(pool(x)), (b, k)."""
        return self.feedthrough(pool(x, axis, mask))

    def read(self, norm: nn.Module, hidden: Tensor, axis: int, context: dict[str, Tensor],
             scale: Scale | None) -> tuple[Tensor, Tensor]:
        """C_λ(pool(norm(h))) (17), (b, k), and the pooled state."""
        features = normalised_pool(norm, hidden, axis, context.get("mask"))
        return _read_out(self.readout, features, scale), features


class Classifier(PooledHead):
    """One class a sample: logits (b, k), judged by cross-entropy and by whether the class is right."""

    task = CLASSES

    def __init__(self, channels: int, classes: int) -> None:
        if classes < 2:
            raise ValueError(f"classes must be at least 2, got {classes}; for numbers there is frost.Regressor.")
        super().__init__(channels, classes)


class Regressor(PooledHead):
    """Numbers, (b, k): judged by the squared error, and by whether all are within a tolerance that the user names.

    Bring targets to a mean near 0 and a deviation near 1, for instance (y − y.mean()) / y.std(): the head starts there,
    and large errors are cut off by the limit on gradients.
    """

    def __init__(self, channels: int, outputs: int = 1, tolerance: float | None = None) -> None:
        if outputs < 1:
            raise ValueError(f"outputs must be at least 1, got {outputs}.")
        super().__init__(channels, outputs)
        self.task = Task("numbers", squared_error, None if tolerance is None else within(tolerance))


class Dense(Head):
    """A class at each position: logits (b, …, k) with the classes last, judged by whether all positions are right.

    Positions are those of the state, (n,) of tokens or (h, w) of a map. Where the context has a `mask`, only positions
    where it is true count for stopping rules and the score; for loss and quality, those whose target is not −100.
    """

    task = CLASSES

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(channels)
        if classes < 2:
            raise ValueError(f"classes must be at least 2, got {classes}; yes or no are two classes.")
        self.readout = RowLinear(channels, classes)
        self.feedthrough = RowLinear(channels, classes, bias=False)

    @property
    def feature_count(self) -> int:
        """The least and the mean of three numbers over the positions."""
        return 6

    def once(self, x: Tensor, axis: int, mask: Tensor | None) -> Tensor | None:
        """D(x) at each position, (b, …, k)."""
        if x.ndim < 3:
            raise ValueError("Dense answers at each position, and this state is a vector without positions; use "
                             "Classifier or Regressor.")
        at_each: Tensor = self.feedthrough(channels_last(x, axis).flatten(1, -2))
        return at_each.unflatten(1, positions_of(x, axis))

    def read(self, norm: nn.Module, hidden: Tensor, axis: int, context: dict[str, Tensor],
             scale: Scale | None) -> tuple[Tensor, Tensor]:
        """C_λ(norm(h)) at each position, (b, …, k), and the mean over them, (b, c)."""
        rows = normalised_positions(norm, hidden, axis)                     # (b, n, c)
        mask = context.get("mask")
        features = pool(rows, -1, None if mask is None else mask.flatten(1))
        output = _read_out(self.readout, rows, scale)
        return output.unflatten(1, positions_of(hidden, axis)), features


class OwnHead(Head):
    """Any module of the user's on the normalised state, in the state's own layout.

    Args:
        module: normalised state → output, the batch in front; context tensors that its forward names go with it.
        channels: of the state, which the normalisation and the score need.
        gives: `classes` if the output holds logits with the classes last, `numbers` if not.
        loss, quality: one number a sample; those of a classifier if it gives classes, else the user's.
    """

    is_linear = False

    def __init__(self, module: nn.Module, channels: int, gives: Gives = "numbers", loss: Judge | None = None,
                 quality: Judge | None = None) -> None:
        super().__init__(channels)
        if not isinstance(module, nn.Module):
            raise ValueError(f"a head must be a torch.nn.Module, got {type(module).__name__}.")
        if gives not in ("classes", "numbers"):
            raise ValueError(f"gives is one of classes, numbers; got '{gives}'.")
        self.module = module
        self.task = (CLASSES if gives == "classes" else Task("numbers", None, None)).with_judges(loss, quality)
        self._takes = _named_arguments(module)

    @property
    def feature_count(self) -> int:
        """The least and the mean of three numbers, also where there is one answer."""
        return 6 if self.task.gives == "classes" else 0

    def output_features(self, output: Tensor, mask: Tensor | None) -> Tensor | None:
        """As for an answer at each position; one answer is one position."""
        if self.task.gives != "classes":
            return None
        return class_features(output[:, None], None) if output.ndim == 2 else class_features(output, mask)

    def once(self, x: Tensor, axis: int, mask: Tensor | None) -> Tensor | None:
        """None: a head of the user's has no D."""
        return None

    def read(self, norm: nn.Module, hidden: Tensor, axis: int, context: dict[str, Tensor],
             scale: Scale | None) -> tuple[Tensor, Tensor]:
        """module(norm(h)), without a power of λ, and the pooled state."""
        normal = norm(hidden)
        output = called(self.module, normal, **{name: part for name, part in context.items() if name in self._takes})
        if not isinstance(output, Tensor) or output.ndim < 1 or output.shape[0] != hidden.shape[0]:
            came = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
            raise ValueError(f"a head must give one tensor with the batch of {len(hidden)} in front, but "
                             f"{type(self.module).__name__} gives {came}; keep the first axis.")
        return output, pool(normal, axis, context.get("mask"))


def as_head(head: nn.Module | None, channels: int | None, classes: int | None) -> Head:
    """The head that a user asked for: one of ours, a module of the user's, or the short form channels and classes."""
    if isinstance(head, Head):
        if classes is not None or channels not in (None, head.channels):
            raise ValueError(f"the head has {head.channels} channels already; leave channels= and classes= out.")
        return head
    if head is not None:
        if classes is not None:
            raise ValueError("classes= is short for head=frost.Classifier(channels, classes); give one of them.")
        if channels is None:
            raise ValueError(f"a head of your own needs channels= of the state beside it, for the normalisation: "
                             f"Frost(…, head={type(head).__name__}(…), channels=64).")
        return OwnHead(head, channels)
    if channels is None or classes is None:
        raise ValueError("a model needs a head: head=frost.Classifier(channels, classes), frost.Regressor(channels) or "
                         "frost.Dense(channels, classes); or channels= and classes=.")
    return Classifier(channels, classes)


def _read_out(readout: nn.Module, features: Tensor, scale: Scale | None) -> Tensor:
    """C_λ(h) = λ^{−H} C(h) (17), or C(h) where there is no λ."""
    if scale is None:
        output: Tensor = readout(features)
        return output
    return scaled_readout(readout, features, scale)


def _named_arguments(module: nn.Module) -> frozenset[str]:
    """The arguments that a module's forward takes by name."""
    try:
        parameters: Any = inspect.signature(module.forward).parameters
    except (TypeError, ValueError):
        return frozenset()
    return frozenset(parameters)
