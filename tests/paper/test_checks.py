"""A check is met, missed or, where the measurement allows both, not decided."""

import pytest

from frost.paper.checks import above, below, close_to, every, seeds_differ_by
from frost.paper.intervals import Measured


def test_an_interval_on_both_sides_of_a_limit_decides_nothing():
    gap = Measured(0.1, -0.1, 0.3, 50)
    assert above(gap) is None
    assert below(gap) is None
    assert above(gap, -0.2) is True
    assert above(gap, 0.4) is False
    assert below(gap, 0.4) is True
    assert below(gap, -0.2) is False


def test_a_small_loss_is_close_in_proportion_to_the_accuracy():
    gap = Measured(-0.01, -0.015, -0.005, 10_000)
    assert close_to(gap, 0.6) is True
    assert close_to(gap, 0.1) is False
    assert close_to(gap, 0.3) is None


def test_every_part_must_be_met():
    assert every([True, True]) is True
    assert every([True, None]) is None
    assert every([None, False]) is False


def test_what_seeds_differ_by_is_unknown_for_one():
    assert seeds_differ_by([0.4]) is None
    assert seeds_differ_by([0.0, 1.0]) == pytest.approx(1.96, abs=0.001)    # √2 · 1.96 · √½
