"""Thresholds in units that people know, checked."""

import math

import pytest
import torch

import frost
from frost.halting.calibration import Calibration
from frost.halting.signals import SIGNALS
from frost.halting.stopping import UNITS


@pytest.mark.parametrize(("condition", "signal", "threshold"), [
    ({"confidence": 0.9}, "confidence", math.log(0.9)), ({"entropy": 0.2}, "entropy", -0.2),
    ({"score": 0.8}, "rank", math.log(4)), ({"change": 1e-3}, "change", -1e-3), ({"margin": 0.5}, "margin", 0.5),
    ({"patience": 2}, "patience", 1.5)])
def test_a_condition_becomes_a_threshold_of_its_signal(condition, signal, threshold):
    rule = frost.stop_when(**condition)
    assert rule.name == signal
    assert rule.thresholds == pytest.approx((threshold,))


@pytest.mark.parametrize("condition", ["confidence", "margin", "entropy", "score", "change"])
def test_the_unit_is_the_one_in_which_a_rule_is_shown(condition):
    assert frost.stop_when(**{condition: 0.3}).threshold == pytest.approx(0.3)


@pytest.mark.parametrize(("condition", "sentence"), [
    ({"confidence": 1.5}, "a probability, between 0 and 1; got 1.5"), ({"confidence": 0}, "between 0 and 1"),
    ({"score": -0.1}, "between 0 and 1"), ({"entropy": -1.0}, "above 0"), ({"change": 0.0}, "above 0"),
    ({"confidence": math.nan}, "got nan"), ({"confidence": "high"}, "got 'high'"), ({"patience": True}, "got True"),
    ({"luck": 0.5}, "no condition 'luck'"), ({}, "takes one condition"),
    ({"score": 0.5, "margin": 0.1}, "takes one condition")])
def test_what_is_outside_its_range_is_refused(condition, sentence):
    with pytest.raises(ValueError, match=sentence):
        frost.stop_when(**condition)


def test_a_probability_where_a_log_probability_belongs_is_refused():
    with pytest.raises(ValueError, match=r"frost\.stop_when takes units that people know"):
        frost.Rule("confidence", (0.05,))
    with pytest.raises(ValueError, match="or are infinite; got 2"):
        frost.Rule("margin", (2.0,))
    frost.Rule("confidence", (math.inf,))
    frost.Rule("margin", (-math.inf, 0.0, 1.0))


@pytest.mark.parametrize("name", ["confidence", "margin", "entropy", "patience", "residual"])
@pytest.mark.parametrize("mean_depth", [1.0, 2.2, 3.0, 3.9])
def test_thresholds_that_were_fitted_lie_in_the_range_or_say_always_or_never(name, mean_depth):
    signal = SIGNALS[name]
    values = torch.rand(200, 4, generator=torch.Generator().manual_seed(0)).double()
    values = values - 1 if signal.most == 0.0 else values
    quality = (torch.rand(200, 4) < 0.5).double()
    ours = Calibration.gather(values, quality, weights_hash="", rule=name)
    for form in (name, f"{name}-per-step"):
        rule = ours.at_mean_depth(mean_depth, form)
        assert all(signal.within(threshold) == threshold for threshold in rule.thresholds)


def test_every_unit_is_of_a_signal():
    assert {unit.signal for unit in UNITS.values()} <= set(SIGNALS)
