from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from frost.core.weight_cache import one_unrolling
from frost.zoo.fold import fold
from frost.zoo.registry import SIZES, build
from frost.zoo.resnet import StandardConv2d

STANDARD = replace(SIZES["resnet-8px"], leaky=True, backbone="resnet-ws")


def test_standard_kernels_have_mean_zero():
    weight = StandardConv2d(6, 4, 3).standard_weight()
    torch.testing.assert_close(weight.mean(dim=(1, 2, 3)), torch.zeros(4), rtol=0, atol=1e-7)


def test_standard_kernels_have_the_length_of_their_gain():
    conv = StandardConv2d(6, 4, 3)
    with torch.no_grad():
        conv.gain.copy_(torch.tensor([0.5, 1.0, 2.0, -3.0]))
    length = conv.standard_weight().flatten(1).norm(dim=1)
    torch.testing.assert_close(length, torch.tensor([0.5, 1.0, 2.0, 3.0]), rtol=1e-3, atol=0)


def test_what_is_the_same_everywhere_does_not_pass_a_standard_convolution():
    conv, hidden = StandardConv2d(6, 4, 3, padding=1), torch.rand(2, 6, 5, 5)
    inside = (slice(None), slice(None), slice(1, -1), slice(1, -1))    # the padding is no constant
    torch.testing.assert_close(conv(hidden + 7.0)[inside], conv(hidden)[inside], rtol=0, atol=1e-5)


def test_a_standard_convolution_is_a_convolution_with_its_standard_kernels():
    conv, hidden = StandardConv2d(6, 4, 3, padding=2, dilation=2), torch.rand(2, 6, 5, 5)
    expected = F.conv2d(hidden, conv.standard_weight(), padding=2, dilation=2)
    assert torch.equal(conv(hidden), expected)


def test_gradients_are_the_same_if_kernels_are_standardised_once_per_unrolling():
    conv, hidden = StandardConv2d(4, 4, 3, padding=1), torch.rand(2, 4, 5, 5)
    conv(conv(hidden)).square().sum().backward()
    expected = conv.weight.grad.clone()
    conv.zero_grad()
    with one_unrolling():
        output = conv(conv(hidden))
    output.square().sum().backward()
    torch.testing.assert_close(conv.weight.grad, expected)


def test_frozen_standard_kernels_follow_their_weights():
    conv, hidden = StandardConv2d(4, 4, 1), torch.rand(2, 4, 5, 5)
    with torch.no_grad():
        before = conv(hidden)
        conv.gain.mul_(2.0)
        torch.testing.assert_close(conv(hidden), 2 * before)


@pytest.mark.parametrize("architecture", ["frost", "vanilla", "recurrent", "basic-ssm"])
def test_every_architecture_takes_standard_weights(architecture):
    model = build(replace(STANDARD, architecture=architecture, depth=2))
    assert sum(isinstance(part, StandardConv2d) for part in model.modules()) % 3 == 0
    assert any(isinstance(part, StandardConv2d) for part in model.modules())


def test_a_leaky_standard_block_starts_larger():
    plain = build(replace(STANDARD, leaky=False), seed=0).transition
    leaky = build(STANDARD, seed=0).transition.block
    torch.testing.assert_close(leaky[-1].standard_weight(), 3.0 * plain[-1].standard_weight(), rtol=1e-2, atol=1e-4)


def test_a_standard_model_folds_too():
    model, images = build(STANDARD, seed=0).eval(), torch.rand(2, 1, 8, 8)
    torch.testing.assert_close(fold(model)(images).outputs, model(images).outputs, rtol=1e-4, atol=1e-5)
