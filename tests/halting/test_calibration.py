import json
import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from frost.halting.calibration import Calibration, NotCalibrated
from frost.halting.policy import AtDepth, ByScore, first_passage


def calibration(logits: torch.Tensor | None = None) -> Calibration:
    return Calibration.gather(torch.randn(200, 6) if logits is None else logits, weights_hash="abc", k=128)


@given(st.integers(0, 50), st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_the_depth_of_every_image_rises_with_the_quantile(seed, quantiles):
    generator = torch.Generator().manual_seed(seed)
    ours = calibration(torch.randn(100, 5, generator=generator))
    fresh = torch.randn(40, 5, generator=generator)
    depths = [first_passage(ours.at_quantile(q).stops(fresh)) for q in sorted(quantiles)]
    assert all((before <= after).all() for before, after in pairwise(depths))


def test_quantile_one_is_exactly_full_depth():
    rule = calibration().at_quantile(1.0)
    assert rule.threshold is None
    assert (first_passage(rule.stops(torch.full((3, 6), 1e30))) == 6).all()


def test_quantile_zero_stops_at_the_first_step():
    rule = calibration().at_quantile(0.0)
    assert rule.threshold == 0.0
    assert (first_passage(rule.stops(torch.full((3, 6), -1e30))) == 1).all()


def test_a_score_at_the_threshold_goes_on():
    assert ByScore(0.5).stops(torch.tensor([[0.5, 0.6]])).tolist() == [[False, True]]


def test_a_score_that_is_not_a_number_never_stops_an_image():
    assert first_passage(ByScore(0.0).stops(torch.tensor([[math.nan, math.nan, -1.0]]))).tolist() == [3]


def test_fixed_depth_stops_everybody_there():
    assert first_passage(AtDepth(2).stops(torch.randn(3, 5))).tolist() == [2, 2, 2]
    assert first_passage(AtDepth(9).stops(torch.randn(3, 5))).tolist() == [5, 5, 5]
    with pytest.raises(ValueError, match="at least 1"):
        AtDepth(0)


def test_a_calibration_survives_json():
    ours = calibration()
    twin = Calibration.from_dict(json.loads(json.dumps(ours.to_dict())))
    for q in (0.1, 0.5, 0.9):
        assert twin.at_quantile(q) == ours.at_quantile(q)
    assert (twin.weights_hash, twin.depth, twin.dropped) == ("abc", 6, 0)


@pytest.mark.parametrize("change", [
    {"sketch": "@@@"}, {"sketch": "AAAA"}, {"depth": "6"}, {"extra": 1}, {"weights_hash": None}])
def test_a_damaged_calibration_is_refused(change):
    with pytest.raises(ValueError, match="calibrat"):
        Calibration.from_dict({**calibration().to_dict(), **change})


def test_scores_that_are_not_finite_are_dropped_with_a_count():
    assert calibration(torch.tensor([[1.0, math.nan], [math.inf, 2.0]])).dropped == 2


def test_a_quantile_outside_the_unit_interval_is_refused():
    for quantile in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="quantile"):
            calibration().at_quantile(quantile)


def test_an_empty_calibration_says_so():
    with pytest.raises(NotCalibrated):
        calibration(torch.empty(0, 4)).at_quantile(0.5)
