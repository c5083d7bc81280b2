"""FROST (§3): a stem, the four operators, and an update rule, unrolled to a trajectory.

    begin   x = stem(image);  drive = B_λ(x);  D(x);  h_0 = 0
    step    h_{t+1} from h_t, A(h_t) and the drive, by the update rule
    read    y_t = C_λ(h_t) + D(x)  (2), (16), (17);   s_t  (19)
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from frost.config import check_fields
from frost.core.dynamics import Contractive, Gated, Residual, Theorem, UpdateRule
from frost.core.frozen import FrozenCache, value_at_zero
from frost.core.head import Head
from frost.core.layout import ChannelMap, ChannelNorm, channels_of, default_layout, normalised_pool, pool
from frost.core.lipschitz import Bounded
from frost.core.scaling import Scale, scaled_readout
from frost.core.trajectory import IterativeModel, State
from frost.halting.score import Sees

DEEPEST = 2**16    # steps: beyond it a typing mistake is likelier than a model


@dataclass(frozen=True, slots=True, kw_only=True)
class FrostConfig:
    """The dynamics of a FROST model."""

    depth: int = 16                # T, the most steps any image may take
    hurst: float = 0.8             # H; fixed, because a learned H drifts above 1 (§6.2); 0 is the control of Eq. (8)
    learn_hurst: bool = False
    scale_init: float = 0.5        # λ before training
    rule: Literal["residual", "gated", "contractive", "theorem"] = "residual"
    gate: Literal["interpolate", "add"] = "interpolate"   # which form of the gated rule
    start: Literal["zero", "stem"] = "zero"               # h_0; from zero, the first step costs nothing at inference
    rectify: bool = False          # pool the positive part of the normalised state only
    score_sees: Sees = "state"     # what the halting score looks at: the state, as (19), or the output as well

    def __post_init__(self) -> None:
        check_fields(self)
        if not 1 <= self.depth <= DEEPEST:
            raise ValueError(f"depth must be at least 1 and at most {DEEPEST}, got {self.depth}; the paper uses 16 "
                             "(ResNet) and 12 (ViT).")
        if not 0.0 <= self.hurst <= 1.0:
            raise ValueError(f"hurst must lie in [0, 1], got {self.hurst}; the paper uses 0.8.")
        if self.scale_init <= 0.0:
            raise ValueError(f"scale_init must be positive, got {self.scale_init}; the paper starts λ at 0.5.")
        if self.rule in ("contractive", "theorem") and self.scale_init >= 1.0:
            raise ValueError(f"scale_init must lie below 1 under rule '{self.rule}', got {self.scale_init}.")


def make_rule(config: FrostConfig, channels: int) -> UpdateRule:
    """The update rule that a configuration names."""
    if config.rule == "gated":
        return Gated(channels, config.gate)
    if config.rule == "contractive":
        return Contractive()
    return Theorem(channels) if config.rule == "theorem" else Residual()


class Branch(nn.Module):
    """A block without its skip connection: the A of (14) for a block that adds its own input."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, hidden: Tensor) -> Tensor:
        """A(h) = block(h) − h, so that (14) with λ = 1 and no input is the block itself."""
        return self.block(hidden) - hidden


def branch(block: nn.Module) -> Branch:
    """Turn a block that adds its own input into an update direction A(h) = block(h) − h."""
    return Branch(block)


class Frost(IterativeModel):
    """Any shape-preserving block, iterated as a scale-consistent state-space model.

    Args:
        stem: images → x, a map (b, c, h, w), tokens (b, n, c) or a vector (b, c).
        transition: A, a module that keeps the shape of its input; under the rules `contractive` and `theorem` a
            `Bounded` module with a Lipschitz constant below 1, or of at most 1.
        channels: c.
        classes: k.
    """

    def __init__(self, stem: nn.Module, transition: nn.Module, *, channels: int, classes: int,
                 config: FrostConfig | None = None) -> None:
        super().__init__()
        self.config = config or FrostConfig()
        self.depth = self.config.depth
        check_keeps_shape(transition, channels)
        self.stem, self.transition = stem, transition
        self.image_channels = _image_channels(stem)
        self.rule = make_rule(self.config, channels)
        self._check_bound()
        self.scale = Scale(self.config.scale_init, self.config.hurst, form=self.rule.scale_form,
                           learn_hurst=self.config.learn_hurst)
        self.input_map = ChannelMap(channels, channels)
        with torch.no_grad():
            self.input_map.weight.mul_(self.rule.input_gain)
        self.norm: nn.Module = ChannelNorm(channels, self.config.rectify) if self.rule.normalises else nn.Identity()
        self.head = Head(channels, classes, self.config.score_sees)
        self._at_zero = FrozenCache()

    def _begin(self, images: Tensor) -> State:
        """x, B_λ(x) (13), D(x) (17) and h_0, once per image."""
        x = default_layout(self.stem(images))
        if channels_of(x) != self.input_map.weight.shape[1]:
            raise ValueError(f"the stem must give {self.input_map.weight.shape[1]} channels, got {channels_of(x)}: "
                             f"shape {tuple(x.shape)}; tokens are (b, n, c), maps (b, c, h, w).")
        drive = self.rule.drive(self.input_map, x, self.scale)
        hidden = x if self.config.start == "stem" else torch.zeros_like(drive)
        return State(hidden, drive, self.head.feedthrough(pool(x)), 0)

    def step(self, state: State) -> State:
        """h_t → h_{t+1} (14); from h_0 = 0 the transition's value is the same for every image and is cached."""
        assert state.drive is not None
        is_first = state.step == 0 and self.config.start == "zero"
        version = _version_of(state.hidden)
        change = (value_at_zero(self._at_zero, self.transition, state.hidden) if is_first
                  else self.transition(state.hidden))
        self._check_change(state.hidden, change)
        if _version_of(state.hidden) != version:
            raise ValueError(f"transition must not change its input in place, as {type(self.transition).__name__} "
                             "does; use inplace=False, or h = h + f(h) instead of h += f(h).")
        hidden = self.rule(state.hidden, change, state.drive, self.scale)
        return state._replace(hidden=hidden, step=None if state.step is None else state.step + 1)

    def read(self, state: State, isolate_score: bool = False) -> tuple[Tensor, Tensor]:
        """y_t = C_λ(h_t) + D(x) (2), (16), (17), and the logit of the score (19)."""
        features = normalised_pool(self.norm, state.hidden)
        output = scaled_readout(self.head.readout, features, self.scale) + state.feedthrough
        return output, self.head.score_logit(features, output, isolate_score)

    @property
    def lipschitz(self) -> float | None:
        """L of one step, below 1 for the rules that contract; None for those that promise nothing."""
        constant = self.transition.lipschitz if isinstance(self.transition, Bounded) else float("nan")
        return self.rule.lipschitz(constant, self.scale)

    def _check_change(self, hidden: Tensor, change: object) -> None:
        if not isinstance(change, Tensor):
            raise ValueError(f"transition must return one tensor, but {type(self.transition).__name__} returns a "
                             f"{type(change).__name__}; wrap it in a module that picks the state.")
        if change.shape != hidden.shape:
            raise ValueError(_shape_changed(self.transition, tuple(hidden.shape), tuple(change.shape)))

    def _check_bound(self) -> None:
        if not self.rule.contracts:
            return
        limit = "below 1" if self.config.rule == "contractive" else "of at most 1"
        if not isinstance(self.transition, Bounded):
            raise ValueError(
                f"rule '{self.config.rule}' promises a contraction and needs a transition with a proven Lipschitz "
                f"constant {limit}, but {type(self.transition).__name__} states none. Build it from "
                "frost.core.lipschitz (AolMap, TokenMix, MaxMin, Chain), or use rule 'residual' or 'gated'.")
        constant = self.transition.lipschitz
        is_small = 0.0 <= constant <= 1.0 if self.config.rule == "theorem" else 0.0 <= constant < 1.0
        if not is_small:
            raise ValueError(f"rule '{self.config.rule}' needs a transition with a Lipschitz constant {limit}, got "
                             f"{constant}; lower Chain(…, factor=…).")


def _image_channels(stem: nn.Module) -> int | None:
    """How many channels an image must have, where the stem begins with a convolution; else unknown."""
    first = stem[0] if isinstance(stem, nn.Sequential) and len(stem) else stem
    return first.in_channels if isinstance(first, nn.Conv2d) else None


def _version_of(tensor: Tensor) -> int | None:
    """How often a tensor was written to in place; None where PyTorch does not count."""
    return None if torch.compiler.is_compiling() or tensor.is_inference() else tensor._version


def check_keeps_shape(transition: nn.Module, channels: int) -> None:
    """Refuse a transition that changes the shape of maps, tokens and vectors alike.

    A copy without data is tried on one state of each layout. A module that fits none of them is left to the first step,
    which checks the real state.
    """
    if not isinstance(transition, nn.Module):
        raise ValueError(f"transition must be a torch.nn.Module, got {type(transition).__name__}.")
    maps = ((1, channels, size, size) for size in (8, 14, 16, 32, 56))
    layouts = (*maps, (1, 16, channels), (1, channels))
    tried = {shape: _shape_after(transition, shape) for shape in layouts}
    fitting = {before: after for before, after in tried.items() if after is not None}
    if fitting and not any(before == after for before, after in fitting.items()):
        raise ValueError(_shape_changed(transition, *next(iter(fitting.items()))))


def _shape_after(transition: nn.Module, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that a state without data would get; None if the module does not take this layout."""
    try:
        with torch.no_grad(), warnings.catch_warnings(action="ignore"):
            twin = copy.deepcopy(transition).to("meta").eval()
            return tuple(twin(torch.empty(shape, device="meta")).shape)
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, AssertionError):
        return None


def _shape_changed(transition: nn.Module, before: tuple[int, ...], after: tuple[int, ...]) -> str:
    return (f"transition must keep the state's shape, but {type(transition).__name__} maps {before} to {after}. "
            "Remove pooling and strides, pad convolutions, and give as many channels as it takes; "
            "use dilation to widen the receptive field (App. C).")
