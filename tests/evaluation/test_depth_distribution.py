import numpy as np
import pytest

from frost.evaluation.depth_distribution import in_shares, normal_depths


@pytest.mark.parametrize(("mean", "deviation", "depth"), [(4.53, 2.34, 12), (7.56, 2.83, 16), (3.02, 1.56, 8),
                                                          (1.3, 0.6, 8), (7.9, 0.3, 8), (4.5, 3.3, 8)])
def test_the_mean_and_the_deviation_are_those_asked_for(mean, deviation, depth):
    shares, steps = normal_depths(mean, deviation, depth), np.arange(1, depth + 1)
    assert shares.sum() == pytest.approx(1)
    assert shares @ steps == pytest.approx(mean, abs=1e-6)
    assert np.sqrt(shares @ (steps - mean) ** 2) == pytest.approx(min(deviation, 0.9 * np.sqrt((mean - 1) *
                                                                                           (depth - mean))), abs=1e-6)


def test_it_is_a_normal_where_there_is_room():
    shares, steps = normal_depths(20.0, 3.0, 40), np.arange(1, 41)
    expected = np.exp(-((steps - 20.0) ** 2) / 18.0)
    assert shares == pytest.approx(expected / expected.sum(), abs=1e-9)


@pytest.mark.parametrize("mean", [1.0, 8.0])
def test_the_ends_leave_no_choice(mean):
    assert normal_depths(mean, 2.0, 8)[int(mean) - 1] == 1


def test_a_mean_that_no_depth_has_is_refused():
    with pytest.raises(ValueError, match="between 1 and 8"):
        normal_depths(9.0, 2.0, 8)


@pytest.mark.parametrize("count", [40, 160, 641])
def test_a_stream_has_each_depth_in_its_share_to_one_image(count):
    shares = normal_depths(4.53, 2.34, 12)
    depths = in_shares(shares, count, np.random.default_rng(0))
    counts = np.bincount(depths, minlength=13)[1:]
    assert len(depths) == count
    assert np.abs(counts - count * shares).max() <= 1
    assert depths.mean() == pytest.approx(4.53, abs=0.1)
    assert not (np.diff(depths) >= 0).all()
