"""Which form of rule wins at a budget, and that none below fixed depth does."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from frost.halting.calibration import Calibration, NotCalibrated
from frost.halting.rule_choice import (
    BUDGETS,
    CLEARLY,
    FIXED,
    Choice,
    chosen,
    crossed_gain,
    forms_of,
    gain_of,
    signal_of,
    two_steps,
)
from frost.halting.threshold_fit import stops_at


def traces(count=600, depth=6, seed=0):
    """Inputs that are right from a step of their own on; one signal knows it, one knows nothing."""
    random = np.random.default_rng(seed)
    needs = random.integers(1, depth + 1, count)
    steps = np.arange(1, depth + 1)
    quality = (steps >= needs[:, None]).astype(float)
    knows = (steps - needs[:, None] + 0.3 * random.standard_normal((count, depth))).astype(np.float32)
    nothing = random.standard_normal((count, depth)).astype(np.float32)
    return {"rank": nothing, "margin": 1 / (1 + np.exp(-knows))}, quality


def test_the_signal_that_knows_wins_wherever_there_is_something_to_win():
    signals, quality = traces()
    choices = chosen(signals, quality)
    assert [choice.mean_depth for choice in choices] == [max(1.0, share * 6) for share in BUDGETS]
    assert {signal_of(choice.form) for choice in choices[2:]} == {"margin"}
    assert all(choice.gain > 0.05 for choice in choices[2:6])


def test_thresholds_for_each_step_win_where_they_pay():
    generator = np.random.default_rng(0)
    quality = np.zeros((4000, 4))
    quality[:, 2:] = quality[:2000, 1] = 1                        # right at step 3, half of them at step 2
    values = generator.normal(size=(4000, 4)).astype(np.float32)
    values[:, 0] += 5.0                                           # step 1 boasts
    values[:2000, 1] += 4.0
    assert {choice.form for choice in chosen({"rank": values}, quality) if 1.9 < choice.mean_depth < 2.5} == {
        "rank-per-step"}


def test_a_signal_that_misleads_never_wins():
    signals, quality = traces()
    against = {"rank": -signals["margin"]}
    half = np.arange(len(quality)) % 2 == 0
    assert crossed_gain("rank", against, quality, half, 3.0).value < 0
    fresh, judged = traces(4000, seed=1)
    ours = gathered(against, quality)
    for choice in ours.choices:
        rule = ours.at_mean_depth(choice.mean_depth)
        depths = stops_at(-fresh["margin"], rule.thresholds)
        assert gain_of(depths, judged).value > -0.01, choice    # what the rule really does, on inputs of the same kind


@pytest.mark.slow
def test_signals_that_know_nothing_hardly_ever_cost_anything():
    """Of many forms one is always above the line by luck; what it does to fresh inputs is what counts."""
    random = np.random.default_rng(0)

    def settled_early(count):
        needs = np.minimum(random.geometric(0.4, count), 9)    # early steps gain most: mixing depths costs
        return (np.arange(1, 9) >= needs[:, None]).astype(float)

    gains = []
    for _ in range(6):
        nothing = {name: random.random((180, 8)).astype(np.float32) for name in ("rank", "confidence", "margin")}
        ours, judged = gathered(nothing, settled_early(180)), settled_early(4000)
        for choice in ours.choices:
            rule = ours.at_mean_depth(choice.mean_depth)
            gains.append(gain_of(stops_at(random.random((4000, 8)).astype(np.float32), rule.thresholds), judged).value)
    assert np.mean(gains) > -0.003
    assert np.min(gains) > -0.03


def test_a_form_wins_only_where_its_thresholds_reach_the_budget():
    """A signal that has two values stops half of the inputs at once or none: it cannot win between."""
    steps = np.arange(1, 7)
    needs = np.where(np.arange(800) % 2, 1, 6)
    quality = (steps >= needs[:, None]).astype(float)
    knows = np.where(needs == 1, 1.0, 0.0)[:, None].repeat(6, axis=1).astype(np.float32)
    fuzzy = knows + np.random.default_rng(0).normal(size=knows.shape).astype(np.float32)
    ours = gathered({"rank": fuzzy, "margin": knows}, quality)
    for choice in ours.choices:
        form, rule = ours.choice_at(choice.mean_depth)
        assert form == choice.form
        assert form == FIXED or ours.mean_depth_of(rule) == pytest.approx(choice.mean_depth, abs=0.02 * 6 + 1e-9)
        assert form != "margin" or choice.mean_depth == 3.5


def test_the_error_of_a_gain_is_that_of_repeated_draws():
    def drawn(seed):
        signals, quality = traces(400, seed=seed)
        return gain_of(stops_at(signals["margin"], (0.7,)), quality)

    gains = [drawn(seed) for seed in range(200)]
    spread = np.std([gain.value for gain in gains])
    assert np.mean([gain.error for gain in gains]) == pytest.approx(spread, rel=0.2)
    assert gains[0].value > CLEARLY * gains[0].error


def gathered(signals, quality):
    given = {name: torch.from_numpy(values) for name, values in signals.items()}
    return Calibration.gather(given, torch.from_numpy(quality), weights_hash="abc", choose=True)


@pytest.mark.parametrize("target", [1.0, 1.25, 3.0, 3.7, 5.999, 6.0])
def test_two_steps_are_the_neighbours_of_the_mean_depth_in_the_right_shares(target):
    signals, _ = traces()
    reached = two_steps(signals["rank"], target)
    depths = stops_at(signals["rank"], reached.thresholds)
    assert set(depths.tolist()) <= {math.floor(target), math.floor(target) + 1}
    assert depths.mean() == pytest.approx(target, abs=0.01)
    assert reached.mean_depth == depths.mean()


def test_at_a_whole_number_of_steps_two_steps_are_one_without_any_gain():
    signals, quality = traces()
    depths = stops_at(signals["margin"], two_steps(signals["margin"], 4.0).thresholds)
    assert (depths == 4).all()
    assert gain_of(depths, quality).value == pytest.approx(0.0)


def test_a_gain_is_quality_above_the_line_as_computed_by_hand():
    quality = np.array([[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    # stopped at steps 2 and 1: both right; the line at 1.5 lies halfway between ½ and 1
    assert gain_of(np.array([2, 1]), quality).value == pytest.approx(1.0 - 0.75)


def test_with_few_inputs_or_one_step_nothing_is_chosen():
    signals, quality = traces(60)
    assert chosen(signals, quality) == ()
    assert chosen({"rank": np.zeros((600, 1), np.float32)}, np.ones((600, 1))) == ()


def test_a_calibration_keeps_the_winners_and_answers_with_them():
    signals, quality = traces(2000)
    given = {name: torch.from_numpy(values) for name, values in signals.items()}
    ours = Calibration.gather(given, torch.from_numpy(quality), weights_hash="abc", choose=True)
    assert ours.rule == "rank"
    form, rule = ours.choice_at(3.6)
    assert form.startswith("margin")
    assert ours.at_mean_depth(3.6) == rule
    assert rule.name == "margin"
    assert ours.mean_depth_of(rule) == pytest.approx(3.6, abs=0.05)
    assert gain_of(ours.depths_of(rule), ours.quality).value > 0.1
    again = Calibration.from_dict(ours.to_dict())
    assert again.choices == ours.choices
    assert again.at_mean_depth(3.6) == rule
    assert ours.at_quantile(0.5).name == "rank"                # the paper's question keeps the paper's score
    assert ours.at_mean_depth(3.6, "rank").name == "rank"
    with pytest.raises(NotCalibrated, match="no traces of 'entropy'"):
        ours.at_mean_depth(3.6, "entropy-per-step")


@pytest.mark.parametrize(("form", "says"), [
    ("residul", "Known: "), ("margin-per-stp", "Did you mean 'margin-per-step'"), ("fixed-per-step", "there is no")])
def test_a_form_that_does_not_exist_is_refused(form, says):
    signals, quality = traces(200)
    with pytest.raises(ValueError, match=says):
        gathered(signals, quality).at_mean_depth(3.0, form)


def test_fixed_depth_rounds_down_to_whole_steps():
    signals, quality = traces(200)
    ours = gathered(signals, quality)
    assert (ours.depths_of(ours.at_mean_depth(3.9, "fixed")) == 3).all()


def test_a_depth_that_the_winner_cannot_reach_lies_between_two_steps():
    steps = torch.arange(1.0, 7.0).repeat(400, 1)                  # a signal in whole steps, and one that says nothing
    coarse = (torch.rand(400, 6) + 0.1 * steps).round()
    ours = Calibration.gather({"rank": coarse + 1e-3 * torch.rand(400, 1)}, (steps > 3).double(), weights_hash="")
    ours = replace(ours, signals={"rank": ours.values.round()}, choices=(Choice(3.0, "rank", 0.1),))
    with pytest.raises(ValueError, match="no threshold of 'rank' gives"):
        ours.at_mean_depth(3.5, "rank")
    ours = replace(ours, signals={"rank": ours.values + np.random.default_rng(0).random((400, 1)).astype(np.float32)})
    form, rule = replace(ours, choices=(Choice(3.5, "rank-two-step", 0.1),)).choice_at(3.5)
    assert (form, rule.name) == ("rank-two-step", "rank")
    assert ours.mean_depth_of(rule) == pytest.approx(3.5, abs=0.01)


def test_a_budget_that_no_threshold_gives_is_a_ceiling():
    """Half of the inputs stop at step 1, the others at the last: what lies between is no better than that for less."""
    needs = np.where(np.arange(600) % 2, 1, 6)
    quality = (np.arange(1, 7) == needs[:, None]).astype(float)
    knows = np.where(needs == 1, 1.0, 0.0)[:, None].repeat(6, axis=1).astype(np.float32)
    choices = Choice(3.5, "margin", 0.5), Choice(5.4, "margin", 0.1)
    ours = replace(gathered({"margin": knows}, quality), choices=choices)
    form, rule = ours.choice_at(5.0)
    assert form == "margin"
    assert ours.mean_depth_of(rule) == 3.5
    assert ours.quality[np.arange(600), ours.depths_of(rule) - 1].all()


def test_signals_that_never_won_are_kept_for_promises_and_merging():
    signals, quality = traces(2000)
    given = {name: torch.from_numpy(values) for name, values in signals.items()}
    given["residual"] = -torch.rand(2000, 6)
    ours = Calibration.gather(given, torch.from_numpy(quality), weights_hash="abc", choose=True)
    assert list(ours.signals) == ["rank", "margin", "residual"]
    merged = ours.merge(ours)
    assert list(merged.signals) == ["rank", "margin", "residual"]
    assert {signal_of(choice.form) for choice in merged.choices} >= {"margin"}


def test_a_damaged_choice_is_refused():
    signals, quality = traces(600)
    ours = Calibration.gather({"rank": torch.from_numpy(signals["rank"])}, torch.from_numpy(quality), weights_hash="")
    import hashlib
    import json
    stored = ours.to_dict()
    plain = {name: value for name, value in stored.items() if name != "sha256"}
    plain["choices"] = [[3.0, "margin", 0.1]]
    forged = hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    with pytest.raises(ValueError, match="has no values of it"):
        Calibration.from_dict({**plain, "sha256": forged})


def test_forms_are_three_for_every_signal_beside_fixed_depth():
    assert forms_of({"rank": None, "margin": None}) == [
        "fixed", "rank", "rank-per-step", "rank-two-step", "margin", "margin-per-step", "margin-two-step"]
