"""Numbers in the documents are those that the committed results hold."""

import importlib.util
import json
from pathlib import Path

import pytest

from frost.checkpoint import load
from frost.evaluation.complexity import measure
from frost.workflows.kit.plan import SECTIONS

ROOT = Path(__file__).parent.parent


def script(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RULES = script("update_rules")
RESULTS = json.loads((ROOT / "docs" / "results" / "update-rules.json").read_text())["cases"]
DECISIONS = "\n".join(page.read_text() for page in sorted((ROOT / "docs" / "decisions").glob("*.md")))
PROSE = " ".join(DECISIONS.split())


@pytest.mark.parametrize("make", [RULES.rule_table, RULES.training_table])
def test_the_tables_are_made_from_the_results(make):
    assert make(RESULTS) in DECISIONS


def test_what_we_claim_of_the_demo_holds_in_the_results():
    claims = RULES.claims(RESULTS)
    assert len(claims) == 7
    assert all(claims.values()), claims


def test_a_claim_can_fail():
    broken = json.loads(json.dumps(RESULTS))
    for result in broken[RULES.RECIPE]:
        result["rows"][3]["accuracy"] = 0.5
        result["rows"][-1]["accuracy"] = 0.9
    assert sum(not held for held in RULES.claims(broken).values()) >= 2


def test_the_shipped_run_spends_its_flops_on_refinement():
    """Stem, B and D are at most a quarter of the FLOPs at full depth, and the whole fits the largest budget."""
    cost = measure(load("cifar100-cpu").model)
    assert cost.flops_once <= 0.25 * cost.flops_full_depth_cached
    assert cost.flops_full_depth_cached <= 129e6
    assert cost.parameters <= 0.4e6


def test_the_costs_are_counted_anew():
    assert script("costs").cost_table() in DECISIONS


def test_what_is_promised_was_measured():
    found = json.loads((ROOT / "docs" / "results" / "guarantee.json").read_text())
    assert found["share_broken"] <= found["allowed"]
    assert f"exceeded in {100 * found['share_broken']:.0f} % of {found['draws']} draws" in PROSE
    assert f"the mean depth is {found['ratio']:.2f} times" in PROSE


def test_cuts_are_told_as_they_were_measured():
    found = json.loads((ROOT / "docs" / "results" / "cuts.json").read_text())["gains"]
    for gains in found.values():
        assert "{:.2f}, {:.2f} and {:.2f}".format(*gains) in PROSE


KIT = ROOT / "docs" / "results" / "cpu"


def test_the_paper_is_measured_whole_at_cpu_scale():
    found = json.loads((KIT / "results.json").read_text())
    assert list(found["sections"]) == list(SECTIONS)
    assert found["data"] == {"name": "cifar100", "train": 45_000, "validation": 5_000, "test": 10_000}
    verdicts = [section["verdict"] for section in found["sections"].values()]
    assert verdicts.count("cannot be tested at this scale") <= 3
    for name in SECTIONS:
        assert (KIT / "figures" / f"{name}.svg").is_file()
        assert (KIT / "figures" / f"{name}.png").is_file()


def test_the_verdicts_of_the_results_page_are_those_of_the_report():
    page = (ROOT / "docs" / "results.md").read_text()
    for name, section in json.loads((KIT / "results.json").read_text())["sections"].items():
        rows = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert len(rows) == 1
        assert rows[0].endswith(f"| {section['verdict']} |")
