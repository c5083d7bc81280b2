import json
import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from frost.halting.calibration import Calibration, NotCalibrated
from frost.halting.cost import Cost
from frost.halting.stopping import AtDepth, Rule, first_passage


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
    assert Rule("rank", (0.5,)).stops(torch.tensor([[0.5, 0.6]])).tolist() == [[False, True]]


def test_a_score_that_is_not_a_number_never_stops_an_image():
    assert first_passage(Rule("rank", (0.0,)).stops(torch.tensor([[math.nan, math.nan, -1.0]]))).tolist() == [3]


def test_fixed_depth_stops_every_image_there():
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
    {"pooled": "@@@"}, {"values": "AAAA"}, {"depth": "6"}, {"extra": 1}, {"weights_hash": None}, {"sha256": "0"},
    {"format": 1}, {"images": 10**9}, {"per_step": []}, {"rule": "luck"}])
def test_a_damaged_calibration_is_refused(change):
    with pytest.raises(ValueError, match="calibrat"):
        Calibration.from_dict({**calibration().to_dict(), **change})


def test_images_whose_scores_are_not_numbers_are_dropped_with_a_count():
    ours = calibration(torch.tensor([[1.0, math.nan], [math.inf, 2.0], [0.0, 1.0]]))
    assert (ours.dropped, ours.values.tolist()) == (2, [[0.0, 1.0]])


def test_a_quantile_outside_the_unit_interval_is_refused():
    for quantile in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="quantile"):
            calibration().at_quantile(quantile)


def test_an_empty_calibration_says_so():
    with pytest.raises(NotCalibrated):
        calibration(torch.empty(0, 4)).at_quantile(0.5)


def labelled(count: int = 400, depth: int = 6) -> Calibration:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(count, depth, generator=generator).cumsum(dim=1)
    correct = torch.rand(count, depth, generator=generator) < torch.sigmoid(logits)
    return Calibration.gather(logits, correct, weights_hash="abc", cost=Cost(once=100, first=0, step=50), k=256)


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("target", [1.5, 3.0, 5.0])
def test_a_mean_depth_is_kept_on_the_held_out_images(target, per_step):
    ours = labelled()
    rule = ours.at_mean_depth(target, "rank-per-step" if per_step else "rank")
    assert ours.mean_depth_of(rule) == pytest.approx(target, abs=0.05)
    assert len(rule.thresholds) == (6 if per_step else 1)
    depths = first_passage(rule.stops(torch.from_numpy(ours.values)))
    assert depths.double().mean().item() == pytest.approx(ours.mean_depth_of(rule))


def test_flops_are_depth_in_another_unit():
    ours = labelled()
    assert ours.at_flops(100 + 2 * 50) == ours.at_mean_depth(3.0)
    with pytest.raises(ValueError, match=r"between 100 .* and 350"):
        ours.at_flops(90)
    with pytest.raises(ValueError, match=r"between 100 .* and 350"):
        ours.at_flops(1e9)


def test_without_a_cost_flops_have_no_answer():
    with pytest.raises(NotCalibrated, match="what a step costs"):
        calibration().at_flops(100)


def test_an_accuracy_budget_needs_labels():
    with pytest.raises(NotCalibrated, match="which answers were right"):
        calibration().at_accuracy_loss(1.0)
    assert labelled().at_accuracy_loss(50.0).thresholds[0] < math.inf


def test_a_depth_that_no_threshold_reaches_says_what_is_reachable():
    steps = torch.arange(6.0).expand(50, 6)                 # all alike: whole steps only
    ours = Calibration.gather(steps, steps > 2, weights_hash="", rule="patience")
    assert ours.at_mean_depth(3.0).name == "patience"
    with pytest.raises(ValueError, match=r"nearest is [34]\.000"):
        ours.at_mean_depth(3.5)


def test_quantiles_for_each_step_come_from_that_step():
    logits = torch.stack([torch.arange(100.0), torch.arange(100.0) + 1000], dim=1)
    rule = Calibration.gather(logits, weights_hash="").at_quantile(0.5, per_step=True)
    assert rule.thresholds == pytest.approx((49.0, 1049.0), abs=1)


def test_the_calibrations_of_two_machines_merge():
    logits, correct = torch.randn(300, 6), torch.rand(300, 6) < 0.5
    parts = [Calibration.gather(logits[rows], correct[rows], weights_hash="abc", k=4096)
             for rows in (slice(0, 100), slice(100, 300))]
    whole = Calibration.gather(logits, correct, weights_hash="abc", k=4096)
    merged = parts[0].merge(parts[1])
    for q in (0.1, 0.5, 0.9):
        assert merged.at_quantile(q) == whole.at_quantile(q)
    assert merged.at_mean_depth(3.0) == whole.at_mean_depth(3.0)
    assert len(parts[0].values) == 100                      # its own traces are as they were
    with pytest.raises(ValueError, match="same weights_hash"):
        merged.merge(Calibration.gather(logits, correct, weights_hash="other", k=4096))


def test_everything_survives_json():
    ours = labelled()
    twin = Calibration.from_dict(json.loads(json.dumps(ours.to_dict())))
    assert twin.at_mean_depth(2.5, "rank-per-step") == ours.at_mean_depth(2.5, "rank-per-step")
    assert twin.at_flops(250) == ours.at_flops(250)
    assert twin.cost == ours.cost
