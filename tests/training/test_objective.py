"""What the equations' own tests leave out: the weights of steps, and batches of mixed images."""

import pytest
import torch
import torch.nn.functional as F

from frost.core.trajectory import Trajectory
from frost.data.augment import Mixed
from frost.halting.ranking import HaltingConfig
from frost.training.objective import objective, step_weights, task_loss

OUTPUTS = torch.randn(6, 4, 5, generator=torch.Generator().manual_seed(0))
LOGITS = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
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
