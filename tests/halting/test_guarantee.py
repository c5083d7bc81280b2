"""The bound holds on fresh data, and is not bought with needless depth."""

import itertools
import math

import numpy as np
import pytest

from frost.halting.guarantee import (
    _deviation,
    _shares_allowed,
    certified_threshold,
    chance_of_excess,
    per_step_ladder,
    pooled_ladder,
)
from frost.halting.threshold_fit import best_threshold, stops_at


def population(seed: int, count: int, depth: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Images that become right at some step and stay so; the signal grows when they are."""
    generator = np.random.default_rng(seed)
    when = generator.geometric(0.45, count)
    steps = np.arange(1, depth + 1)
    correct = steps >= when[:, None]
    values = (correct * 2.0 + generator.normal(size=(count, depth))).astype(np.float32)
    return values, correct


def loss(values: np.ndarray, correct: np.ndarray, thresholds: tuple[float, ...]) -> float:
    depths = stops_at(values, thresholds)
    return float(correct[:, -1].mean() - correct[np.arange(len(correct)), depths - 1].mean())


def safe(values: np.ndarray, correct: np.ndarray, allowed: float, confidence: float) -> tuple[float, ...]:
    name, thresholds = certified_threshold({"rank": values}, correct, allowed, confidence)
    assert name == "rank"
    return thresholds


def test_ladders_go_from_deep_to_shallow():
    values, correct = population(0, 500)
    for ladder in (pooled_ladder(values), per_step_ladder(values, correct),
                   per_step_ladder(values, correct, best_threshold)):
        depths = [stops_at(values, rule).mean() for rule in ladder]
        assert len(depths) > 10
        assert depths == sorted(depths, reverse=True)


def test_the_rungs_of_a_ladder_are_close():
    values, correct = population(0, 2000)
    depths = [stops_at(values, rule).mean() for rule in per_step_ladder(values, correct)]
    assert depths[0] > 5.5
    assert max(deep - shallow for deep, shallow in itertools.pairwise(depths)) < 0.1


def slowly(lost: int, won: int, images: int, allowed: float) -> float:
    """The same limit by the book, without the doubt: every outcome of every count, and shares won on a fine grid."""
    outcomes = [(up, down) for up in range(images + 1) for down in range(images + 1 - up)]
    seen = _deviation(np.array(lost), np.array(won), images, allowed)
    good = [(up, down) for up, down in outcomes
            if _deviation(np.array(up), np.array(down), images, allowed) >= seen - 1e-9]
    return max(sum(math.comb(images, up) * math.comb(images - up, down) * (share + allowed) ** up * share**down
                   * (1 - 2 * share - allowed) ** (images - up - down) for up, down in good)
               for share in np.linspace(*_shares_allowed(won, images, (1 - allowed) / 2, 1e-3), 400))


@pytest.mark.parametrize(("lost", "won", "images", "allowed"), [
    (0, 0, 30, 0.1), (1, 0, 40, 0.1), (2, 4, 36, 0.05), (7, 2, 40, 0.3)])
def test_the_limit_is_the_largest_chance_over_all_that_is_unknown(lost, won, images, allowed):
    ours, whole = chance_of_excess(lost, won, images, allowed, 1e-3), slowly(lost, won, images, allowed)
    assert 0.01 < whole < 0.99
    assert ours == pytest.approx(whole + 1e-3, rel=2e-3)


def test_the_score_is_that_of_the_likeliest_share():
    lost, won, images, allowed = 30, 20, 400, 0.05
    shares = np.linspace(1e-6, (1 - allowed) / 2 - 1e-6, 200_001)
    likely = (lost * np.log(shares + allowed) + won * np.log(shares)
              + (images - lost - won) * np.log(1 - 2 * shares - allowed))
    share = shares[likely.argmax()]
    expected = (allowed * images - lost + won) / math.sqrt(images * (2 * share + allowed - allowed**2))
    assert float(_deviation(np.array(lost), np.array(won), images, allowed)) == pytest.approx(expected, rel=1e-4)


def test_more_images_lost_is_never_better():
    chances = [chance_of_excess(lost, 20, 1000, 0.02, 1e-3) for lost in range(20, 60, 4)]
    assert chances == sorted(chances)
    assert chances[0] < 0.05


def test_more_lost_than_allowed_proves_nothing():
    assert chance_of_excess(41, 20, 1000, 0.02, 1e-3) == 1.0


@pytest.mark.parametrize(("images", "allowed"), [(60, 0.05), (60, 0.1), (25, 0.2)])
def test_under_the_hypothesis_it_is_wrong_no_more_often_than_promised(images, allowed):
    """Every outcome, with its chance: no luck of a simulation."""
    rejected = [(lost, won) for lost in range(images + 1) for won in range(images + 1 - lost)
                if chance_of_excess(lost, won, images, allowed, 1e-3) <= 0.05]
    assert rejected
    for won_share in (0.001, 0.01, 0.03, 0.08, 0.15, 0.25, 0.35):
        for lost_share in (won_share + allowed, won_share + 1.2 * allowed):
            same = 1 - won_share - lost_share
            wrong = sum(math.comb(images, lost) * math.comb(images - lost, won) * lost_share**lost * won_share**won
                        * same ** (images - lost - won) for lost, won in rejected)
            assert wrong <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("signals", [1, 2])
def test_the_promise_holds_on_fresh_data(signals):
    pool = population(2, 20_000)
    broken, ratios = 0, []
    noise = np.random.default_rng(4).normal(size=pool[0].shape).astype(np.float32)
    given = {"margin": pool[0], "rank": noise} if signals == 2 else {"margin": pool[0]}    # the score may say nothing
    best = min(stops_at(pool[0], rule).mean() for rule in per_step_ladder(*pool) if loss(*pool, rule) <= 0.02)
    generator = np.random.default_rng(3)
    for seed in range(24):
        rows = generator.integers(0, 20_000, 4000)
        drawn = {name: values[rows] for name, values in given.items()}
        name, rule = certified_threshold(drawn, pool[1][rows], 0.02, 0.9, seed)
        broken += loss(given[name], pool[1], rule) > 0.02
        ratios.append(stops_at(given[name], rule).mean() / best)
    assert broken / 24 <= 0.1 + 2 * math.sqrt(0.09 / 24)
    assert np.mean(ratios) <= 1.15


def test_nearly_certain_promises_can_be_made():
    assert safe(*population(0, 4000), 0.3, 0.9999)[0] < math.inf


def test_nearly_all_may_be_lost():
    assert safe(*population(0, 200), 1 - 1e-12, 0.9)[0] < math.inf


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_images_certify_nothing(count):
    assert safe(*population(0, count), 0.01, 0.95) == (math.inf,)


def test_signals_that_are_no_numbers_certify_nothing():
    values, correct = population(0, 300)
    assert safe(np.full_like(values, math.nan), correct, 0.01, 0.95) == (math.inf,)


def test_a_model_of_one_step_stays_as_it_is():
    values, correct = population(0, 300, depth=1)
    assert safe(values, correct, 0.01, 0.95) == (math.inf,)


def test_too_few_images_certify_nothing():
    values, correct = population(4, 12)
    assert safe(values, correct, 0.01, 0.95) == (math.inf,)


@pytest.mark.parametrize(("allowed", "confidence", "sentence"), [
    (0.0, 0.95, "points"), (1.0, 0.95, "points"), (0.01, 1.0, "confidence"), (0.01, 0.0, "confidence")])
def test_a_promise_that_cannot_be_made_is_refused(allowed, confidence, sentence):
    with pytest.raises(ValueError, match=sentence):
        safe(*population(5, 100), allowed, confidence)
