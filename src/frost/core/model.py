"""FROST (§3): a stem, the four operators, and an update rule, unrolled to a trajectory.

    begin   x = stem(input);  drive = B_λ(x);  D(x);  h_0 = 0
    step    h_{t+1} from h_t, A(h_t) and the drive, by the update rule
    read    y_t = C_λ(h_t) + D(x)  (2), (16), (17);   s_t  (19)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from frost.config import check_fields, setting
from frost.core.block import called, changed, check_change, check_keeps_shape, features_of
from frost.core.head import Head, as_head
from frost.core.inputs import Inputs
from frost.core.layout import ChannelMap, ChannelNorm, Layout, channel_axis
from frost.core.lipschitz import Bounded
from frost.core.scaling import Scale
from frost.core.task import Task
from frost.core.trajectory import IterativeModel, State
from frost.core.update_rules import Contractive, Gated, Residual, Theorem, UpdateRule
from frost.core.weight_cache import FrozenCache, value_at_zero
from frost.halting.score import Sees

UpdateName = Literal["residual", "gated", "contractive", "theorem"]
CONTRACTING: tuple[UpdateName, ...] = ("contractive", "theorem")    # need a transition with a proven Lipschitz constant
DEEPEST = 2**16    # steps: beyond it a typing mistake is likelier than a model


@dataclass(frozen=True, slots=True, kw_only=True)
class FrostConfig:
    """The dynamics of a FROST model."""

    depth: int = setting(16, "T, the most steps any input may take", least=1, most=DEEPEST)
    hurst: float = setting(0.8, "H of the paper; 0 is the control of Eq. (8)", least=0, most=1)
    learn_hurst: bool = setting(False, "whether H is trained; it then drifts above 1 (§6.2)")
    scale_init: float = setting(0.5, "λ before training", above=0)
    update: UpdateName = setting("residual", "how a state moves: as printed, by a gate (App. C), or as a contraction",
                                 formerly=("rule",))
    score_sees: Sees = setting("state", "what the halting score looks at: the state (19), or the output as well")

    def __post_init__(self) -> None:
        check_fields(self)
        if self.update in CONTRACTING and self.scale_init >= 1.0:
            raise ValueError(f"scale_init must lie below 1 under update '{self.update}', got {self.scale_init}.")


def make_rule(config: FrostConfig, channels: int, layout: Layout = "auto") -> UpdateRule:
    """The update rule that a configuration names."""
    if config.update == "gated":
        return Gated(channels, layout)
    if config.update == "contractive":
        return Contractive()
    return Theorem(channels, layout) if config.update == "theorem" else Residual()


class Frost(IterativeModel):
    """Any shape-preserving block, iterated as a scale-consistent state-space model.

    Args:
        stem: inputs → x, a map (b, c, …), tokens (b, n, c) or a vector (b, c); or x and a dict of named context
            tensors, the batch in front, which the transition is called with at every step.
        transition: A, a module that keeps the shape of its input; under the rules `contractive` and `theorem` a
            `Bounded` module with a Lipschitz constant below 1, or of at most 1.
        head: `Classifier`, `Regressor`, `Dense`, or any module of your own, which then needs `channels`.
        channels, classes: short for head=Classifier(channels, classes).
        depth: T; short for config=FrostConfig(depth=…).
        update: a rule's name, short for config=FrostConfig(update=…), or an `UpdateRule` of your own.
        layout: `tokens` or `maps`, where a state of three axes could be either.
        rectify: pool the positive part of the normalised state only.
    """

    def __init__(self, stem: nn.Module, transition: nn.Module, head: nn.Module | None = None, *,
                 channels: int | None = None, classes: int | None = None, depth: int | None = None,
                 update: UpdateName | UpdateRule | None = None, layout: Layout = "auto",
                 rectify: bool = False, config: FrostConfig | None = None) -> None:
        super().__init__()
        self.config = _settled(config, depth, update)
        self.depth, self.layout = self.config.depth, layout
        if not isinstance(stem, nn.Module):
            raise ValueError(f"stem must be a torch.nn.Module, got {type(stem).__name__}; nn.Identity() is one.")
        width = head.channels if isinstance(head, Head) else channels
        if width is None:
            as_head(head, channels, classes)    # knows the sentence
        assert width is not None
        check_keeps_shape(transition, width)
        self.stem, self.transition = stem, transition
        self.rule = update if isinstance(update, UpdateRule) else make_rule(self.config, width, layout)
        self._check_bound()
        self.scale = Scale(self.config.scale_init, self.config.hurst, form=self.rule.scale_form,
                           learn_hurst=self.config.learn_hurst)
        self.input_map = ChannelMap(width, width, layout=layout)
        with torch.no_grad():
            self.input_map.weight.mul_(self.rule.input_gain)
        self.norm: nn.Module = ChannelNorm(width, rectify, layout) if self.rule.normalises else nn.Identity()
        self.head = as_head(head, channels, classes)
        self.head.make_score(self.config.score_sees)
        self._at_zero = FrozenCache()

    @property
    def task(self) -> Task:    # type: ignore[override]
        """How answers are judged: as the head says."""
        return self.head.task

    @property
    def channels(self) -> int:
        """The channels c of the state."""
        return self.head.channels

    def _begin(self, inputs: Inputs) -> State:
        """x, B_λ(x) (13), D(x) (17) and h_0, once per input."""
        x, context = features_of(self.stem, inputs, self.channels, self.layout)
        axis = channel_axis(x.shape, self.channels, self.layout)
        drive = self.rule.drive(self.input_map, x, self.scale)
        return State(torch.zeros_like(drive), drive, self.head.once(x, axis, context.get("mask")), 0, context)

    def step(self, state: State) -> State:
        """h_t → h_{t+1} (14); from h_0 = 0 the transition's value is the same for every input and is cached.

        Not where there is a context: then the block sees something of the input at h_0 as well.
        """
        assert state.drive is not None
        if state.step == 0 and not state.context:
            change = value_at_zero(self._at_zero, self.transition, state.hidden, called)
            check_change(self.transition, state.hidden, change)
        else:
            change = changed(self.transition, state.hidden, state.context)
        hidden = self.rule(state.hidden, change, state.drive, self.scale)
        return state._replace(hidden=hidden, step=None if state.step is None else state.step + 1)

    def read(self, state: State, isolate_score: bool = False) -> tuple[Tensor, Tensor]:
        """y_t = C_λ(h_t) + D(x) (2), (16), (17), and the logit of the score (19)."""
        return read_by(self.head, self.norm, state, self.layout, self.scale, isolate_score)

    @property
    def lipschitz(self) -> float | None:
        """L of one step, below 1 for the rules that contract; None for those that promise nothing."""
        constant = self.transition.lipschitz if isinstance(self.transition, Bounded) else float("nan")
        return self.rule.lipschitz(constant, self.scale)

    def _check_bound(self) -> None:
        if not self.rule.contracts:
            return
        name = self.config.update
        limit = "below 1" if name == "contractive" else "of at most 1"
        if not isinstance(self.transition, Bounded):
            raise ValueError(
                f"update '{name}' promises a contraction and needs a transition with a proven Lipschitz constant "
                f"{limit}, but {type(self.transition).__name__} states none. Build it from frost.core.lipschitz "
                "(AolMap, TokenMix, MaxMin, Chain), or use update 'residual' or 'gated'.")
        constant = self.transition.lipschitz
        is_small = 0.0 <= constant <= 1.0 if name == "theorem" else 0.0 <= constant < 1.0
        if not is_small:
            raise ValueError(f"update '{name}' needs a transition with a Lipschitz constant {limit}, got {constant}; "
                             "lower Chain(…, factor=…).")


def read_by(head: Head, norm: nn.Module, state: State, layout: Layout, scale: Scale | None,
            isolate_score: bool) -> tuple[Tensor, Tensor]:
    """y_t = C_λ(h_t) + D(x) and the score's logit, for FROST and every baseline (`scale` is None without λ)."""
    axis = channel_axis(state.hidden.shape, head.channels, layout)
    output, features = head.read(norm, state.hidden, axis, dict(state.context), scale)
    if state.feedthrough is not None:
        output = output + state.feedthrough
    return output, head.score_logit(features, output, state.context.get("mask"), isolate_score)


def _settled(config: FrostConfig | None, depth: int | None, update: UpdateName | UpdateRule | None) -> FrostConfig:
    """The configuration with its short forms; one that says something else beside it is a ValueError."""
    given = {"depth": depth, "update": update if isinstance(update, str) else None}
    if config is None:
        return FrostConfig(**{name: value for name, value in given.items() if value is not None})    # type: ignore
    for name, value in given.items():
        if value is not None and value != getattr(config, name):
            raise ValueError(f"{name}={value} and config.{name}={getattr(config, name)} differ; give one of them.")
    return config
