"""The bound holds on fresh data, and is not bought with needless depth."""

import math

import numpy as np
import pytest

from frost.halting.budget import stops_at
from frost.halting.guarantee import cheapest_safe, final_capital, per_step_ladder, pooled_ladder


def population(seed: int, count: int, depth: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Images that become right at some step and stay so; the signal grows when they are."""
    generator = np.random.default_rng(seed)
    when = generator.geometric(0.45, count)
    steps = np.arange(1, depth + 1)
    hits = steps >= when[:, None]
    values = (hits * 2.0 + generator.normal(size=(count, depth))).astype(np.float32)
    return values, hits


def loss(values: np.ndarray, hits: np.ndarray, thresholds: tuple[float, ...]) -> float:
    depths = stops_at(values, thresholds)
    return float(hits[:, -1].mean() - hits[np.arange(len(hits)), depths - 1].mean())


def test_ladders_go_from_deep_to_shallow():
    values, hits = population(0, 500)
    for ladder in (pooled_ladder(values), per_step_ladder(values, hits)):
        depths = [stops_at(values, rule).mean() for rule in ladder]
        assert len(depths) > 10
        assert depths == sorted(depths, reverse=True)


def test_a_gambler_gets_rich_only_against_a_wrong_hypothesis():
    generator = np.random.default_rng(0)
    small = (generator.random((2000, 1)) < 0.001).astype(float)
    large = (generator.random((2000, 1)) < 0.05).astype(float)
    assert final_capital(small, 0.01)[0] > math.log(20)
    assert final_capital(large, 0.01)[0] < math.log(20)


def test_at_the_border_a_gambler_is_wrong_no_more_often_than_promised():
    generator = np.random.default_rng(1)
    losses = (generator.random((1000, 400)) < 0.02).astype(float)        # a mean loss of exactly what is allowed
    wrong = (final_capital(losses, 0.02) >= math.log(20)).mean()
    assert wrong <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 400)


@pytest.mark.slow
@pytest.mark.parametrize("per_step", [False, True])
def test_the_promise_holds_on_fresh_data(per_step):
    pool = population(2, 20_000)
    broken, ratios = 0, []
    ladder = per_step_ladder(*pool) if per_step else pooled_ladder(pool[0])
    best = min(stops_at(pool[0], rule).mean() for rule in ladder if loss(*pool, rule) <= 0.02)
    generator = np.random.default_rng(3)
    for seed in range(24):
        rows = generator.choice(20_000, 4000, replace=False)
        rule = cheapest_safe(pool[0][rows], pool[1][rows], 0.02, 0.9, seed, per_step)
        broken += loss(*pool, rule) > 0.02
        ratios.append(stops_at(pool[0], rule).mean() / best)
    assert broken / 24 <= 0.1 + 2 * math.sqrt(0.09 / 24)
    assert np.mean(ratios) <= 1.15


def test_too_few_images_certify_nothing():
    values, hits = population(4, 12)
    assert cheapest_safe(values, hits, 0.01, 0.95) == (math.inf,)
    assert cheapest_safe(values, hits, 0.01, 0.95, per_step=True)[0] == math.inf


@pytest.mark.parametrize(("allowed", "confidence", "sentence"), [
    (0.0, 0.95, "points"), (1.0, 0.95, "points"), (0.01, 1.0, "confidence"), (0.01, 0.0, "confidence")])
def test_a_promise_that_cannot_be_made_is_refused(allowed, confidence, sentence):
    with pytest.raises(ValueError, match=sentence):
        cheapest_safe(*population(5, 100), allowed, confidence)
