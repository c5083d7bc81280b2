import numpy as np
import pytest

from frost.paper.intervals import Measured, difference, of_mean, of_share, rank_correlation


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


@pytest.mark.parametrize(("count", "quantile"), [(2, 12.7062), (3, 4.3027), (10, 2.2622), (31, 2.0423)])
def test_the_interval_of_a_mean_is_students(count, quantile):
    values = np.arange(count) - (count - 1) / 2
    half = quantile * values.std(ddof=1) / np.sqrt(count)
    assert of_mean(values).high == pytest.approx(half, rel=1e-4)


def test_equal_values_share_their_rank():
    scores, losses = np.array([[1.0], [2.0], [2.0], [3.0]]), np.array([[1.0], [2.0], [3.0], [4.0]])
    assert rank_correlation(scores, losses) == pytest.approx([4.5 / np.sqrt(4.5 * 5)])    # ranks 1, 2½, 2½, 4


def test_a_column_of_equal_values_has_no_rank_correlation():
    values = np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]])
    assert rank_correlation(values, values) == [pytest.approx(1.0), None]
