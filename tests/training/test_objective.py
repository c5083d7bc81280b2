"""What the equations' own tests leave out: batches of mixed images."""

import torch
import torch.nn.functional as F

from frost.core.trajectory import Trajectory
from frost.data.augment import Mixed
from frost.halting.ranking import HaltingConfig
from frost.training.objective import objective

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
