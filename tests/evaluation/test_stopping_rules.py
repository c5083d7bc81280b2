import numpy as np
import pytest
import torch

from frost.evaluation.ceiling import ceiling_signal
from frost.evaluation.stopping_rules import area, compare, depths_of, judge, oracles, paired_difference
from frost.evaluation.traces import Traces, trace
from frost.halting.signals import SIGNALS
from frost.zoo.registry import SIZES, build


def made(seed: int, count: int = 2000, depth: int = 6) -> Traces:
    """Images that become right at a step of their own; the score knows it, the margin half, and patience nothing."""
    generator = np.random.default_rng(seed)
    when = generator.integers(1, depth + 3, count)
    right = np.arange(1, depth + 1) >= when[:, None]
    classes = torch.from_numpy(np.where(right, 1, 0))
    noise = generator.normal(size=(2, count, depth))
    signals = {"rank": right + 0.1 * noise[0], "margin": right + 1.5 * noise[1],
               "patience": np.broadcast_to(np.arange(depth), (count, depth)).copy(),
               "fixed": np.broadcast_to(np.arange(1.0, depth + 1), (count, depth)).copy(),
               "entropy": noise[0], "residual": noise[1]}
    return Traces.of(torch.nn.functional.one_hot(classes, 2).float(), torch.ones(count, dtype=torch.long),
                     {name: torch.from_numpy(values).float() for name, values in signals.items()})


HELD_OUT, MEASURED = made(0), made(1)


@pytest.mark.parametrize("policy", ["rank", "rank-per-step", "margin", "patience", "fixed"])
@pytest.mark.parametrize("fraction", [0.35, 0.5, 0.75])
def test_mean_depths_are_matched(policy, fraction):
    depths = depths_of(policy, HELD_OUT, MEASURED, fraction * 6)
    assert depths.mean() == pytest.approx(fraction * 6, abs=0.15)


def test_a_score_that_knows_gains_and_one_that_does_not_does_not():
    names = ["rank", "patience", "fixed"]
    rows = {(row.policy, row.fraction): row for row in compare(names, HELD_OUT, MEASURED, [0.5])}
    assert rows["rank", 0.5].gain.low > 0
    assert rows["patience", 0.5].gain.low < 0.01
    assert rows["fixed", 0.5].gain == (0.0, 0.0, 0.0)
    line = np.interp(3.0, np.arange(1, 7), MEASURED.quality.numpy().mean(axis=0))
    assert rows["fixed", 0.5].accuracy.value == pytest.approx(line, abs=0.01)


def test_gain_is_accuracy_less_the_line_by_hand():
    depths = np.full(2000, 3)
    depths[:1000] = 2
    row = judge("rank", 0.4, depths, MEASURED)
    hits = MEASURED.quality.numpy()
    accuracy = (hits[:1000, 1].sum() + hits[1000:, 2].sum()) / 2000
    line = (hits[:, 1].mean() + hits[:, 2].mean()) / 2
    assert row.accuracy.value == pytest.approx(accuracy)
    assert row.gain.value == pytest.approx(accuracy - line)
    assert row.accuracy.low < accuracy < row.accuracy.high


def test_an_interval_has_the_width_of_its_standard_error():
    row = judge("rank", 0.5, np.full(2000, 3), MEASURED)
    share = row.accuracy.value
    expected = 2 * 1.96 * np.sqrt(share * (1 - share) / 2000)
    assert row.accuracy.high - row.accuracy.low == pytest.approx(expected, rel=0.1)


def test_the_same_depths_differ_by_nothing():
    depths = depths_of("rank", HELD_OUT, MEASURED, 3.0)
    assert paired_difference(depths, depths, MEASURED) == (0.0, 0.0, 0.0)
    better = paired_difference(depths, depths_of("margin", HELD_OUT, MEASURED, 3.0), MEASURED)
    assert better.low > 0


def test_the_area_orders_the_rules():
    areas = {policy: area(policy, HELD_OUT, MEASURED) for policy in ("rank", "margin", "fixed")}
    assert areas["rank"] > areas["margin"] > areas["fixed"]


def test_oracles_by_hand():
    ours = oracles(MEASURED)
    when = (MEASURED.quality.numpy() == 0).sum(axis=1) + 1
    assert ours.label_depth == pytest.approx(np.minimum(when, 6).mean())
    assert ours.label_accuracy == ours.agreement_accuracy == pytest.approx((when <= 6).mean())
    assert ours.agreement_depth == pytest.approx(np.where(when > 6, 1, when).mean())


def test_the_ceiling_sees_what_is_left_to_win():
    signal = ceiling_signal(MEASURED)
    left = MEASURED.quality[:, -1:] - MEASURED.quality
    won = signal[:, :-1][left[:, :-1] > 0].mean()
    assert won < signal[:, :-1][left[:, :-1] == 0].mean()
    traces = MEASURED._replace(signals={**MEASURED.signals, "ceiling": signal})
    depths = depths_of("ceiling", traces, traces, 3.0)
    assert judge("ceiling", 0.5, depths, traces).gain.low > 0


def test_traces_are_those_of_whole_trajectories():
    model = build(SIZES["resnet-8px"], seed=0).eval()
    images, labels = torch.rand(10, 1, 8, 8), torch.arange(10)
    with torch.no_grad():
        trajectory = model(images)
    names = ["rank", "residual", "patience"]
    ours = trace(model, zip(images.split(4), labels.split(4), strict=True), names)
    assert set(ours.signals) == set(names)
    from frost.halting.signals import along
    for name in names:
        expected = along(SIGNALS[name], trajectory.outputs, trajectory.score_logits, trajectory.states)
        torch.testing.assert_close(ours.signals[name], expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(ours.quality > 0, trajectory.outputs.argmax(-1) == labels[:, None])
    assert ours.is_finite
