"""What FROST is compared with (§6): Vanilla, Recurrent and BasicSSM, behind the same three verbs.

    Vanilla     h_{t+1} = h_t + A_t(h_t),  h_0 = x: one set of weights a step
    Recurrent   h_{t+1} = h_t + A(h_t),    h_0 = x: one shared block
    BasicSSM    h_{t+1} = h_t + A(h_t) + B(x),  h_0 = 0;  y_t = C(h_t) + D(x)        (1), (2), (4)

Block, head and inputs are FROST's. A non-linear A is a branch: the block without its skip connection.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from frost.core.block import called, changed, features_of
from frost.core.head import as_head
from frost.core.inputs import Inputs
from frost.core.layout import ChannelMap, ChannelNorm, Layout, channel_axis
from frost.core.model import read_by
from frost.core.task import Task
from frost.core.trajectory import IterativeModel, State
from frost.core.weight_cache import FrozenCache, value_at_zero
from frost.halting.score import Sees


class Baseline(IterativeModel):
    """Stem, normalisation and head that the baselines share; y_t = C(h_t) + D(x) (2)."""

    def __init__(self, stem: nn.Module, *, depth: int, head: nn.Module | None = None, channels: int | None = None,
                 classes: int | None = None, layout: Layout = "auto", rectify: bool = False,
                 score_sees: Sees = "state") -> None:
        super().__init__()
        if depth < 1:
            raise ValueError(f"depth must be at least 1, got {depth}.")
        self.depth, self.layout = depth, layout
        self.stem = stem
        made = as_head(head, channels, classes)
        self.norm: nn.Module = ChannelNorm(made.channels, rectify, layout)
        self.head = made
        self.head.make_score(score_sees)

    @property
    def task(self) -> Task:    # type: ignore[override]
        """How answers are judged: as the head says."""
        return self.head.task

    def _features(self, inputs: Inputs) -> tuple[Tensor, State]:
        """x, and a state with h_0 = x, D(x) and the context."""
        x, context = features_of(self.stem, inputs, self.head.channels, self.layout)
        axis = channel_axis(x.shape, self.head.channels, self.layout)
        return x, State(x, None, self.head.once(x, axis, context.get("mask")), 0, context)

    def _begin(self, inputs: Inputs) -> State:
        """h_0 = x, and D(x)."""
        return self._features(inputs)[1]

    def read(self, state: State, isolate_score: bool = False) -> tuple[Tensor, Tensor]:
        """y_t = C(h_t) + D(x) (2), and the score's logit (19)."""
        return read_by(self.head, self.norm, state, self.layout, None, isolate_score)

    def _moved(self, state: State, hidden: Tensor) -> State:
        return state._replace(hidden=hidden, step=None if state.step is None else state.step + 1)


class Vanilla(Baseline):
    """T distinct blocks: an ordinary deep network, read after every block."""

    stationary = False

    def __init__(self, stem: nn.Module, make_branch: Callable[[], nn.Module], head: nn.Module | None = None, *,
                 depth: int, channels: int | None = None, classes: int | None = None, layout: Layout = "auto",
                 rectify: bool = False, score_sees: Sees = "state") -> None:
        super().__init__(stem, depth=depth, head=head, channels=channels, classes=classes, layout=layout,
                         rectify=rectify, score_sees=score_sees)
        self.transitions = nn.ModuleList(make_branch() for _ in range(depth))

    def step(self, state: State) -> State:
        """h_t → h_t + A_{t+1}(h_t): (4) with weights of its own for each step, and without B."""
        if state.step is None:
            raise ValueError("Vanilla has its own weights for each step and cannot run a batch of mixed depths; "
                             "use a stationary model.")
        if state.step >= self.depth:
            raise ValueError(f"Vanilla was built with {self.depth} blocks and cannot take step {state.step + 1}; "
                             "only stationary models go deeper than they were trained.")
        return self._moved(state, state.hidden + changed(self.transitions[state.step], state.hidden, state.context))


class Shared(Baseline):
    """One block for all steps, and what a subclass has beside it."""

    def __init__(self, stem: nn.Module, transition: nn.Module, head: nn.Module | None = None, *, depth: int,
                 channels: int | None = None, classes: int | None = None, layout: Layout = "auto",
                 rectify: bool = False, score_sees: Sees = "state") -> None:
        super().__init__(stem, depth=depth, head=head, channels=channels, classes=classes, layout=layout,
                         rectify=rectify, score_sees=score_sees)
        self.transition = transition
        self._make_parts()

    def _make_parts(self) -> None:
        """Parts beside the block: none."""


class Recurrent(Shared):
    """One shared block, applied T times."""

    def step(self, state: State) -> State:
        """h_t → h_t + A(h_t): (4) without B."""
        return self._moved(state, state.hidden + changed(self.transition, state.hidden, state.context))


class BasicSSM(Shared):
    """The state-space model (1), (2) without λ and H, stepped by the exact flow of its induced dynamics (4)."""

    def _make_parts(self) -> None:
        """B, and the cached A(0)."""
        self.input_map = ChannelMap(self.head.channels, self.head.channels, layout=self.layout)
        self._at_zero = FrozenCache()

    def _begin(self, inputs: Inputs) -> State:
        """h_0 = 0, B(x) and D(x), once per input."""
        x, state = self._features(inputs)
        drive = self.input_map(x)
        return state._replace(hidden=torch.zeros_like(drive), drive=drive)

    def step(self, state: State) -> State:
        """h_t → h_t + A(h_t) + B(x) (4); the first step from h_0 = 0 as cheap as FROST's."""
        assert state.drive is not None
        if state.step == 0 and not state.context:
            return self._moved(state, value_at_zero(self._at_zero, self.transition, state.hidden, called) + state.drive)
        change = changed(self.transition, state.hidden, state.context)
        return self._moved(state, state.hidden + change + state.drive)
