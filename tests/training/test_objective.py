"""What the equations' own tests leave out: the loss of all steps, and batches of mixed images."""

import pytest
import torch
import torch.nn.functional as F

from frost.core.trajectory import Trajectory
from frost.data.augment import Mixed
from frost.halting.ranking import HaltingConfig
from frost.training.objective import deep_loss, objective

OUTPUTS = torch.randn(6, 4, 5, generator=torch.Generator().manual_seed(0))
LOGITS = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
LABELS, PARTNERS = torch.arange(6) % 5, torch.arange(6).flip(0) % 5


def test_a_mixed_batch_is_judged_by_both_labels_and_not_ranked():
    loss = objective(Trajectory(None, OUTPUTS, LOGITS), LABELS, HaltingConfig(), label_smoothing=0.1,
                     deep_supervision=0.5, mixed=Mixed(PARTNERS, 0.3))

    def both(outputs):
        return (0.3 * F.cross_entropy(outputs, LABELS, label_smoothing=0.1)
                + 0.7 * F.cross_entropy(outputs, PARTNERS, label_smoothing=0.1))

    torch.testing.assert_close(loss.task, both(OUTPUTS[:, -1]))
    every = torch.stack([both(OUTPUTS[:, t]) for t in range(4)]).mean()
    torch.testing.assert_close(loss.total, loss.task + 0.5 * every)
    assert not loss.easy.any()
    assert not loss.hard.any()
    assert float(loss.relative) == float(loss.anchoring) == 0.0


def test_a_share_of_one_is_the_unmixed_task_loss():
    trajectory = Trajectory(None, OUTPUTS, LOGITS)
    plain = objective(trajectory, LABELS, HaltingConfig())
    mixed = objective(trajectory, LABELS, HaltingConfig(), mixed=Mixed(PARTNERS, 1.0))
    torch.testing.assert_close(mixed.task, plain.task)
    assert plain.easy.any()


@pytest.mark.parametrize(("growth", "is_ranked", "expected"), [
    (0.0, False, 10 / 4), (1.0, False, (0.5 * 1 + 2 + 0.5 * 3 + 4) / 3),
    # the second image has rank 2 of 2, u = ¾, and counts by half at step 1
    (0.0, True, (1 + 2 + 0.5 * 3 + 4) / 3.5), (1.0, True, (0.5 * 1 + 2 + 0.25 * 3 + 4) / 2.75)])
def test_the_loss_of_all_steps_weighs_them_as_computed_by_hand(growth, is_ranked, expected):
    losses = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert deep_loss(losses, growth, is_ranked).item() == pytest.approx(expected)


def test_ranked_supervision_asks_early_steps_for_easy_images_only():
    losses = torch.arange(1.0, 9.0)[:, None].repeat(1, 4).requires_grad_()     # the last image is the hardest
    deep_loss(losses, is_ranked=True).backward()
    counts = losses.grad > 0
    assert counts[:, 0].tolist() == [True] * 4 + [False] * 4
    assert counts.sum(dim=0).tolist() == [4, 6, 8, 8]


def test_a_rank_among_the_right_is_divided_by_their_number():
    losses = torch.arange(1.0, 9.0)[:, None].repeat(1, 4).requires_grad_()
    hits = torch.zeros(8, 4, dtype=torch.bool)
    hits[[0, 1, 2, 6], -1] = True            # four are right at T; that one has a large loss makes no difference
    deep_loss(losses, is_ranked=True, quality=hits).backward()
    # u is ⅛, ⅜, ⅝, ⅞ and 1 from there on; t + 1 − 4u for t = 1 … 4
    weights = torch.tensor([[1, 1, 1, 1], [0.5, 1, 1, 1], [0, 0.5, 1, 1], [0, 0, 0.5, 1], *[[0, 0, 0, 1]] * 4])
    torch.testing.assert_close(losses.grad, weights / weights.sum())


def test_ranked_among_the_right_when_nobody_is_right_asks_for_the_last_step():
    losses = torch.rand(3, 4, requires_grad=True)
    deep_loss(losses, is_ranked=True, quality=torch.zeros(3, 4, dtype=torch.bool)).backward()
    assert (losses.grad.sum(dim=1) > 0).all()
    assert (losses.grad[:, :-1] > 0).sum() == 2                                # the easiest: u = ½ at R = 1


def test_the_objective_ranks_among_those_that_it_is_told():
    trajectory = Trajectory(None, OUTPUTS, LOGITS)
    totals = [objective(trajectory, LABELS, HaltingConfig(), deep_supervision=0.5, is_ranked=True, among=among).total
              for among in ("all", "right")]
    assert not torch.equal(*totals)


def test_ranked_supervision_leaves_mixed_batches_unranked():
    trajectory, mixed = Trajectory(None, OUTPUTS, LOGITS), Mixed(PARTNERS, 0.3)
    plain, ranked = (objective(trajectory, LABELS, HaltingConfig(), deep_supervision=0.5, is_ranked=is_ranked,
                               mixed=mixed) for is_ranked in (False, True))
    assert torch.equal(plain.total, ranked.total)
