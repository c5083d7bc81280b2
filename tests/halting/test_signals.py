"""Every signal by hand, and along a trajectory as live."""

import math

import pytest
import torch

from frost.halting.score import OutputScore, class_features
from frost.halting.signals import SIGNALS, Reading, along
from frost.halting.stopping import AtDepth, Rule, agreement_oracle, depth_under, first_passage, label_oracle
from frost.rowwise import elementwise_by_row

# one image, three steps, two classes: p = (½, ½), (¾, ¼), (¼, ¾)
OUTPUTS = torch.log(torch.tensor([[[0.5, 0.5], [0.75, 0.25], [0.25, 0.75]]]))
SCORES = torch.tensor([[0.0, math.log(3.0), 0.0]])                                 # σ = ½, ¾, ½
STATES = torch.tensor([[[0.0, 0.0], [3.0, 4.0], [3.0, 16.0]]])


@pytest.mark.parametrize(("name", "expected"), [
    ("rank", [0.0, math.log(3.0), 0.0]),
    ("confidence", [math.log(0.5), math.log(0.75), math.log(0.75)]),
    ("entropy", [-math.log(2), *2 * [0.75 * math.log(0.75) + 0.25 * math.log(0.25)]]),
    ("margin", [0.0, 0.5, 0.5]),
    ("patience", [0.0, 1.0, 0.0]),
    ("residual", [-math.inf, -5.0, -12.0]),
    ("second-order", [-math.inf, -math.inf, -math.hypot(3.0, 8.0)]),
    ("fixed", [1.0, 2.0, 3.0]),
    ("act", [0.5, 1.25, 1.75]),
    ("ponder", [math.log(2), math.log(8), math.log(16)]),
])
def test_a_signal_by_hand(name, expected):
    values = along(SIGNALS[name], OUTPUTS, SCORES, STATES)
    assert values[0].tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("slots", [2, 3, 5, 7, 13, 16, 33, 100])
def test_an_image_has_the_same_bits_in_every_row(name, slots):
    """A vectorised loop rounds the last few elements of a tensor in its own way; no signal may show it."""
    generator = torch.Generator().manual_seed(slots)
    outputs, scores = 4 * torch.randn(slots, 2, 101, generator=generator), torch.randn(slots, 2, generator=generator)
    states = torch.randn(slots, 2, 5, 3, 3, generator=generator)
    expected = along(SIGNALS[name], outputs, scores, states)
    for shift in range(1, slots, max(1, slots // 8)):
        moved = along(SIGNALS[name], outputs.roll(shift, 0), scores.roll(shift, 0), states.roll(shift, 0))
        assert torch.equal(moved.roll(-shift, 0), expected)


def test_the_control_a_plain_elementwise_function_does_depend_on_the_row():
    """Else the test above proves nothing on this machine."""
    numbers = torch.linspace(-9, 9, 331)
    functions = (torch.sigmoid, torch.log1p, torch.nn.functional.softplus, torch.exp)
    plain = [all(torch.equal(function(numbers[:size].abs())[-3:], function(numbers.abs())[:size][-3:])
                 for size in range(8, 300)) for function in functions]
    alone = [all(torch.equal(elementwise_by_row(function, numbers[:size].abs())[-3:],
                             elementwise_by_row(function, numbers.abs())[:size][-3:]) for size in range(8, 300))
             for function in functions]
    assert all(alone)
    if torch.backends.cpu.get_cpu_capability() != "DEFAULT":
        assert not all(plain)


@pytest.mark.parametrize("slots", [2, 3, 5, 13, 16, 33])
def test_a_score_that_sees_the_output_has_the_same_bits_in_every_row(slots):
    torch.manual_seed(slots)
    score = OutputScore(192)
    torch.nn.init.normal_(score.decided.weight)
    pooled, outputs = torch.rand(slots, 192), 4 * torch.randn(slots, 100)
    with torch.no_grad():
        expected = score(pooled, class_features(outputs))
        for shift in range(1, slots):
            moved = score(pooled.roll(shift, 0), class_features(outputs.roll(shift, 0)))
            assert torch.equal(moved.roll(-shift, 0), expected)


def test_ranking_does_not_bend_the_probabilities_that_the_score_looks_at():
    score = OutputScore(3)
    torch.nn.init.ones_(score.decided.weight)
    pooled, outputs = torch.randn(4, 3, requires_grad=True), torch.randn(4, 5, requires_grad=True)
    score(pooled, class_features(outputs)).sum().backward()
    assert outputs.grad is None
    assert pooled.grad is not None


@pytest.mark.parametrize("name", SIGNALS)
def test_images_at_different_steps_may_share_a_batch(name):
    """Live, rows of a batch are at steps of their own; each gets what it would get alone."""
    generator = torch.Generator().manual_seed(0)
    outputs, scores = torch.randn(4, 5, 3, generator=generator), torch.randn(4, 5, generator=generator)
    states = torch.randn(4, 5, 2, 3, 3, generator=generator)
    expected = along(SIGNALS[name], outputs, scores, states)
    signal, starts = SIGNALS[name], [0, 1, 0, 2]              # when each image arrives
    seen = torch.full_like(expected, math.nan)
    memories = [None] * 4
    for tick in range(7):
        rows = [i for i in range(4) if 0 <= tick - starts[i] < 5]
        steps = torch.tensor([tick - starts[i] + 1 for i in rows])
        at = steps - 1
        index = torch.tensor(rows)
        reading = Reading(steps, outputs[index, at], scores[index, at], states[index, at],
                          states[index, (at - 1).clamp_min(0)])
        fresh = signal.start(reading)
        memory = tuple(torch.stack([fresh[k][j] if memories[i] is None else memories[i][k] for j, i in enumerate(rows)])
                       for k in range(len(fresh)))
        values, memory = signal(reading, memory)
        for j, i in enumerate(rows):
            seen[i, at[j]] = values[j]
            memories[i] = tuple(part[j] for part in memory)
    torch.testing.assert_close(seen, expected)


def test_a_probability_near_one_still_differs_from_one():
    outputs = torch.tensor([[[30.0, 0.0], [40.0, 0.0]]])
    first, second = along(SIGNALS["confidence"], outputs, torch.zeros(1, 2))[0].tolist()
    assert first < second < 0


def test_a_certain_answer_has_no_entropy():
    assert along(SIGNALS["entropy"], torch.tensor([[[1e4, 0.0]]]), torch.zeros(1, 1)).item() == 0.0


@pytest.mark.parametrize("name", ["residual", "second-order"])
def test_a_signal_of_states_needs_states(name):
    with pytest.raises(ValueError, match="keep_states=True"):
        along(SIGNALS[name], OUTPUTS, SCORES)


@pytest.mark.parametrize(("name", "threshold", "shown"), [
    ("rank", 0.0, 0.5), ("confidence", math.log(0.9), 0.9), ("entropy", -0.3, 0.3), ("residual", -2.0, 2.0),
    ("ponder", math.log(4), 0.75), ("margin", 0.2, 0.2)])
def test_thresholds_are_shown_in_the_unit_people_know(name, threshold, shown):
    assert Rule(name, (threshold,)).threshold == pytest.approx(shown)


def test_a_rule_with_a_threshold_for_each_step():
    rule = Rule("rank", (1.0, 0.0, -1.0))
    assert rule.stops(torch.tensor([[0.5, 0.5, 0.5], [0.5, -0.5, -0.5]])).tolist() == [
        [False, True, True], [False, False, True]]
    assert rule.stops(torch.tensor([0.5, 0.5]), torch.tensor([1, 2])).tolist() == [False, True]
    assert rule.stops(torch.tensor([-0.5]), torch.tensor([9])).tolist() == [True]     # beyond the last
    assert rule.threshold is None


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="no stopping rule 'luck'"):
        Rule("luck", (0.0,))
    with pytest.raises(ValueError, match="one threshold"):
        Rule("rank", ())
    with pytest.raises(ValueError, match="one threshold"):
        Rule("rank", (math.nan,))


def test_depth_under_a_rule_is_the_first_passage_of_its_signal():
    rule = Rule("margin", (0.4,))
    assert depth_under(rule, OUTPUTS, SCORES).tolist() == [2]
    assert depth_under(AtDepth(3), OUTPUTS, SCORES).tolist() == [3]
    assert depth_under(Rule("residual", (-6.0,)), OUTPUTS, SCORES, STATES).tolist() == [2]


def test_the_agreement_oracle_stops_when_the_class_no_longer_changes():
    classes = torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1]])
    outputs = torch.nn.functional.one_hot(classes, 2).float()
    assert agreement_oracle(outputs).tolist() == [2, 1, 4, 4]


def test_the_label_oracle_stops_at_the_first_right_step():
    classes = torch.tensor([[0, 1, 0], [0, 0, 0]])
    assert label_oracle((classes == 1).double()).tolist() == [2, 3]
    assert label_oracle(torch.tensor([[0.2, 0.7, 0.7], [0.0, 0.0, 0.0]])).tolist() == [2, 3]    # as good as it gets
    assert first_passage(torch.zeros(1, 3, dtype=torch.bool)).tolist() == [3]
