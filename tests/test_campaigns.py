"""The campaigns in short: the same code, fewer cases, and controls that fail."""

import json
import random
from pathlib import Path

import any_input
import batch_invariance
import crashes
import disk
import hostile_files
import mutations
import pages
import pytest
import thresholds

from frost import checkpoint

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_record(monkeypatch):
    """Figures of a short form are not written over those of the campaign."""
    kept = {}
    for module in (any_input, batch_invariance, crashes, hostile_files, mutations, thresholds):
        monkeypatch.setattr(module, "record", kept.__setitem__)
    return kept


@pytest.mark.parametrize("number", range(3))
def test_f02_every_crash_leaves_a_whole_state(number, monkeypatch):
    monkeypatch.setattr(disk, "MOST", 3)
    tried, bad = crashes.crashes(crashes.subjects()[number], random.Random(0))
    assert tried >= 8
    assert bad == 0


def test_f02_the_control_in_place_loses_its_state(monkeypatch):
    monkeypatch.setattr(disk, "MOST", 3)
    assert crashes.crashes(crashes.in_place(), random.Random(0))[1] > 0


@pytest.mark.parametrize("number", range(3))
def test_f05_a_disk_that_fails_harms_nothing_and_is_named(number, monkeypatch):
    monkeypatch.setattr(crashes, "ERRORS", crashes.ERRORS[:1])
    tried, bad = crashes.failing_disk(crashes.subjects()[number])
    assert tried >= 5
    assert bad == 0


def test_f06_every_mutation_is_noticed(no_record):
    assert mutations.mutations(60, 1) == 0
    assert no_record["F06"]["n"] == 60


def test_f07_no_hostile_file_is_executed_or_large(no_record, monkeypatch):
    monkeypatch.setattr(hostile_files, "LIMIT_SECONDS", 60.0)    # a machine may be busy; the campaign has it to itself
    assert hostile_files.hostile(0) == 0
    assert no_record["F07"]["n"] >= 40


def test_f06_a_sound_run_is_not_refused(tmp_path):
    mutations.make_run(tmp_path / "run")
    assert checkpoint.load(tmp_path / "run").calibration is not None


def test_f15_needles_have_the_same_bits_in_any_batch(no_record):
    assert batch_invariance.needles(120, 1, pool=48) == 0


def test_needles_of_every_kind_of_input_have_the_same_bits(no_record):
    assert any_input.needles(24, 1) == 0
    assert no_record["inputs"]["n"] >= 12 * no_record["inputs"]["kinds"]


def test_f16_the_engine_answers_as_the_obvious_loop_does(no_record):
    assert batch_invariance.obvious(24, 1) == 0


def test_f17_every_item_has_one_outcome(no_record):
    assert batch_invariance.lives(60, 1) == 0


def test_f18_who_diverges_fails_alone(no_record):
    assert batch_invariance.overflows(4, 1) == 0


def test_the_page_is_made_from_the_figures():
    figures = json.loads((ROOT / "docs" / "results" / "campaigns.json").read_text())
    assert (ROOT / "docs" / "reliability.md").read_text() == pages.page(figures)


def test_nothing_is_claimed_of_a_campaign_that_failed():
    text = pages.page({"F06": {"n": 10, "failures": 2, "seed": 0, "control": {"x": {"accepted": 1}}}})
    assert "**F06, 2 of 10 FAILED.**" in text
    assert "**F01, not run.**" in text
