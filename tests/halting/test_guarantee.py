"""The bound holds on fresh data, and is not bought with needless depth."""

import math

import numpy as np
import pytest

from frost.halting.budget import stops_at
from frost.halting.guarantee import final_capital, losses_at, lowest_safe_threshold


def population(seed: int, count: int, depth: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Images that become right at some step and stay so; the signal grows when they are."""
    generator = np.random.default_rng(seed)
    when = generator.geometric(0.45, count)
    steps = np.arange(1, depth + 1)
    hits = steps >= when[:, None]
    values = (hits * 2.0 + generator.normal(size=(count, depth))).astype(np.float32)
    return values, hits


def loss(values: np.ndarray, hits: np.ndarray, threshold: float) -> float:
    depths = stops_at(values, (threshold,))
    return float(hits[:, -1].mean() - hits[np.arange(len(hits)), depths - 1].mean())


def test_losses_by_hand():
    values = np.array([[0.0, 2.0, 9.0], [5.0, 0.0, 0.0]], dtype=np.float32)
    hits = np.array([[False, False, True], [True, False, False]])
    assert losses_at(values, hits, np.array([1.0, 6.0])).tolist() == [[1.0, 0.0], [-1.0, 0.0]]


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
def test_the_promise_holds_on_fresh_data():
    pool = population(2, 40_000)
    broken, ratios = 0, []
    grid = np.quantile(pool[0], np.linspace(0, 1, 400))
    safe = [threshold for threshold in grid if loss(*pool, threshold) <= 0.02]
    best = min(stops_at(pool[0], (threshold,)).mean() for threshold in safe)
    generator = np.random.default_rng(3)
    for seed in range(60):
        rows = generator.choice(40_000, 4000, replace=False)
        threshold = lowest_safe_threshold(pool[0][rows], pool[1][rows], 0.02, 0.9, seed)
        broken += loss(*pool, threshold) > 0.02
        ratios.append(stops_at(pool[0], (threshold,)).mean() / best)
    assert broken / 60 <= 0.1 + 2 * math.sqrt(0.09 / 60)
    assert np.mean(ratios) <= 1.15


def test_too_few_images_certify_nothing():
    values, hits = population(4, 12)
    assert lowest_safe_threshold(values, hits, 0.01, 0.95) == math.inf


@pytest.mark.parametrize(("allowed", "confidence", "sentence"), [
    (0.0, 0.95, "points"), (1.0, 0.95, "points"), (0.01, 1.0, "confidence"), (0.01, 0.0, "confidence")])
def test_a_promise_that_cannot_be_made_is_refused(allowed, confidence, sentence):
    with pytest.raises(ValueError, match=sentence):
        lowest_safe_threshold(*population(5, 100), allowed, confidence)
