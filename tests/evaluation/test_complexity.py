"""FLOPs against arithmetic on paper, and the counts that the issue and the paper name."""

from dataclasses import replace

import pytest
import torch

from frost.evaluation.complexity import measure
from frost.zoo.registry import SIZES, ModelConfig, build, named, names


def measured(config: ModelConfig):
    with torch.device("meta"):
        model = build(config)
    return measure(model)


def test_vit_block_by_arithmetic():
    # n = 197 tokens of c = 768: q, k, v and output 4c², MLP 8c², two attention products n·c each, times 2n; and C
    n, c = 197, 768
    block = 2 * n * 12 * c * c + 4 * n * n * c
    assert measured(named("recurrent-vit-b16")).flops_per_step == block + 2 * c * 100


def test_bottleneck_by_arithmetic():
    pixels, c, b = 56 * 56, 256, 64
    block = 2 * pixels * (c * b + 9 * b * b + b * c)
    assert measured(named("frost-resnet50")).flops_per_step == block + 2 * c * 100


@pytest.mark.parametrize("name", ["frost-vit-8px", "vanilla-vit-8px", "basic-ssm-resnet-8px", "frost-resnet-8px"])
def test_full_depth_is_once_and_every_step(name):
    ours = measured(named(name))
    assert ours.flops_full_depth == ours.flops_once + ours.depth * ours.flops_per_step


@pytest.mark.parametrize("rule", ["contractive", "theorem"])
def test_a_bounded_step_by_arithmetic(rule):
    # one 3×3 convolution of 48 channels on 8×8 pixels, and C; the factors of the bound cost nothing at inference
    step = 2 * 64 * 9 * 48 * 48 + 2 * 48 * 10
    ours = measured(replace(SIZES["resnet-8px"], rule=rule))
    assert ours.flops_per_step == step
    assert ours.flops_full_depth == ours.flops_once + 8 * step


def test_a_shared_block_costs_as_much_to_run_as_distinct_ones():
    assert measured(named("vanilla-vit-8px")).flops_full_depth == measured(named("recurrent-vit-8px")).flops_full_depth


def test_the_cached_first_step_saves_one_transition():
    ours, recurrent = measured(named("frost-vit-8px")), measured(named("recurrent-vit-8px"))
    head = 2 * 48 * 10
    assert ours.flops_full_depth - ours.flops_full_depth_cached == ours.flops_per_step - head
    assert recurrent.flops_full_depth == recurrent.flops_full_depth_cached


def test_counts_of_the_paper():
    assert measured(named("vanilla-vit-b16")).parameters_without_head == 85_798_656
    assert measured(named("recurrent-vit-b16")).parameters_without_head == 7_832_064
    assert measured(named("vanilla-vit-b16")).flops_full_depth == pytest.approx(35.13e9, abs=5e6)
    assert measured(named("frost-vit-b16")).parameters <= 9e6


@pytest.mark.parametrize("size", ["vit-b16", "resnet50"])
def test_a_residual_step_costs_what_a_recurrent_step_costs(size):
    assert measured(named(f"frost-{size}")).flops_per_step <= 1.03 * measured(named(f"recurrent-{size}")).flops_per_step


def test_a_gated_vit_step_costs_little_more():
    gated = measured(replace(SIZES["vit-b16"], rule="gated"))
    assert gated.flops_per_step <= 1.15 * measured(named("recurrent-vit-b16")).flops_per_step


@pytest.mark.parametrize("name", names())
def test_every_named_model_can_be_counted(name):
    ours = measured(named(name))
    assert ours.parameters > ours.parameters_without_head > 0
    assert ours.flops_once > 0
