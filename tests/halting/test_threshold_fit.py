"""Thresholds by first passage: exact on the traces, and the best that can be had where each step has its own."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frost.halting.threshold_fit import (
    best_threshold,
    bracket,
    fitted_threshold,
    per_step_at_mean_depth,
    per_step_at_price,
    pooled_at_mean_depth,
    stops_at,
)


def traces(seed: int, count: int = 300, depth: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Signals that grow with the step, and answers that are right more often where they are large."""
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(count, depth)).cumsum(axis=1).astype(np.float32)
    correct = generator.random((count, depth)) < 1 / (1 + np.exp(-values))
    return values, correct


def test_first_passage_by_hand():
    values = np.array([[0.0, 2.0, 9.0], [5.0, 0.0, 0.0], [0.0, 0.0, 0.0]], dtype=np.float32)
    assert stops_at(values, (1.0,)).tolist() == [2, 1, 3]
    assert stops_at(values, (9.0, -1.0, 0.0)).tolist() == [2, 2, 2]
    assert stops_at(values, (math.inf,)).tolist() == [3, 3, 3]


@given(st.integers(0, 1000), st.floats(1, 6))
def test_a_mean_depth_is_reached_to_one_image_and_step(seed, target):
    values, _ = traces(seed)
    reached = pooled_at_mean_depth(values, target)
    assert reached.mean_depth == pytest.approx(target, abs=2.51 / len(values) + 1e-9)    # ties within a trace
    assert reached.mean_depth == stops_at(values, reached.thresholds).mean()


@given(st.integers(0, 200), st.floats(1, 6))
def test_a_bracket_holds_the_target(seed, target):
    values = np.round(traces(seed)[0])               # many equal values
    shallow, deep = bracket(values, target)
    assert shallow.mean_depth <= target + 1e-9
    assert deep.mean_depth >= target - 1e-9


def test_the_pooled_quantile_is_not_the_share_that_stops():
    """The reason for this file: half of all scores above the threshold does not mean half of the depth."""
    values, _ = traces(0)
    depth = stops_at(values, (float(np.quantile(values, 0.5)),)).mean()
    assert abs(depth - (1 + 5 * 0.5)) > 0.2


def test_the_best_thresholds_lie_between_one_threshold_and_the_best_of_all():
    values, correct = traces(1, count=24, depth=3)
    price = 0.05
    worth = correct - price * np.arange(1, 4)

    def value(thresholds: tuple[float, ...]) -> float:
        return worth[np.arange(24), stops_at(values, thresholds) - 1].sum()

    places = [[-math.inf, *np.sort(values[:, step]).tolist()] for step in range(2)]
    best = max(value((first, second, 0.0)) for first, second in itertools.product(*places))
    found = per_step_at_price(values, correct, price, best_threshold)
    ours = value(found.thresholds)
    assert ours <= best + 1e-9
    assert ours >= value(pooled_at_mean_depth(values, found.mean_depth).thresholds)


def test_a_straight_line_is_cut_where_it_crosses_zero():
    values = np.linspace(-1, 1, 201).astype(np.float32)
    worth = 2.0 * values.astype(float) - 0.5
    assert fitted_threshold(values, worth) == pytest.approx(0.25, abs=1e-6)
    assert fitted_threshold(values, worth + 5) == -math.inf            # stopping is worth it for all
    assert fitted_threshold(values, worth - 5) == math.inf             # and here for none
    assert fitted_threshold(values, -worth) == -math.inf               # the high ones lose, all together gain
    assert fitted_threshold(values, -worth - 5) == math.inf
    assert fitted_threshold(values[:0], worth[:0]) == math.inf
    assert fitted_threshold(np.full(3, math.nan, np.float32), np.ones(3)) == math.inf
    assert fitted_threshold(np.ones(3, np.float32), np.array([1.0, 1.0, -1.0])) == -math.inf


def test_a_straight_line_does_better_on_fresh_images():
    """Thresholds from 200 images, worth on 20,000: what `best_threshold` gains on its own is partly their noise."""
    fresh_values, fresh_correct = traces(100, count=20_000)
    worth = fresh_correct - 0.03 * np.arange(1, 7)
    means = {fit: np.mean([worth[np.arange(20_000), stops_at(fresh_values, per_step_at_price(
        *traces(seed, count=200), 0.03, fit).thresholds) - 1].mean() for seed in range(20)])
        for fit in (best_threshold, fitted_threshold)}
    assert means[fitted_threshold] > means[best_threshold]


def test_a_threshold_for_each_step_is_no_worse_than_one_for_all():
    values, correct = traces(2, count=4000)
    values[:, 1] += 3.0                               # a step whose scores mean less than they say
    for target in (2.0, 3.0, 4.5):
        accuracies = []
        for reached in (per_step_at_mean_depth(values, correct, target), pooled_at_mean_depth(values, target)):
            assert reached.mean_depth == pytest.approx(target, abs=0.03)
            accuracies.append(correct[np.arange(4000), stops_at(values, reached.thresholds) - 1].mean())
        assert accuracies[0] >= accuracies[1]


def test_prices_that_are_known_change_no_threshold():
    values, correct = traces(5)
    known = {}
    for target in (2.0, 3.3, 4.5):
        shared = per_step_at_mean_depth(values, correct, target, known=known)
        assert shared == per_step_at_mean_depth(values, correct, target)
    assert 20 < len(known) < 60                       # of 3 × 20 prices


def test_the_ends_of_the_range():
    values, correct = traces(3)
    assert pooled_at_mean_depth(values, 1.0).mean_depth == 1.0
    assert pooled_at_mean_depth(values, 6.0).mean_depth == 6.0
    assert per_step_at_mean_depth(values, correct, 6.0).mean_depth == pytest.approx(6.0, abs=0.05)


@pytest.mark.parametrize("target", [0.5, 7.0, math.nan])
def test_a_depth_that_cannot_be_is_refused(target):
    values, correct = traces(4)
    for function in (lambda: pooled_at_mean_depth(values, target),
                     lambda: per_step_at_mean_depth(values, correct, target)):
        with pytest.raises(ValueError, match="between 1 and 6"):
            function()
