import math

import pytest
import torch

from frost.paper.measurements.state_similarity import consistency, cosine_to_final, is_rising, random_walk


def test_the_last_state_is_like_itself():
    cosines = cosine_to_final(torch.randn(5, 4, 7))
    assert torch.allclose(cosines[:, -1], torch.ones(5, dtype=torch.double))


def test_cosines_by_hand():
    states = torch.tensor([[[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]]])
    assert cosine_to_final(states)[0].tolist() == pytest.approx([0.0, math.sqrt(0.5), 1.0])


def test_a_random_walk_in_many_dimensions_has_the_cosines_of_the_null_model():
    walks = torch.randn(200, 6, 4000, generator=torch.Generator().manual_seed(0)).cumsum(dim=1)
    assert consistency(cosine_to_final(walks)).mean == pytest.approx(random_walk(6), abs=0.01)


def test_a_fall_within_the_slack_is_not_one():
    assert is_rising([0.5, 0.499, 0.9], slack=0.005)
    assert not is_rising([0.5, 0.4, 0.9], slack=0.005)
