"""Checkpointed unrolling equals the plain one; memory errors teach."""

import gc

import pytest
import torch

from frost.config import override
from frost.core.trajectory import Trajectory
from frost.training.memory import explained_memory, unroll
from frost.zoo.registry import build, named

MODELS = [("frost-resnet-8px", ()), ("frost-vit-8px", ()), ("vanilla-resnet-8px", ()), ("recurrent-vit-8px", ()),
          ("frost-resnet-8px", ("update=contractive",)), ("frost-vit-8px", ("update=theorem",)),
          ("frost-resnet-8px", ("update=gated",))]


def model_of(name, settings):
    return build(override(named(name), settings), seed=1).train()


def loss_of(trajectory: Trajectory):
    return trajectory.outputs.square().mean() + trajectory.score_logits.square().mean()


@pytest.mark.parametrize(("name", "settings"), MODELS)
@pytest.mark.parametrize("depth", [1, 5, 8])
def test_checkpointing_changes_neither_values_nor_gradients(name, settings, depth):
    images = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    plain, frugal = model_of(name, settings), model_of(name, settings)
    one = plain(images, depth=depth, keep_states=False)
    two = unroll(frugal, images, depth, isolate_score=False)
    assert torch.equal(one.outputs, two.outputs)
    assert torch.equal(one.score_logits, two.score_logits)
    loss_of(one).backward()
    loss_of(two).backward()
    for (where, parameter), other in zip(plain.named_parameters(), frugal.parameters(), strict=True):
        if parameter.grad is None:
            assert other.grad is None
        else:
            assert torch.allclose(parameter.grad, other.grad, rtol=1e-4, atol=1e-6), where


class Held:
    """Bytes of the tensors that autograd keeps for the backward pass."""

    def __init__(self):
        self.bytes = 0

    def keep(self, tensor):
        self.bytes += tensor.numel() * tensor.element_size()
        return tensor


def held_by(run):
    held = Held()
    with torch.autograd.graph.saved_tensors_hooks(held.keep, lambda tensor: tensor):
        run()
    return held.bytes


def test_memory_hardly_grows_with_depth():
    model = model_of("frost-resnet-8px", ())
    images = torch.rand(4, 1, 8, 8)
    plain = [held_by(lambda t=t: model(images, depth=t, keep_states=False)) for t in (8, 32)]
    frugal = [held_by(lambda t=t: unroll(model, images, t, isolate_score=False)) for t in (8, 32)]
    assert plain[1] > 3.5 * plain[0]          # the control grows with T
    assert frugal[0] < 0.5 * plain[0]
    assert frugal[1] < 0.2 * plain[1]


def test_too_little_memory_says_what_to_lower():
    with pytest.raises(ValueError, match=r"batch of 64: lower train\.batch"), explained_memory(64):
        torch.empty(2**50)
    with pytest.raises(ValueError, match=r"runtime\.checkpointing=true"), explained_memory(64):
        raise MemoryError
    with pytest.raises(RuntimeError, match="something else"), explained_memory(64):
        raise RuntimeError("something else")


def test_few_states_stay_alive_after_the_forward_pass():
    """Of 16 states those at the beginning of four parts; a tuple among the arguments would keep them all."""
    model, images = model_of("frost-resnet-8px", ()), torch.rand(3, 1, 8, 8)
    shape = model.begin(images).hidden.shape
    before = sum(type(part) is torch.Tensor and part.shape == shape for part in gc.get_objects())
    trajectory = unroll(model, images, 16, isolate_score=False)
    alive = sum(type(part) is torch.Tensor and part.shape == shape for part in gc.get_objects()) - before
    assert trajectory.outputs.requires_grad
    assert alive <= 10
