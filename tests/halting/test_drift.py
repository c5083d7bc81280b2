import numpy as np
import pytest
import torch

from frost.halting.calibration import Calibration
from frost.halting.drift import Watch
from frost.halting.stopping import Rule
from frost.halting.threshold_fit import stops_at

RULE = Rule("rank", (1.0,))


def scores(seed: int, count: int, shift: float = 0.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 4, generator=generator) + shift


def watched(live: torch.Tensor, alarm: float = 0.01) -> Watch:
    """Shows each image until it stops, as an engine does."""
    watch = Watch(Calibration.gather(scores(0, 3000), weights_hash=""), RULE, alarm)
    values = live.numpy()
    depths = stops_at(values, RULE.thresholds)
    for step in range(1, 5):
        rows = depths >= step
        watch.see(np.full(rows.sum(), step), values[rows, step - 1])
    return watch


def test_images_of_the_same_kind_raise_no_alarm():
    assert sum(watched(scores(seed, 2000)).has_drifted for seed in range(1, 41)) <= 2


def test_other_images_raise_one():
    assert watched(scores(1, 2000, shift=0.3)).has_drifted


def test_a_change_that_only_shows_later_is_seen_too():
    live = scores(1, 2000)
    live[:, 2] -= 0.6
    lines = {line.step: line for line in watched(live).drifts()}
    assert lines[1].distance < lines[1].limit
    assert lines[3].distance > lines[3].limit


def test_scores_of_images_that_have_stopped_are_not_missed():
    """Later scores are those of the images that are left; compared with those of all they would look like a drift."""
    line = watched(scores(1, 2000)).drifts()[3]
    assert line.then < 3000
    assert line.distance < line.limit


def test_nothing_seen_is_no_drift():
    watch = Watch(Calibration.gather(scores(0, 100), weights_hash=""), RULE)
    assert watch.drifts() == []
    assert not watch.has_drifted


def test_another_rule_cannot_be_watched():
    with pytest.raises(ValueError, match="cannot be watched"):
        Watch(Calibration.gather(scores(0, 100), weights_hash=""), Rule("margin", (0.5,)))
