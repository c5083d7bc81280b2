"""States, trajectories, predictions, and the three verbs that every model speaks.

    begin(images) -> State            stem, B_λ(x), D(x): once per image
    step(state)   -> State            h_t → h_{t+1}
    read(state)   -> (output, score_logit)

Shapes: b batch, t step (from 1 to T), c channels, n tokens, h w space, k classes. A state is a map (b, c, h, w), a
sequence of tokens (b, n, c), or a vector (b, c).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from frost.core.frozen import forget, one_unrolling
from frost.core.layout import default_layout
from frost.halting.score import score_of


class State(NamedTuple):
    """Where a batch of images stands."""

    hidden: Tensor          # h_t
    drive: Tensor | None    # B_λ(x), the input's constant push; None for models without an input map
    feedthrough: Tensor     # D(x), (b, k)
    step: int | None        # t, if it is the same for the whole batch; None in a batch of mixed depths


class Trajectory(NamedTuple):
    """What a model did at every step t = 1…T."""

    states: Tensor | None   # h_1…h_T, (b, t, …); None if they were not kept
    outputs: Tensor         # y_1…y_T, (b, t, k)
    score_logits: Tensor    # logits of s_1…s_T, (b, t)
    is_isolated: bool = False   # whether gradients of the scores end at the score's own weights

    @property
    def scores(self) -> Tensor:
        """s_1…s_T in [0, 1], (b, t)."""
        return score_of(self.score_logits)

    @property
    def depth(self) -> int:
        """T, the number of steps taken."""
        return self.outputs.shape[1]


class Prediction(NamedTuple):
    """The answer for each image at the step where it stopped."""

    outputs: Tensor   # (b, k)
    depth: Tensor     # (b,)
    scores: Tensor    # (b,)
    errors: Mapping[int, str] = MappingProxyType({})   # rows that could not be answered, and why


def choose(trajectory: Trajectory, depth: Tensor) -> Prediction:
    """Read a trajectory at the step where each image stopped, `depth` (b,)."""
    rows = torch.arange(depth.shape[0], device=depth.device)
    return Prediction(trajectory.outputs[rows, depth - 1], depth, trajectory.scores[rows, depth - 1])


def check_shape(images: Tensor, channels: int | None, size: int | None) -> None:
    """Refuse what is no batch of images of the right shape, with a sentence that says what to change."""
    if not isinstance(images, Tensor):
        raise ValueError(f"images must be a tensor, got {type(images).__name__}; see torch.from_numpy.")
    if images.ndim != 4:
        raise ValueError(f"images must be a batch (b, channels, height, width), got shape {tuple(images.shape)}.")
    if not images.is_floating_point():
        raise ValueError(f"images must be floating point, got {images.dtype}; divide bytes by 255 first.")
    if channels is not None and images.shape[1] != channels:
        raise ValueError(f"the model takes images of {channels} channel(s), got {images.shape[1]}: "
                         f"shape {tuple(images.shape)}.")
    if size is not None and tuple(images.shape[2:]) != (size, size):
        raise ValueError(f"the model takes images of {size}×{size} pixels, got {tuple(images.shape[2:])}; resize them.")


def check_finite(images: Tensor) -> None:
    """Refuse a batch that holds NaN or infinity."""
    if images.device.type == "meta" or torch.compiler.is_compiling():
        return    # there are no values to look at
    if not bool(torch.isfinite(images).all()):
        bad = (~torch.isfinite(images)).flatten(1).any(dim=1).nonzero().flatten().tolist()
        raise ValueError(f"images must be finite, but {len(bad)} of {len(images)} hold NaN or infinity "
                         f"(first: number {bad[0]}).")


class IterativeModel(nn.Module, ABC):
    """A network whose depth is chosen when it runs: three verbs, and the loop that calls them."""

    stationary: ClassVar[bool] = True   # the same weights at every step, so a batch may mix depths
    depth: int                          # T, the most steps any image may take
    image_channels: int | None = None   # checked at the border if known
    image_size: int | None = None

    def begin(self, images: Tensor) -> State:
        """h_0, and what is computed once per image. Nothing is read from h_0."""
        check_shape(images, self.image_channels, self.image_size)
        return self._begin(default_layout(images))

    @abstractmethod
    def _begin(self, images: Tensor) -> State:
        """`begin`, for images of the right shape and layout."""

    @abstractmethod
    def step(self, state: State) -> State:
        """h_t → h_{t+1}."""

    @abstractmethod
    def read(self, state: State, isolate_score: bool = False) -> tuple[Tensor, Tensor]:
        """y_t (b, k), and the logit of s_t (b,); isolated, the score's gradients do not reach the state."""

    def forward(self, images: Tensor, depth: int | None = None, keep_states: bool = True,
                isolate_score: bool = False) -> Trajectory:
        """Take `depth` steps (default T) and keep them all.

        Args:
            depth: more than T is allowed for stationary models.
            keep_states: False saves the memory of h_1…h_T where only outputs and scores are needed.
            isolate_score: True keeps halting gradients out of everything but the score (`halting.stop_gradient`).
        """
        depth = self.depth if depth is None else depth
        if depth < 1:
            raise ValueError(f"depth must be at least 1, got {depth}.")
        states, outputs, score_logits = [], [], []
        with one_unrolling():
            state = self.begin(images)
            check_finite(images)
            for _ in range(depth):
                state = self.step(state)
                output, score_logit = self.read(state, isolate_score)
                outputs.append(output)
                score_logits.append(score_logit)
                if keep_states:
                    states.append(state.hidden)
        kept = torch.stack(states, dim=1) if keep_states else None
        return Trajectory(kept, torch.stack(outputs, dim=1), torch.stack(score_logits, dim=1), isolate_score)

    def train(self, mode: bool = True) -> Self:
        """Switch the mode, and forget what was computed from the weights."""
        forget(self)
        return super().train(mode)

    def _apply(self, *args: Any, **kwargs: Any) -> Self:
        forget(self)    # a move may reuse the address of old weights
        return super()._apply(*args, **kwargs)
