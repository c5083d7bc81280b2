"""What the equations' own tests leave out: the weights of steps, batches of mixed images, ACT and PonderNet."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from frost.core.trajectory import Trajectory
from frost.data.augment import Mixed
from frost.halting.ranking import HaltingConfig
from frost.training.losses import (
    PRIOR,
    act_weights,
    objective,
    ponder_weights,
    prior_weights,
    step_losses,
    step_weights,
    task_loss,
)

OUTPUTS = torch.randn(6, 4, 5, generator=torch.Generator().manual_seed(0))
LOGITS = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
CHANCES = torch.tensor([[0.0, 0.0, 0.0, 0.0], [-9.0, -9.0, -9.0, -9.0], [9.0, 0.0, 0.0, 0.0]])    # of halting
LABELS, PARTNERS = torch.arange(6) % 5, torch.arange(6).flip(0) % 5


def test_a_mixed_batch_is_judged_by_both_labels_and_not_ranked():
    loss = objective(Trajectory(None, OUTPUTS, LOGITS), LABELS, HaltingConfig(), label_smoothing=0.1,
                     supervision="all", mixed=Mixed(PARTNERS, 0.3))

    def both(outputs):
        return (0.3 * F.cross_entropy(outputs, LABELS, label_smoothing=0.1)
                + 0.7 * F.cross_entropy(outputs, PARTNERS, label_smoothing=0.1))

    every = torch.stack([both(OUTPUTS[:, t]) for t in range(4)])
    torch.testing.assert_close(loss.task, every @ torch.tensor([0.1, 0.2, 0.3, 0.4]))
    torch.testing.assert_close(loss.total, loss.task)
    assert not loss.easy.any()
    assert not loss.hard.any()
    assert float(loss.relative) == float(loss.anchoring) == 0.0


def test_a_share_of_one_is_the_unmixed_task_loss():
    trajectory = Trajectory(None, OUTPUTS, LOGITS)
    plain = objective(trajectory, LABELS, HaltingConfig())
    mixed = objective(trajectory, LABELS, HaltingConfig(), mixed=Mixed(PARTNERS, 1.0))
    torch.testing.assert_close(mixed.task, plain.task)
    assert plain.easy.any()


@pytest.mark.parametrize(("supervision", "expected"), [("last", 3.0), ("all", (1 * 2.0 + 2 * 3.0) / 3)])
def test_the_loss_of_the_task_weighs_steps_as_computed_by_hand(supervision, expected):
    losses = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert task_loss(losses, supervision).item() == pytest.approx(expected)


@pytest.mark.parametrize("supervision", ["last", "all"])
@pytest.mark.parametrize("depth", [1, 2, 7])
def test_the_weights_of_the_steps_sum_to_one(depth, supervision):
    weights = step_weights(depth, supervision)
    assert weights.shape == (depth,)
    assert weights.sum().item() == pytest.approx(1.0)


def test_act_weights_by_hand():
    weights, price = act_weights(CHANCES)
    assert weights[0].tolist() == pytest.approx([0.5, 0.5, 0.0, 0.0])
    assert price[0].item() == pytest.approx(2.5)                             # N = 2, R = ½
    small = 1 / (1 + math.exp(9))
    assert weights[1].tolist() == pytest.approx([small] * 3 + [1 - 3 * small])
    assert weights[2].tolist() == pytest.approx([1.0, 0.0, 0.0, 0.0])
    assert price[2].item() == pytest.approx(2.0)                             # N = 1, R = 1


@pytest.mark.parametrize("weights", [lambda z: act_weights(z)[0], ponder_weights])
def test_weights_are_a_distribution_over_steps(weights):
    ours = weights(torch.randn(50, 7) * 3)
    assert (ours >= 0).all()
    torch.testing.assert_close(ours.sum(dim=1), torch.ones(50))


def test_ponder_weights_by_hand():
    assert ponder_weights(CHANCES)[0].tolist() == pytest.approx([0.5, 0.25, 0.125, 0.125])
    assert ponder_weights(torch.tensor([[200.0, -200.0]])).tolist() == [[1.0, 0.0]]


def test_the_prior_is_geometric_and_ends_at_full_depth():
    assert prior_weights(4, 0.5, torch.zeros(())).tolist() == pytest.approx([0.5, 0.25, 0.125, 0.125])


@pytest.mark.parametrize("kind", ["act", "ponder"])
def test_the_objective_is_the_weighed_loss_and_a_price(kind):
    outputs, labels = torch.randn(6, 4, 3), torch.randint(0, 3, (6,))
    logits = torch.randn(6, 4, requires_grad=True)
    halting = replace(HaltingConfig(), objective=kind, ponder_weight=0.1)
    ours = objective(Trajectory(None, outputs, logits), labels, halting)
    weights = act_weights(logits)[0] if kind == "act" else ponder_weights(logits)
    torch.testing.assert_close(ours.task, (weights * step_losses(outputs, labels)).sum(dim=1).mean())
    torch.testing.assert_close(ours.total, ours.task + 0.1 * ours.pondering)
    assert ours.relative == ours.anchoring == 0
    ours.total.backward()
    assert torch.isfinite(logits.grad).all()
    assert logits.grad.abs().sum() > 0


def test_a_score_that_follows_the_prior_costs_nothing():
    logits = torch.full((3, 5), math.log(PRIOR / (1 - PRIOR)))
    ours = objective(Trajectory(None, torch.zeros(3, 5, 2), logits), torch.zeros(3, dtype=torch.long),
                     HaltingConfig(objective="ponder"))
    assert ours.pondering.item() == pytest.approx(0.0, abs=1e-6)


def test_a_price_makes_act_stop_earlier():
    logits = torch.zeros(1, 6, requires_grad=True)
    ours = objective(Trajectory(None, torch.zeros(1, 6, 2), logits), torch.zeros(1, dtype=torch.long),
                     HaltingConfig(objective="act", ponder_weight=1.0))
    ours.total.backward()
    assert (logits.grad[0, :2] <= 0).all()       # larger chances, fewer steps
    assert logits.grad[0, 0] < 0


def test_bad_settings_of_pondering_are_refused():
    with pytest.raises(ValueError, match="ponder_weight"):
        HaltingConfig(ponder_weight=-1.0)
    with pytest.raises(ValueError, match="objective"):
        HaltingConfig(objective="luck")
