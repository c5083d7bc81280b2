"""Quality against cost: the points, and what is needed for nearly full quality."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from frost.evaluation.frontier import POINTS, Point, frontier, needed
from frost.evaluation.traces import Traces
from frost.halting.calibration import Calibration
from frost.halting.cost import Cost
from frost.halting.rule_choice import Choice

COST = Cost(once=100, first=0, step=50)


def measured(count=1200, depth=6, seed=0):
    random = np.random.default_rng(seed)
    needs = random.integers(1, depth + 1, count)
    steps = np.arange(1, depth + 1)
    knows = steps - needs[:, None] + 0.3 * random.standard_normal((count, depth))
    quality = torch.from_numpy((steps >= needs[:, None]).astype(float))
    return Traces(quality, {"margin": torch.from_numpy(1 / (1 + np.exp(-knows))).float()},
                  torch.from_numpy(needs))


def test_a_frontier_has_a_point_a_step_and_a_point_a_budget():
    held_out, test = measured(seed=0), measured(seed=1)
    ours = Calibration.gather(held_out.signals, held_out.quality, weights_hash="", cost=COST, choose=True)
    points = frontier("mine", test, ours, COST)
    fixed, adaptive = ([point for point in points if point.kind == kind] for kind in ("fixed", "adaptive"))
    assert [point.mean_depth for point in fixed] == [1, 2, 3, 4, 5, 6]
    assert [point.quality for point in fixed] == pytest.approx(test.quality.mean(dim=0).tolist())
    assert [point.flops for point in fixed] == [100, 150, 200, 250, 300, 350]
    assert len(adaptive) == POINTS >= 8
    for point in adaptive:
        assert point.low <= point.quality <= point.high
        assert point.flops == pytest.approx(100 + 50 * (point.mean_depth - 1))
        line = np.interp(point.mean_depth, range(1, 7), [one.quality for one in fixed])
        assert point.quality >= line - 0.03
    found = needed(points, 0.01)
    assert found.depth_ratio > 1.3
    assert found.flops_ratio == pytest.approx(found.fixed_flops / found.adaptive_flops)


def test_without_a_calibration_there_is_the_fixed_line_only():
    points = frontier("mine", measured(), None, None)
    assert {point.kind for point in points} == {"fixed"}
    assert points[0].flops is None
    assert needed(points, 0.01) is None


def test_what_is_needed_as_computed_by_hand():
    def point(kind, depth, quality):
        return Point("mine", kind, "", depth, 100 + 50 * (depth - 1), quality, 0.0, 1.0)

    points = [point("fixed", 1, 0.5), point("fixed", 2, 0.7), point("fixed", 3, 0.9), point("fixed", 4, 0.9),
              point("adaptive", 1, 0.5), point("adaptive", 2, 0.85), point("adaptive", 4, 0.9)]
    found = needed(points, 0.1)                                # 0.8: halfway between steps 2 and 3
    assert found.quality == pytest.approx(0.8)
    assert found.fixed_depth == pytest.approx(2.5)
    assert found.adaptive_depth == pytest.approx(1 + 0.3 / 0.35)
    assert found.fixed_flops == pytest.approx(175)
    assert found.adaptive_flops == pytest.approx(100 + 50 * 0.3 / 0.35)


def test_an_adaptive_point_whose_form_is_fixed_is_measured_and_not_read_off_the_line():
    held_out = measured(seed=0)
    ours = Calibration.gather(held_out.signals, held_out.quality, weights_hash="", cost=COST)
    ours = replace(ours, choices=(Choice(1.5, "fixed", 0.0),))
    points = frontier("mine", held_out, ours, COST)
    quality = held_out.quality.numpy()
    for point in (point for point in points if point.kind == "adaptive" and 1.2 < point.mean_depth < 5.8):
        depths = ours.depths_of(ours.at_mean_depth(point.mean_depth, "fixed"))
        assert point.quality == pytest.approx(quality[np.arange(len(quality)), depths - 1].mean(), abs=0.002)
