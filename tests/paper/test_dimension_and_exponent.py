import pytest
import torch

from frost.paper.measurements.curves import KNOWN, known_curve
from frost.paper.measurements.dimension_and_exponent import box_dimension, in_plane, increments_exponent


@pytest.mark.parametrize(("name", "low", "high"), [("line", 0.95, 1.03), ("koch", 1.15, 1.30), ("square", 1.55, 2.0)])
def test_many_points_of_a_known_curve_come_near_its_dimension(name, low, high):
    found = box_dimension(known_curve(name, 1000)[None])
    assert low < found.value.item() < high
    assert found.r_squared.item() > 0.99


def test_few_points_leave_a_bias_larger_than_the_papers_difference():
    found = box_dimension(torch.stack([known_curve("koch", 16, seed=seed) for seed in range(8)]))
    assert KNOWN["koch"] - found.value.mean().item() > 1.295 - 1.262


def test_known_curves_keep_their_order_with_few_points():
    line, koch, square = (box_dimension(known_curve(name, 16)[None]).value.item() for name in KNOWN)
    assert line < koch < square


def test_the_dimension_does_not_depend_on_size_or_place():
    path = known_curve("koch", 16)[None]
    assert box_dimension(7 * path + 3).value.item() == pytest.approx(box_dimension(path).value.item(), abs=1e-6)


def test_a_plane_path_keeps_its_lengths_in_many_dimensions():
    flat, turned = known_curve("koch", 16), known_curve("koch", 16, channels=30)
    first, second = (torch.cdist(path, path) for path in (flat, in_plane(turned[None])[0]))
    assert torch.allclose(first, second, atol=1e-6)


def test_the_exponent_of_a_line_is_one_and_of_a_random_walk_one_half():
    line = torch.linspace(0, 1, 16)[None, :, None] * torch.ones(1, 1, 3)
    walks = torch.randn(300, 16, 50, generator=torch.Generator().manual_seed(0)).cumsum(dim=1)
    assert increments_exponent(line).item() == pytest.approx(1.0)
    assert increments_exponent(walks).mean().item() == pytest.approx(0.5, abs=0.03)


def test_too_short_a_path_is_refused():
    with pytest.raises(ValueError, match="at least 3 steps"):
        box_dimension(torch.zeros(1, 2, 4))


def test_an_unknown_curve_is_refused():
    with pytest.raises(ValueError, match="known curves are line, koch, square"):
        known_curve("spiral", 16)
