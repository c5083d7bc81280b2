"""Verdicts follow from their rules, also where the measurement does not decide."""

import pytest

from frost.analysis.claims.scaling import _falls_first, _inverse
from frost.analysis.claims.stated import CLAIMS, NUMBERS
from frost.analysis.claims.training import _alone_stands
from frost.analysis.claims.verdict import above, below, close_to, every, seeds_differ_by, untested, verdict_of
from frost.analysis.intervals import Measured
from frost.workflows.kit.plan import SECTIONS

GOOD = {"is_finite": True, "per_step_accuracy": [0.2, 0.6], "classes": 10}
LOW = {**GOOD, "per_step_accuracy": [0.2, 0.45]}
LOST = {"is_finite": False}


@pytest.mark.parametrize(("checks", "verdict"), [
    ({"a": True, "b": True}, "holds"), ({"a": True, "b": False}, "holds in part"),
    ({"a": True, "b": None}, "holds in part"), ({"a": False, "b": None}, "does not hold here"),
    ({"a": False}, "does not hold here"), ({"a": None}, "cannot be tested at this scale"),
    ({}, "cannot be tested at this scale")])
def test_a_verdict_follows_from_its_parts(checks, verdict):
    assert verdict_of(checks, GOOD) == verdict
    assert verdict_of(checks, GOOD, LOW) == "cannot be tested at this scale"
    assert verdict_of(checks, LOST) == "cannot be tested at this scale"


def test_an_interval_on_both_sides_of_a_limit_decides_nothing():
    gap = Measured(0.1, -0.1, 0.3, 50)
    assert above(gap) is None
    assert below(gap) is None
    assert above(gap, -0.2) is True
    assert above(gap, 0.4) is False
    assert below(gap, 0.4) is True
    assert below(gap, -0.2) is False


def test_a_small_loss_is_close_in_proportion_to_the_accuracy():
    gap = Measured(-0.01, -0.015, -0.005, 10_000)
    assert close_to(gap, 0.6) is True
    assert close_to(gap, 0.1) is False
    assert close_to(gap, 0.3) is None


def test_every_part_must_be_met():
    assert every([True, True]) is True
    assert every([True, None]) is None
    assert every([None, False]) is False


def test_what_seeds_differ_by_is_unknown_for_one():
    assert seeds_differ_by([0.4]) is None
    assert seeds_differ_by([0.0, 1.0]) == pytest.approx(1.96, abs=0.001)    # √2 · 1.96 · √½


def test_a_dip_comes_first_and_is_recovered_from():
    share = [0.1 * t for t in range(1, 11)]
    dips = {"share": share, "scale": [0.5, 0.47, 0.44, 0.46, 0.5, 0.52, 0.55, 0.56, 0.57, 0.58]}
    rises = {"share": share, "scale": [0.5, 0.53, 0.55, 0.5, 0.45, 0.44, 0.43, 0.42, 0.43, 0.44]}
    sinks = {"share": share, "scale": [0.5 - 0.01 * t for t in range(10)]}
    assert [_falls_first(book, 0.5) for book in (dips, rises, sinks)] == [True, False, False]


def test_an_order_over_hurst_must_exceed_what_seeds_differ_by():
    assert _inverse({"0.2": 0.9, "0.8": 0.5, "1": 0.4}, [0.5, 0.51]) is True
    assert _inverse({"0.2": 0.4, "0.8": 0.5, "1": 0.9}, [0.5, 0.51]) is False
    assert _inverse({"0.2": 0.41, "0.8": 0.5, "1": 0.4}, [0.5, 0.6]) is None
    assert _inverse({"0.2": 0.9, "0.8": 0.5, "1": 0.4}, [0.5]) is None


def test_every_section_states_its_claim_and_its_numbers():
    assert set(CLAIMS) == set(NUMBERS) == set(SECTIONS)
    lost = untested("halting", "Not finite: ours.", [0])
    assert lost.verdict == "cannot be tested at this scale"
    assert lost.paper["rows"][3]["accuracy"] == 0.5772


@pytest.mark.parametrize(("vanilla", "frost", "stands"), [(1.0, 0.0, True), (0.0, 0.0, None), (0.0, 0.2, False),
                                                          (1.0, 0.2, False)])
def test_to_stand_where_nobody_falls_proves_nothing(vanilla, frost, stands):
    assert _alone_stands({"vanilla": vanilla, "recurrent": 0.0, "basic-ssm": 0.0, "frost": frost}) is stands
