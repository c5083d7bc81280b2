"""Verdicts follow from their criterion, and a section is one file."""

import grimp
import pytest

from frost.paper import sections as room
from frost.paper.section import chosen_sections, sections, units_of, verdict_of
from frost.paper.sizes import size_of

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


def test_the_report_begins_in_the_order_of_the_paper():
    assert list(sections())[:4] == ["consistency", "dimension", "lambda", "halting"]


@pytest.mark.parametrize("name", sections())
def test_every_section_states_its_claim_and_the_papers_numbers(name):
    section = sections()[name]
    assert section.claim.endswith(".")
    assert section.paper
    assert section.title
    assert section.units(size_of("smoke"))


def test_a_section_whose_training_diverged_keeps_the_papers_numbers():
    lost = sections()["halting"].judged({"ours": {"is_finite": False, "seed": 0}, "frost-mean-s0": {**GOOD, "seed": 0}})
    assert lost.verdict == "cannot be tested at this scale"
    assert lost.finding == "Not finite: ours."
    assert lost.paper["rows"][3]["accuracy"] == 0.5772
    assert lost.checks == {}


NEW = """
from frost.paper.section import Finding, Section
from frost.paper.units import base

SECTION = Section(name="new", title="New", claim="It is new.", paper={}, units=lambda size: [base(size)],
                  judge=lambda units: Finding({}, {"it is": True}, "It is.", [], [0]), draw=print)
"""


def test_a_new_section_is_one_new_file(tmp_path, monkeypatch):
    (tmp_path / "brand_new.py").write_text(NEW)
    monkeypatch.setattr(room, "__path__", [*room.__path__, str(tmp_path)])
    before = list(sections())
    sections.cache_clear()
    try:
        assert set(sections()) == {*before, "new"}
        assert [section.name for section in chosen_sections(["new"])] == ["new"]
        assert [unit.name for unit in units_of(chosen_sections(["new"]), size_of("smoke"))] == ["frost-mean-s0"]
        assert sections()["new"].judged({"frost-mean-s0": GOOD}).verdict == "holds"
    finally:
        sections.cache_clear()


def test_no_section_knows_another():
    graph = grimp.build_graph("frost")
    files = {section.judge.__module__ for section in sections().values()}
    assert len(files) == len(sections())
    chains = [graph.find_shortest_chain(one, other) for one in files for other in files if one != other]
    assert [chain for chain in chains if chain] == []


@pytest.mark.parametrize("name", ["smoke", "cpu", "paper"])
def test_units_that_most_sections_need_come_first(name):
    size = size_of(name)
    every = [unit.name for section in sections().values() for unit in section.units(size)]
    counts = [every.count(unit.name) for unit in units_of(sections().values(), size)]
    assert counts == sorted(counts, reverse=True)
    assert len(counts) == len(set(every))
