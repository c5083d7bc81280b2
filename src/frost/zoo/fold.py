"""Residual FROST is a BasicSSM in other coordinates (§3.3): fold λ and H into the weights.

    A′ = λ A,   B′ = λ^{1+H} B,   C′ = λ^{−H} C,   D′ = D

gives the same outputs at every step. λ and H are then a parametrisation and an initialisation, not another class of
functions; the folded model has nothing left to compute for them.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from frost.core.block import Branch
from frost.core.model import Frost
from frost.core.update_rules import Residual
from frost.zoo.baselines import BasicSSM


class Scaled(nn.Module):
    """A constant times a module that does not end in a linear map of its own."""

    factor: Tensor

    def __init__(self, module: nn.Module, factor: Tensor) -> None:
        super().__init__()
        self.module = module
        self.register_buffer("factor", factor.detach().clone())

    def forward(self, hidden: Tensor, **context: Tensor) -> Tensor:
        """factor · module(h), as A_λ = λ A (13)."""
        return self.factor * self.module(hidden, **context)


class ScaledBranch(nn.Module):
    """λ (block(h) − h) of a block whose last linear map holds λ already: block′(h) − λ h."""

    factor: Tensor

    def __init__(self, block: nn.Module, factor: Tensor) -> None:
        super().__init__()
        self.block = block
        self.register_buffer("factor", factor.detach().clone())

    def forward(self, hidden: Tensor, **context: Tensor) -> Tensor:
        """A_λ(h) = λ A(h) (13), in one pass over the block's value."""
        return torch.addcmul(self.block(hidden, **context), hidden, self.factor, value=-1)


def fold(model: Frost) -> BasicSSM:
    """The BasicSSM that gives the same outputs as a residual FROST: λ and H go into its weights by (13) and (17)."""
    if not isinstance(model, Frost):
        raise ValueError(f"only a Frost model can be folded, got {type(model).__name__}.")
    if type(model.rule) is not Residual:
        raise ValueError(f"only the residual rule folds into a BasicSSM, this model uses '{model.config.update}'.")
    if not model.head.is_linear:
        raise ValueError("only a linear head folds (Classifier, Regressor, Dense): λ^{−H} goes into its weights, and a "
                         "head of your own has no power of λ to take out.")
    source = copy.deepcopy(model)
    scale, readout = source.scale, source.head.get_submodule("readout")
    last, transition = _last_map(source), source.transition
    if last is None:
        transition = Scaled(transition, scale.value)
    elif isinstance(transition, Branch):
        transition = ScaledBranch(transition.block, scale.value)
    with torch.random.fork_rng(devices=[]):    # the score and B below are made, then replaced
        folded = BasicSSM(source.stem, transition, copy.deepcopy(source.head), depth=model.depth, layout=model.layout,
                          score_sees=model.config.score_sees)
    folded.norm, folded.head, folded.input_map = source.norm, source.head, source.input_map
    folded.signature, folded.batch_invariance = model.signature, model.batch_invariance
    with torch.no_grad():
        for parameter in last.parameters() if last else ():
            parameter.mul_(scale.value)
        folded.input_map.weight.mul_(scale.power(1 + scale.hurst))
        for parameter in readout.parameters():
            parameter.mul_(scale.power(-scale.hurst))
    return folded.to(scale.raw.device).train(model.training)


def _last_map(model: Frost) -> nn.Module | None:
    """The linear map that the transition ends in, if scaling its weights scales the transition and nothing else."""
    last = model.transition.block if type(model.transition) is Branch else model.transition
    while isinstance(last, nn.Sequential) and len(last) and type(last).forward is nn.Sequential.forward:
        last = last[-1]
    is_plain = type(last) in (nn.Linear, nn.Conv2d) and not (last._forward_hooks or last._forward_pre_hooks)
    uses = [id(parameter) for _, parameter in model.named_parameters(remove_duplicate=False)]
    is_own = all(uses.count(id(parameter)) == 1 for parameter in last.parameters())
    times = [id(part) for _, part in model.named_modules(remove_duplicate=False)].count(id(last))
    return last if is_plain and is_own and times == 1 else None
