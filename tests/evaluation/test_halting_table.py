import pytest
import torch

from frost.core.trajectory import Trajectory
from frost.evaluation.halting_table import (
    fixed_depth_accuracy,
    halt,
    halting_table,
    per_step_accuracy,
    settling_order,
    standard_error,
)
from frost.halting.calibration import Calibration
from frost.halting.policy import AtDepth, Rule

LABELS = torch.tensor([0, 1])
OUTPUTS = torch.tensor([[[2.0, 1.0], [1.0, 2.0], [3.0, 0.0]],      # right, wrong, right
                        [[2.0, 1.0], [1.0, 2.0], [0.0, 3.0]]])     # wrong, right, right
LOGITS = torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.0, 4.0]])
TRAJECTORY = Trajectory(None, OUTPUTS, LOGITS)


def test_accuracy_at_each_step_by_hand():
    assert per_step_accuracy(OUTPUTS, LABELS) == [0.5, 0.5, 1.0]


def test_an_image_is_read_where_it_stopped():
    prediction = halt(TRAJECTORY, Rule("rank", (0.5,)))
    assert prediction.depth.tolist() == [1, 3]
    torch.testing.assert_close(prediction.outputs, torch.stack([OUTPUTS[0, 0], OUTPUTS[1, 2]]))
    torch.testing.assert_close(prediction.scores, torch.sigmoid(torch.tensor([1.0, 4.0])))


def test_fixed_depth_reads_the_same_step_for_everybody():
    torch.testing.assert_close(halt(TRAJECTORY, AtDepth(2)).outputs, OUTPUTS[:, 1])


@pytest.mark.parametrize(("mean_depth", "expected"), [(1.0, 0.5), (2.5, 0.75), (3.0, 1.0)])
def test_the_fixed_depth_line_is_interpolated(mean_depth, expected):
    assert fixed_depth_accuracy([0.5, 0.5, 1.0], mean_depth) == pytest.approx(expected)


def test_a_mean_depth_off_the_line_is_refused():
    with pytest.raises(ValueError, match="mean_depth"):
        fixed_depth_accuracy([0.5, 1.0], 2.5)


def test_the_table_by_hand():
    table = halting_table((OUTPUTS.argmax(-1) == LABELS[:, None]).double(), LOGITS,
                          Calibration.gather(LOGITS, weights_hash=""), (0.5, 1.0))
    assert [row.mean_depth for row in table] == [2.5, 3.0]       # threshold 1: stops at steps 2 and 3
    assert [row.accuracy for row in table] == [0.5, 1.0]
    assert [row.fixed_depth_accuracy for row in table] == [0.75, 1.0]
    assert table[0].threshold == pytest.approx(torch.tensor(1.0).sigmoid().item())
    assert table[1].threshold is None


def test_settled_images_come_first():
    assert settling_order(TRAJECTORY).tolist() == [0, 1]


def test_standard_error_by_hand():
    assert standard_error(0.9, 100) == pytest.approx(0.03)
