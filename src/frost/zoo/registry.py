"""Models by name: `frost-vit-b16` is an architecture and a backbone.

A new backbone is one file in this folder and one entry in `BACKBONES`; a named size is one entry in `SIZES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import nn

from frost.config import setting, suggest
from frost.core.block import Branch
from frost.core.head import Dense
from frost.core.model import CONTRACTING, Frost, FrostConfig
from frost.core.trajectory import IterativeModel
from frost.zoo import bounded
from frost.zoo.baselines import BasicSSM, Recurrent, Vanilla
from frost.zoo.fold import fold
from frost.zoo.image_stem import ImageStem, Standardised
from frost.zoo.line_and_grid import LocalBranch, LocalStem
from frost.zoo.resnet import Basic, Bottleneck, LightStem, ResNetStem
from frost.zoo.vit import EXPANSION, VitBranch, VitStem, tokens_of

LEAKY_GAIN = 3.0  # of g at the start: what a state moves towards is then larger than what the input adds each step
LARGEST_IMAGE = 2**14
LARGEST = 2**20   # of any size: beyond it a typing mistake is likelier than a model
DIMENSIONS = {"line": 1, "grid": 2}    # of backbones with an answer at each position
LAYERS = {"line": 1, "grid": 2}        # convolutions in a step
Architecture = Literal["frost", "vanilla", "recurrent", "basic-ssm", "basic-ssm-folded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig(FrostConfig):
    """A model of the zoo: FROST's dynamics, and what they are applied to."""

    architecture: Architecture = setting("frost", "FROST or a baseline; -folded starts as a FROST with λ, H folded in")
    backbone: Literal["resnet", "resnet-ws", "vit", "line", "grid"] = setting(
        "vit", "stem and block; resnet-ws: standardised weights; line, grid: an answer at each position")
    image_size: int = setting(224, "pixels of a side; of a line its length", least=1, most=LARGEST_IMAGE)
    image_channels: int = setting(3, "channels of an input", least=1, most=LARGEST)
    classes: int = setting(100, "classes of an answer", least=2, most=LARGEST)
    channels: int = setting(768, "channels of the state", least=1, most=LARGEST)
    patch: int = setting(16, "the stem's stride: the patch of a ViT; 1, 2 or 4 for a ResNet", least=1, most=LARGEST)
    stem: Literal["standard", "deep", "light"] = setting(
        "standard", "ResNet with patch 4: ImageNet's, four convolutions for small images, or two small ones")
    heads: int = setting(12, "ViT: attention heads", least=1, most=LARGEST)
    bottleneck: int = setting(64, "ResNet: channels inside the block; 0 is a basic block", least=0, most=LARGEST)
    dilation: int = setting(1, "ResNet: dilation of the block's 3×3 convolutions", least=1, most=LARGEST)
    leaky: bool = setting(False, "A(h) = block(h) − h in frost and basic-ssm: the state forgets")

    def __post_init__(self) -> None:
        # slots make a new class, which breaks the bare super()
        super(ModelConfig, self).__post_init__()
        if self.backbone == "vit" and self.channels % self.heads:
            raise ValueError(f"channels must be a multiple of heads, got {self.channels} and {self.heads}.")
        if self.stem != "standard" and self.patch != 4:
            raise ValueError(f"stem '{self.stem}' has stride 4; set patch to 4, got {self.patch}.")
        if self.update not in CONTRACTING:
            return
        if self.update == "contractive" and self.channels % 2:
            raise ValueError("channels must be even under update 'contractive', which sorts pairs of channels; got "
                             f"{self.channels}.")
        if self.backbone in DIMENSIONS:
            raise ValueError(f"update '{self.update}' needs a bounded transition, which backbone '{self.backbone}' has "
                             "not; use 'residual' or 'gated'.")
        if self.leaky:
            raise ValueError(f"leaky is for the updates 'residual' and 'gated'; '{self.update}' forgets by itself.")

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one input: channels, then height and width or a length."""
        return (self.image_channels, *[self.image_size] * DIMENSIONS.get(self.backbone, 2))


class Parts(NamedTuple):
    """What a backbone brings: a stem, the branch A, and bounded transitions for the rules that contract."""

    stem: Callable[[], nn.Module]
    branch: Callable[[], nn.Module]
    contractive: Callable[[], nn.Module]
    theorem: Callable[[], nn.Module]
    rectify: bool = False    # the readout pools the positive part of the normalised state only


def _resnet(c: ModelConfig, standard_weights: bool = False) -> Parts:
    return Parts(
        stem=lambda: (LightStem(c.image_channels, c.channels) if c.stem == "light" else
                      ResNetStem(c.image_channels, c.channels, c.patch, c.stem == "deep")),
        branch=lambda: (Bottleneck(c.channels, c.bottleneck, c.dilation, standard_weights) if c.bottleneck else
                        Basic(c.channels, c.dilation, standard_weights)),
        contractive=lambda: bounded.contractive_conv(c.channels),
        theorem=lambda: bounded.theorem_conv(c.channels))


def _resnet_ws(c: ModelConfig) -> Parts:
    """A ResNet whose shared block learns as fast as with BatchNorm: three things that belong together.

    Its kernels have mean 0 (weight standardisation, `StandardConv2d`), so that no constant builds up over the steps;
    its stem takes ½ off images in [0, 1] and divides by ¼; its readout pools the positive part of the state.
    """
    plain = _resnet(c, standard_weights=True)
    return plain._replace(stem=lambda: Standardised(plain.stem()), rectify=True)


def _vit(c: ModelConfig) -> Parts:
    tokens = tokens_of(c.image_size, c.patch)
    return Parts(
        stem=lambda: VitStem(c.image_channels, c.image_size, c.patch, c.channels),
        branch=lambda: VitBranch(c.channels, c.heads),
        contractive=lambda: bounded.contractive_tokens(c.channels, tokens, c.heads, EXPANSION * c.channels),
        theorem=lambda: bounded.theorem_tokens(c.channels, tokens, c.heads))


def _local(c: ModelConfig) -> Parts:
    return Parts(stem=lambda: LocalStem(c.image_channels, c.channels, DIMENSIONS[c.backbone]),
                 branch=lambda: LocalBranch(c.channels, DIMENSIONS[c.backbone], LAYERS[c.backbone]),
                 contractive=_unknown, theorem=_unknown)


def _unknown() -> nn.Module:
    raise AssertionError("refused by ModelConfig")


def _leaking(parts: Parts) -> Parts:
    """Parts whose branch is block(h) − h, so that the state moves towards g(h) instead of adding to it."""
    def make() -> nn.Module:
        block = parts.branch()
        with torch.no_grad():
            for parameter in _last_map_of(block).parameters():
                parameter.mul_(LEAKY_GAIN)
        return Branch(block)
    return parts._replace(branch=make)


def _last_map_of(block: nn.Module) -> nn.Module:
    """The last linear map of a block, which sets the size of its values."""
    return [part for part in block.modules() if isinstance(part, (nn.Linear, nn.Conv1d, nn.Conv2d))][-1]


BACKBONES: dict[str, Callable[[ModelConfig], Parts]] = {"resnet": _resnet, "resnet-ws": _resnet_ws, "vit": _vit,
                                                         "line": _local, "grid": _local}

SIZES: dict[str, ModelConfig] = {
    "resnet50": ModelConfig(backbone="resnet", depth=16, channels=256, bottleneck=64, patch=4),
    "vit-b16": ModelConfig(backbone="vit", depth=12),
    "resnet-32px": ModelConfig(backbone="resnet", depth=16, image_size=32, channels=128, bottleneck=64, patch=2),
    "vit-32px": ModelConfig(backbone="vit", depth=8, image_size=32, channels=128, heads=4, patch=4),
    "resnet-8px": ModelConfig(backbone="resnet", depth=8, image_size=8, image_channels=1, classes=10, channels=48,
                              bottleneck=32, dilation=2, patch=1),
    "line": ModelConfig(backbone="line", depth=16, image_size=64, image_channels=2, classes=2, channels=48),
    "grid": ModelConfig(backbone="grid", depth=16, image_size=9, image_channels=6, classes=2, channels=32),
    "vit-8px": ModelConfig(backbone="vit", depth=8, image_size=8, image_channels=1, classes=10, channels=48, heads=4,
                           patch=2),
}
ARCHITECTURES: tuple[Architecture, ...] = get_args(Architecture)


def names() -> list[str]:
    """Every model name, such as `frost-vit-b16`."""
    return [f"{architecture}-{size}" for architecture in ARCHITECTURES for size in SIZES]


def named(name: str) -> ModelConfig:
    """The configuration behind a name; an unknown name is a ValueError with the nearest known one."""
    for architecture in ARCHITECTURES:
        size = name.removeprefix(f"{architecture}-")
        if size != name and size in SIZES:
            return replace(SIZES[size], architecture=architecture)
    raise ValueError(f"there is no model '{name}'. {suggest(name, names())}")


def build(config: ModelConfig, seed: int | None = None) -> IterativeModel:
    """Make the model that a configuration describes; with a seed, the same weights every time."""
    if seed is not None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return build(config)
    parts = BACKBONES[config.backbone](config)
    if config.leaky and config.architecture not in ("vanilla", "recurrent"):    # they live by their skip connection
        parts = _leaking(parts)
    model = _assembled(config, parts)
    stem = model.stem
    assert isinstance(stem, ImageStem)
    stem.image_channels, stem.image_size = config.image_channels, config.image_size
    model.expects(torch.zeros(config.input_shape))
    model.zoo_config = config
    model.batch_invariance = True    # tested for the zoo's blocks, and by campaign F15
    return model


def _assembled(config: ModelConfig, parts: Parts) -> IterativeModel:
    shape: dict[str, Any] = {"layout": "tokens" if config.backbone == "vit" else "maps", "rectify": parts.rectify}
    if config.backbone in DIMENSIONS:
        shape["head"] = Dense(config.channels, config.classes)
    else:
        shape.update(channels=config.channels, classes=config.classes)
    if config.architecture == "frost":
        transition = {"contractive": parts.contractive, "theorem": parts.theorem}.get(config.update, parts.branch)
        return Frost(parts.stem(), transition(), config=config, **shape)
    if config.architecture == "basic-ssm-folded":
        return fold(Frost(parts.stem(), parts.branch(), config=replace(config, update="residual"), **shape))
    own: dict[str, Any] = {"depth": config.depth, "score_sees": config.score_sees}
    if config.architecture == "vanilla":
        return Vanilla(parts.stem(), parts.branch, **own, **shape)
    if config.architecture == "recurrent":
        return Recurrent(parts.stem(), parts.branch(), **own, **shape)
    return BasicSSM(parts.stem(), parts.branch(), **own, **shape)
