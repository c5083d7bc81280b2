"""Residual FROST is a BasicSSM in other coordinates (§3.3): fold λ and H into the weights.

    A′ = λ A,   B′ = λ^{1+H} B,   C′ = λ^{−H} C,   D′ = D

gives the same outputs at every step. λ and H are then a parametrisation and an initialisation, not another class of
functions; the folded model has nothing left to compute for them.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from frost.core.model import Frost
from frost.zoo.baselines import BasicSSM


class Scaled(nn.Module):
    """A constant times a module that does not end in a linear map."""

    def __init__(self, module: nn.Module, factor: float) -> None:
        super().__init__()
        self.module, self.factor = module, factor

    def forward(self, hidden: Tensor) -> Tensor:
        """factor · module(h), as A_λ = λ A (13)."""
        return self.factor * self.module(hidden)


def fold(model: Frost) -> BasicSSM:
    """The BasicSSM that gives the same outputs as a residual FROST: λ and H go into its weights by (13) and (17)."""
    if not isinstance(model, Frost):
        raise ValueError(f"only a Frost model can be folded, got {type(model).__name__}.")
    if model.config.rule != "residual":
        raise ValueError(f"only the residual rule folds into a BasicSSM, this model uses '{model.config.rule}'.")
    source = copy.deepcopy(model)
    hurst = source.scale.hurst
    scale = source.scale.value.item()
    readout = source.head.readout
    folded = BasicSSM(source.stem, scale_output(source.transition, scale), channels=readout.in_features,
                      classes=readout.out_features, depth=model.depth, start=model.config.start)
    folded.norm, folded.head, folded.input_map = source.norm, source.head, source.input_map
    folded.image_channels, folded.image_size = model.image_channels, model.image_size
    with torch.no_grad():
        folded.input_map.weight.mul_(source.scale.power(1 + hurst))
        folded.head.readout.weight.mul_(source.scale.power(-hurst))
        folded.head.readout.bias.mul_(source.scale.power(-hurst))
    return folded.to(readout.weight.device).train(model.training)


def scale_output(module: nn.Module, factor: float) -> nn.Module:
    """A module that gives factor · module(h); in the weights of its last map if it ends in a linear one."""
    if isinstance(module, nn.Sequential) and len(module) and type(module).forward is nn.Sequential.forward:
        module[-1] = scale_output(module[-1], factor)
        return module
    if isinstance(module, (nn.Linear, nn.Conv2d)):
        with torch.no_grad():
            module.weight.mul_(factor)
            if module.bias is not None:
                module.bias.mul_(factor)
        return module
    return Scaled(module, factor)
