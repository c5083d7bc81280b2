"""What a card says of a run's quality: crossed figures beside the fixed-depth line, from the calibration alone."""

import numpy as np
import pytest
import torch

from frost.checkpoint import load
from frost.evaluation.model_card import adaptive_rows, fixed_rows
from frost.halting.calibration import Calibration
from frost.halting.rule_choice import FIXED


@pytest.fixture(scope="module")
def addition():
    return load("addition").calibration


def test_fixed_rows_are_the_mean_quality_after_each_step(addition):
    rows = fixed_rows(addition)
    assert [row.mean_depth for row in rows] == list(range(1, addition.depth + 1))
    np.testing.assert_allclose([row.quality for row in rows], addition.quality.mean(axis=0))
    assert rows[3].flops == addition.cost.at(4)


def test_adaptive_rows_are_the_budgets_at_which_rules_were_compared(addition):
    rows = adaptive_rows(addition)
    assert [(row.budget, row.form) for row in rows] == [(choice.mean_depth, choice.form) for choice in
                                                        addition.choices]
    assert all(abs(row.mean_depth - row.budget) < 0.1 for row in rows)


def test_gains_are_those_of_inputs_that_the_thresholds_had_not_seen(addition):
    for row, choice in zip(adaptive_rows(addition), addition.choices, strict=True):
        assert row.quality - row.fixed_depth == pytest.approx(choice.gain, abs=0.01)


def test_where_fixed_depth_won_the_row_lies_on_its_line():
    rows = [row for row in adaptive_rows(load("digits").calibration) if row.form == FIXED]
    assert rows
    assert all(row.quality == pytest.approx(row.fixed_depth) for row in rows)


def test_too_few_inputs_give_no_adaptive_row():
    few = Calibration.gather({"confidence": torch.rand(20, 4)}, torch.ones(20, 4), weights_hash="x", choose=True)
    assert adaptive_rows(few) == []
    assert len(fixed_rows(few)) == 4


def test_without_right_answers_nothing_is_claimed():
    unknown = Calibration.gather({"confidence": torch.rand(200, 4)}, weights_hash="x", choose=True)
    assert (adaptive_rows(unknown), fixed_rows(unknown)) == ([], [])
