"""Models by name: `frost-vit-b16` is an architecture and a backbone.

A new backbone is one file in this folder and one entry in `BACKBONES`; a named size is one entry in `SIZES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import torch
from torch import nn

from frost.config import suggest
from frost.core.head import Dense
from frost.core.model import Frost, FrostConfig
from frost.core.trajectory import IterativeModel
from frost.core.transition import Branch
from frost.zoo import bounded
from frost.zoo.baselines import BasicSSM, Recurrent, Vanilla
from frost.zoo.fold import fold
from frost.zoo.images import ImageStem, Standardised
from frost.zoo.local import LocalBranch, LocalStem
from frost.zoo.resnet import Basic, Bottleneck, LightStem, ResNetStem
from frost.zoo.vit import VitBranch, VitStem, tokens_of

LEAKY_GAIN = 3.0  # of g at the start: what a state moves towards is then larger than what the input adds each step
LARGEST_IMAGE = 2**14
LARGEST = 2**20   # of any size: beyond it a typing mistake is likelier than a model
DIMENSIONS = {"line": 1, "grid": 2}    # of backbones with an answer at each position
LAYERS = {"line": 1, "grid": 2}        # convolutions in a step
Architecture = Literal["frost", "vanilla", "recurrent", "basic-ssm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig(FrostConfig):
    """A model of the zoo: FROST's dynamics, and what they are applied to."""

    RETIRED: ClassVar[dict[str, object]] = {"separable": False}

    architecture: Architecture = "frost"
    backbone: Literal["resnet", "vit", "line", "grid"] = "vit"    # the last two answer at each position
    image_size: int = 224      # of a side; of a line its length
    image_channels: int = 3
    classes: int = 100
    channels: int = 768
    patch: int = 16            # the stem's stride: the patch of a ViT; 1, 2 or 4 for a ResNet
    heads: int = 12            # ViT
    expansion: float = 4.0     # ViT: width of the MLP ÷ channels
    bottleneck: int = 64       # ResNet; 0 is a basic block instead, and the bounded transitions have none
    dilation: int = 1          # ResNet; as above
    deep_stem: bool = False    # ResNet with patch 4: four convolutions for small images, instead of ImageNet's stem
    light_stem: bool = False   # ResNet with patch 4: two small convolutions instead, so that the steps do the work
    standardise_weights: bool = False  # ResNet: kernels of mean 0 in the branch, so that no constant builds up
    kappa: float = 0.9         # Lipschitz constant of g under the contractive rule
    leaky: bool = False        # A(h) = g(h) − h, with the backbone's branch as g: the state forgets (frost, basic-ssm)
    standardise: bool = False  # the stem takes ½ off images in [0, 1] and divides by ¼
    folded_start: bool = False # basic-ssm only: initialise as a folded FROST, the control for Table 1 and App. D

    def __post_init__(self) -> None:
        # slots make a new class, which breaks the bare super()
        super(ModelConfig, self).__post_init__()
        for name in ("image_size", "image_channels", "channels", "patch", "heads", "bottleneck", "dilation", "classes"):
            least = {"classes": 2, "bottleneck": 0}.get(name, 1)
            most = LARGEST_IMAGE if name == "image_size" else LARGEST
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} must lie between {least} and {most}, got {getattr(self, name)}.")
        if not 0.0 < self.expansion <= 64.0:
            raise ValueError(f"expansion must be positive and at most 64, got {self.expansion}.")
        if self.backbone == "vit" and self.channels % self.heads:
            raise ValueError(f"channels must be a multiple of heads, got {self.channels} and {self.heads}.")
        if self.rule == "contractive" and (self.channels % 2 or int(self.channels * self.expansion) % 2):
            raise ValueError("channels and channels · expansion must be even under rule 'contractive', which sorts "
                             f"pairs of channels; got {self.channels} and {self.expansion}.")
        if not 0.0 < self.kappa < 1.0:
            raise ValueError(f"kappa must lie in (0, 1), got {self.kappa}; it bounds the contractive transition.")
        if self.light_stem and (self.deep_stem or self.patch != 4):
            raise ValueError(f"light_stem has stride 4 and excludes deep_stem; got patch {self.patch} and deep_stem "
                             f"{self.deep_stem}.")
        if self.backbone in DIMENSIONS and self.rule in ("contractive", "theorem"):
            raise ValueError(f"rule '{self.rule}' needs a bounded transition, which backbone '{self.backbone}' has "
                             "not; use 'residual' or 'gated'.")
        if self.leaky and self.rule in ("contractive", "theorem"):
            raise ValueError(f"leaky is for the rules 'residual' and 'gated'; '{self.rule}' forgets by itself.")
        if self.folded_start and self.architecture != "basic-ssm":
            raise ValueError("folded_start is a control for architecture 'basic-ssm' only.")


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


def _resnet(c: ModelConfig) -> Parts:
    return Parts(
        stem=lambda: (LightStem(c.image_channels, c.channels) if c.light_stem else
                      ResNetStem(c.image_channels, c.channels, c.patch, c.deep_stem)),
        branch=lambda: (Bottleneck(c.channels, c.bottleneck, c.dilation, c.standardise_weights) if c.bottleneck else
                        Basic(c.channels, c.dilation, c.standardise_weights)),
        contractive=lambda: bounded.contractive_conv(c.channels, c.kappa),
        theorem=lambda: bounded.theorem_conv(c.channels))


def _vit(c: ModelConfig) -> Parts:
    tokens, width = tokens_of(c.image_size, c.patch), int(c.channels * c.expansion)
    return Parts(
        stem=lambda: VitStem(c.image_channels, c.image_size, c.patch, c.channels),
        branch=lambda: VitBranch(c.channels, c.heads, c.expansion),
        contractive=lambda: bounded.contractive_tokens(c.channels, tokens, c.heads, width, c.kappa),
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


def _standardising(parts: Parts) -> Parts:
    return parts._replace(stem=lambda: Standardised(parts.stem()))


def _last_map_of(block: nn.Module) -> nn.Module:
    """The last linear map of a block, which sets the size of its values."""
    return [part for part in block.modules() if isinstance(part, (nn.Linear, nn.Conv1d, nn.Conv2d))][-1]


BACKBONES: dict[str, Callable[[ModelConfig], Parts]] = {"resnet": _resnet, "vit": _vit, "line": _local,
                                                         "grid": _local}

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
                           patch=2, expansion=2.0),
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
    if config.leaky and config.architecture in ("frost", "basic-ssm"):    # the others live by their skip connection
        parts = _leaking(parts)
    if config.standardise:
        parts = _standardising(parts)
    model = _assembled(config, parts)
    stem = model.stem
    assert isinstance(stem, ImageStem)
    stem.image_channels, stem.image_size = config.image_channels, config.image_size
    model.expects(torch.zeros(config.input_shape))
    model.zoo_config = config
    model.batch_invariance = True    # tested for the zoo's blocks, and by campaign F15
    return model


def _assembled(config: ModelConfig, parts: Parts) -> IterativeModel:
    shape: dict[str, Any] = {"layout": "tokens" if config.backbone == "vit" else "maps"}
    if config.backbone in DIMENSIONS:
        shape["head"] = Dense(config.channels, config.classes)
    else:
        shape.update(channels=config.channels, classes=config.classes)
    if config.architecture == "frost":
        transition = {"contractive": parts.contractive, "theorem": parts.theorem}.get(config.rule, parts.branch)
        return Frost(parts.stem(), transition(), config=config, **shape)
    own: dict[str, Any] = {"depth": config.depth, "rectify": config.rectify, "score_sees": config.score_sees}
    if config.architecture == "vanilla":
        return Vanilla(parts.stem(), parts.branch, **own, **shape)
    if config.architecture == "recurrent":
        return Recurrent(parts.stem(), parts.branch(), **own, **shape)
    if config.folded_start:
        return fold(Frost(parts.stem(), parts.branch(), config=config, **shape))
    return BasicSSM(parts.stem(), parts.branch(), start=config.start, **own, **shape)
