import numpy as np
import pytest

from frost.analysis.collapse import Outcome, why_collapsed
from frost.analysis.intervals import Measured, difference, of_mean, of_share


def test_the_interval_of_a_mean_covers_the_truth_about_95_times_in_100():
    generator = np.random.default_rng(0)
    for count in (3, 5, 40):
        rows = [of_mean(generator.normal(size=count)) for _ in range(2000)]
        covered = np.mean([row.low <= 0 <= row.high for row in rows])
        assert 0.935 < covered < 0.965, count


def test_the_interval_of_a_share_stays_in_its_range():
    assert of_share(0, 10).low == 0
    assert of_share(10, 10).high == 1
    assert of_share(0, 10).high > 0.2


def test_one_observation_has_no_width():
    assert of_mean([0.7]) == Measured(0.7, 0.7, 0.7, 1)


def test_half_widths_add_in_squares():
    found = difference(Measured(5, 2, 8, 10), Measured(1, -3, 5, 20))
    assert found == Measured(4, -1, 9, 10)


@pytest.mark.parametrize(("outcome", "reason"), [
    (Outcome(False, 0.9, 0.5), "not finite"), (Outcome(True, 0.39, 0.5), "accuracy below half"),
    (Outcome(True, 0.9, 0.005), "scores alike"), (Outcome(True, 0.41, 0.5), None)])
def test_a_collapse_has_a_reason(outcome, reason):
    assert why_collapsed(outcome, accuracy_without=0.8) == reason
