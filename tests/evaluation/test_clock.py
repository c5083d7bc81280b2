"""The frontier by the clock: what is timed, and which round counts."""

import numpy as np
import pytest
import torch

from frost.evaluation import clock
from frost.evaluation.clock import clock_frontier, text
from frost.halting.calibration import Calibration

DEPTH = 4


@pytest.fixture
def calibration():
    random = np.random.default_rng(0)
    needs = random.integers(1, DEPTH + 1, 600)
    quality = torch.from_numpy((np.arange(1, DEPTH + 1) >= needs[:, None]).astype(float))
    values = torch.arange(1.0, DEPTH + 1) - torch.from_numpy(needs)[:, None] + 0.1 * torch.rand(600, DEPTH)
    return Calibration.gather({"rank": values}, quality, weights_hash="", choose=True)


def test_each_budget_is_timed_at_its_own_depths_and_the_best_round_counts(calibration, monkeypatch):
    asked, rates = [], iter(range(100, 1000))
    monkeypatch.setattr(clock, "at_full_depth", lambda model, backend, precision, step: step)
    monkeypatch.setattr(clock, "full_rate", lambda step, images, lasts: 1000.0 / step)

    def timed(depths):
        asked.append(depths.mean())
        return float(next(rates))

    points = clock_frontier(None, calibration, None, "float32", 3, 400, 0, timed)
    adaptive = [point for point in points if point.kind == "adaptive"]
    assert [point.mean_depth for point in adaptive] == pytest.approx(asked[:len(adaptive)], abs=0.02)
    last_round = asked[-len(adaptive):]
    assert [point.images_per_second for point in adaptive] == [
        float(99 + len(asked) - len(last_round) + place) for place in range(1, len(adaptive) + 1)]
    fixed = [point for point in points if point.kind == "fixed"]
    assert [(point.mean_depth, point.images_per_second) for point in fixed] == [
        (step, 1000.0 / step) for step in range(1, DEPTH + 1)]
    assert [point.quality for point in fixed] == calibration.quality.mean(axis=0).tolist()
    words = text(points, 64)
    assert "batch 64" in words
    assert words.count("adaptive") == len(adaptive)


def test_without_right_answers_there_is_nothing_to_show(calibration):
    unknown = Calibration.gather(torch.rand(100, DEPTH), weights_hash="")
    assert clock_frontier(None, unknown, None, "float32", 1, 10, 0, lambda depths: 1.0) == []
