"""What FROST is compared with (§6): Vanilla, Recurrent and BasicSSM, behind the same three verbs.

    Vanilla     h_{t+1} = h_t + A_t(h_t),  h_0 = x: one set of weights a step
    Recurrent   h_{t+1} = h_t + A(h_t),    h_0 = x: one shared block
    BasicSSM    h_{t+1} = h_t + A(h_t) + B(x),  h_0 = 0;  y_t = C(h_t) + D(x)        (1), (2), (4)

Block and head are FROST's. A non-linear A is a branch: the block without its skip connection.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from frost.core.frozen import FrozenCache, value_at_zero
from frost.core.head import Head
from frost.core.layout import ChannelMap, ChannelNorm, default_layout, normalised_pool, pool
from frost.core.trajectory import IterativeModel, State
from frost.halting.score import Sees


class Baseline(IterativeModel):
    """Stem, normalisation and head that the baselines share; y_t = C(h_t) + D(x) (2)."""

    def __init__(self, stem: nn.Module, *, channels: int, classes: int, depth: int, rectify: bool = False,
                 score_sees: Sees = "state") -> None:
        super().__init__()
        if depth < 1:
            raise ValueError(f"depth must be at least 1, got {depth}.")
        self.depth = depth
        self.stem = stem
        self.norm: nn.Module = ChannelNorm(channels, rectify)
        self.head = Head(channels, classes, score_sees)

    def _begin(self, images: Tensor) -> State:
        """h_0 = x, and D(x)."""
        x = default_layout(self.stem(images))
        return State(x, None, self.head.feedthrough(pool(x)), 0)

    def read(self, state: State, isolate_score: bool = False) -> tuple[Tensor, Tensor]:
        """y_t = C(h_t) + D(x) (2), and the score's logit (19)."""
        features = normalised_pool(self.norm, state.hidden)
        output = self.head.readout(features) + state.feedthrough
        return output, self.head.score_logit(features, output, isolate_score)

    def _moved(self, state: State, hidden: Tensor) -> State:
        return state._replace(hidden=hidden, step=None if state.step is None else state.step + 1)


class Vanilla(Baseline):
    """T distinct blocks: an ordinary deep network, read after every block."""

    stationary = False

    def __init__(self, stem: nn.Module, make_branch: Callable[[], nn.Module], *, channels: int, classes: int,
                 depth: int, rectify: bool = False, score_sees: Sees = "state") -> None:
        super().__init__(stem, channels=channels, classes=classes, depth=depth, rectify=rectify, score_sees=score_sees)
        self.transitions = nn.ModuleList(make_branch() for _ in range(depth))

    def step(self, state: State) -> State:
        """h_t → h_t + A_{t+1}(h_t): (4) with weights of its own for each step, and without B."""
        if state.step is None:
            raise ValueError("Vanilla has its own weights for each step and cannot run a batch of mixed depths; "
                             "use a stationary model.")
        if state.step >= self.depth:
            raise ValueError(f"Vanilla was built with {self.depth} blocks and cannot take step {state.step + 1}; "
                             "only stationary models go deeper than they were trained.")
        return self._moved(state, state.hidden + self.transitions[state.step](state.hidden))


class Recurrent(Baseline):
    """One shared block, applied T times."""

    def __init__(self, stem: nn.Module, transition: nn.Module, *, channels: int, classes: int, depth: int,
                 rectify: bool = False, score_sees: Sees = "state") -> None:
        super().__init__(stem, channels=channels, classes=classes, depth=depth, rectify=rectify, score_sees=score_sees)
        self.transition = transition

    def step(self, state: State) -> State:
        """h_t → h_t + A(h_t): (4) without B."""
        return self._moved(state, state.hidden + self.transition(state.hidden))


class BasicSSM(Baseline):
    """The state-space model (1), (2) without λ and H, stepped by the exact flow of its induced dynamics (4)."""

    def __init__(self, stem: nn.Module, transition: nn.Module, *, channels: int, classes: int, depth: int,
                 start: str = "zero", rectify: bool = False, score_sees: Sees = "state") -> None:
        super().__init__(stem, channels=channels, classes=classes, depth=depth, rectify=rectify, score_sees=score_sees)
        self.transition = transition
        self.input_map = ChannelMap(channels, channels)
        self.start = start
        self._at_zero = FrozenCache()

    def _begin(self, images: Tensor) -> State:
        """h_0, B(x) and D(x), once per image."""
        x = default_layout(self.stem(images))
        drive = self.input_map(x)
        hidden = x if self.start == "stem" else torch.zeros_like(drive)
        return State(hidden, drive, self.head.feedthrough(pool(x)), 0)

    def step(self, state: State) -> State:
        """h_t → h_t + A(h_t) + B(x) (4); the first step from h_0 = 0 as cheap as FROST's."""
        assert state.drive is not None
        is_first = state.step == 0 and self.start == "zero"
        change = (value_at_zero(self._at_zero, self.transition, state.hidden) if is_first
                  else self.transition(state.hidden))
        return self._moved(state, state.hidden + change + state.drive)
