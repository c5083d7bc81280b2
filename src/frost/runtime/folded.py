"""A model as inference runs it: what depends on weights alone is computed once.

    w = gain (v − mean v) / ‖v − mean v‖      a convolution with these kernels
    BatchNorm of a stem                       into the convolution before it
    λ and H                                   into A, B and C, by (13) and (17): `zoo.fold`

The outputs agree with the model's own to rounding. A(0) is kept by the model itself, for each shape of its state.
"""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from frost.core.block import FAILURES
from frost.core.model import Frost
from frost.core.trajectory import IterativeModel
from frost.core.update_rules import Residual
from frost.zoo.fold import fold
from frost.zoo.resnet import StandardConv2d


def folded(model: IterativeModel) -> IterativeModel:
    """A copy in evaluation mode with everything folded that can be; it shares the weights that stay as they are.

    A model that cannot be copied, because a part of it holds something that cannot, comes back as it is.
    """
    shared: dict[int, Any] = {id(part): part for part in (*model.parameters(), *model.buffers())}
    try:
        twin = copy.deepcopy(model, shared).eval()
    except FAILURES:
        return model
    with torch.no_grad():
        _fold_kernels(twin)
        _fold_batch_norms(twin)
        if type(twin) is Frost and type(twin.rule) is Residual and twin.head.is_linear:
            twin = fold(twin)
    twin.signature, twin.quality_of_fit = model.signature, model.quality_of_fit
    twin.batch_invariance = model.batch_invariance
    return twin.eval()


def _fold_kernels(module: nn.Module) -> None:
    """Standardised convolutions become plain ones; a convolution that stands in two places stays one."""
    made: dict[int, nn.Conv2d] = {}
    for parent in list(module.modules()):
        for name, part in list(parent.named_children()):
            if type(part) is StandardConv2d:
                setattr(parent, name, made.setdefault(id(part), _plain(part)))


def _plain(part: StandardConv2d) -> nn.Conv2d:
    conv = nn.Conv2d(part.in_channels, part.out_channels, 1, bias=False)
    conv.kernel_size, conv.stride, conv.padding = part.kernel_size, part.stride, part.padding
    conv.dilation, conv.groups = part.dilation, part.groups
    conv.weight = nn.Parameter(part.standard_weight().detach().clone(), requires_grad=False)
    return conv.eval()


def _fold_batch_norms(module: nn.Module) -> None:
    """A BatchNorm right behind a convolution of its own `nn.Sequential` goes into that convolution."""
    uses = [id(part) for parent in module.modules() for part in parent.children()]
    for parent in list(module.modules()):
        if not isinstance(parent, nn.Sequential) or type(parent).forward is not nn.Sequential.forward:
            continue
        for (first, conv), (second, norm) in pairwise(list(parent.named_children())):
            if type(conv) is nn.Conv2d and type(norm) is nn.BatchNorm2d and norm.running_mean is not None and (
                    uses.count(id(conv)) == uses.count(id(norm)) == 1) and not _is_hooked(conv, norm):
                setattr(parent, first, fuse_conv_bn_eval(conv, norm))
                setattr(parent, second, nn.Identity())


def _is_hooked(*parts: nn.Module) -> bool:
    return any(part._forward_hooks or part._forward_pre_hooks for part in parts)
