"""States, trajectories, predictions, and the three verbs that every model speaks.

    begin(inputs) -> State            stem, B_λ(x), D(x): once per input
    step(state)   -> State            h_t → h_{t+1}
    read(state)   -> (output, score_logit)

Shapes: b batch, t step (from 1 to T), c channels, n tokens, h w space, k classes. A state is a map (b, c, …) of one to
three dimensions, a sequence of tokens (b, n, c), or a vector (b, c). An output is (b, k), or (b, …, k) where there is
an answer at each position, or whatever a head of the user's gives.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from frost.core.inputs import Inputs, Signature, as_inputs, batch_of, check_finite, mapped
from frost.core.layout import default_layout
from frost.core.task import Judge, Task
from frost.core.weight_cache import forget, one_unrolling
from frost.halting.score import score_of


class State(NamedTuple):
    """Where a batch stands; every tensor has one row a sample."""

    hidden: Tensor                  # h_t
    drive: Tensor | None            # B_λ(x), the input's constant push; None for models without an input map
    feedthrough: Tensor | None      # D(x), as the output; None for heads without D
    step: int | None                # t, if it is the same for the whole batch; None in a batch of mixed depths
    context: Mapping[str, Tensor] = {}    # what the block is called with beside the state, such as a mask

    def tensors(self) -> list[Tensor]:
        """Everything with one row a sample."""
        own = (self.hidden, self.drive, self.feedthrough)
        return [*(part for part in own if part is not None), *self.context.values()]

    def mapped(self, change: Callable[[Tensor], Tensor]) -> State:
        """The same state with every tensor changed."""
        return State(change(self.hidden), None if self.drive is None else change(self.drive),
                     None if self.feedthrough is None else change(self.feedthrough), self.step,
                     {name: change(part) for name, part in self.context.items()})

    def holding(self, tensors: list[Tensor]) -> State:
        """The same state made of other tensors, in the order of `tensors()`."""
        parts = iter(tensors)
        return self.mapped(lambda _: next(parts))


class Trajectory(NamedTuple):
    """What a model did at every step t = 1…T."""

    states: Tensor | None   # h_1…h_T, (b, t, …); None if they were not kept
    outputs: Tensor         # y_1…y_T, (b, t, …)
    score_logits: Tensor    # logits of s_1…s_T, (b, t)
    is_isolated: bool = False      # whether gradients of the scores end at the score's own weights
    mask: Tensor | None = None     # positions that count, bool (b, …); None is all

    @property
    def scores(self) -> Tensor:
        """s_1…s_T in [0, 1], (b, t)."""
        return score_of(self.score_logits)

    @property
    def depth(self) -> int:
        """T, the number of steps taken."""
        return self.outputs.shape[1]


class Prediction(NamedTuple):
    """The answer for each input at the step where it stopped."""

    outputs: Tensor   # (b, …)
    depth: Tensor     # (b,)
    scores: Tensor    # (b,)
    errors: Mapping[int, str] = MappingProxyType({})   # rows that could not be answered, and why


def choose(trajectory: Trajectory, depth: Tensor) -> Prediction:
    """Read a trajectory at the step where each input stopped, `depth` (b,)."""
    rows = torch.arange(depth.shape[0], device=depth.device)
    return Prediction(trajectory.outputs[rows, depth - 1], depth, trajectory.scores[rows, depth - 1])


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards every part is in the mode that it was in."""
    modes = {part: part.training for part in model.modules()}    # a user may have frozen some parts on purpose
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes.items():
            part.training = mode


class IterativeModel(nn.Module, ABC):
    """A network whose depth is chosen when it runs: three verbs, and the loop that calls them."""

    stationary: ClassVar[bool] = True   # the same weights at every step, so a batch may mix depths
    depth: int                          # T, the most steps any input may take
    task: Task                          # how answers are judged
    quality_of_fit: Judge | None = None    # the user's, that `fit` was given: `calibrate` and `evaluate` use it, too
    has_score: bool = True              # whether `read` gives a halting score that was or can be taught
    signature: Signature | None = None  # what one input looks like, where it is known
    zoo_config: Any = None              # what describes a model of the zoo; None for any other
    calibration: Any = None             # the last one made for this model, kept with it by `save`
    batch_invariance: Any = None        # True for the zoo's blocks, else what `frost.check_batch_invariance` found
    invariance_by_backend: Mapping[str, Any] = MappingProxyType({})    # the same of compiled and exported steps

    def judged_by(self, quality: Judge | None) -> Task:
        """The model's task with a quality of the user's: the one given, else that of `fit`, else its own."""
        return self.task.with_judges(None, quality or self.quality_of_fit)

    def begin(self, inputs: Inputs) -> State:
        """h_0, and what is computed once per input. Nothing is read from h_0."""
        self.check(inputs)
        return self._begin(mapped(default_layout, inputs))

    def check(self, inputs: Inputs) -> None:
        """Refuse what is no batch, and what the stem says it cannot take, before anything is computed."""
        batch_of(inputs)
        check = getattr(getattr(self, "stem", None), "check", None)
        if check is not None:
            check(inputs)

    def expects(self, example: Inputs) -> Self:
        """State what one input looks like, without the batch, so that an engine knows it before the first one comes."""
        self.signature = Signature.of(as_inputs(example))
        return self

    @abstractmethod
    def _begin(self, inputs: Inputs) -> State:
        """`begin`, for inputs that have been checked."""

    @abstractmethod
    def step(self, state: State) -> State:
        """h_t → h_{t+1}."""

    @abstractmethod
    def read(self, state: State, isolate_score: bool = False) -> tuple[Tensor, Tensor]:
        """y_t (b, …), and the logit of s_t (b,); isolated, the score's gradients do not reach the state."""

    def forward(self, inputs: Inputs, depth: int | None = None, keep_states: bool = True,
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
            state = self.begin(inputs)
            check_finite(inputs)
            for _ in range(depth):
                state = self.step(state)
                output, score_logit = self.read(state, isolate_score)
                outputs.append(output)
                score_logits.append(score_logit)
                if keep_states:
                    states.append(state.hidden)
        kept = torch.stack(states, dim=1) if keep_states else None
        return Trajectory(kept, torch.stack(outputs, dim=1), torch.stack(score_logits, dim=1), isolate_score,
                          state.context.get("mask"))

    def save(self, path: Path | str, calibration: Any = None) -> None:
        """Write a run folder that `frost.load(path, model=…)` reads, with the calibration made for these weights."""
        # by name: run folders are in a layer above this one
        importlib.import_module("frost.checkpoint").save_model_run(path, self, calibration)

    def train(self, mode: bool = True) -> Self:
        """Switch the mode, and forget what was computed from the weights."""
        forget(self)
        return super().train(mode)

    def _apply(self, *args: Any, **kwargs: Any) -> Self:
        forget(self)    # a move may reuse the address of old weights
        return super()._apply(*args, **kwargs)
