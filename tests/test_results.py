"""Numbers in the documents are those that the committed results hold."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def script(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RULES = script("update_rules")
RESULTS = json.loads((ROOT / "docs" / "results" / "update-rules.json").read_text())["cases"]
DECISIONS = (ROOT / "docs" / "decisions.md").read_text()


@pytest.mark.parametrize("make", [RULES.rule_table, RULES.training_table])
def test_the_tables_are_made_from_the_results(make):
    assert make(RESULTS) in DECISIONS


def test_what_we_claim_of_the_demo_holds_in_the_results():
    claims = RULES.claims(RESULTS)
    assert len(claims) == 6
    assert all(claims.values()), claims


def test_a_claim_can_fail():
    broken = json.loads(json.dumps(RESULTS))
    for result in broken["residual"]:
        result["rows"][3]["accuracy"] = 0.5
        result["rows"][-1]["accuracy"] = 0.9
    assert sum(not held for held in RULES.claims(broken).values()) >= 2


def test_the_table_of_the_readme_is_made_from_the_results():
    readme = (ROOT / "README.md").read_text()
    for row in RESULTS["residual"][0]["rows"]:
        if row["quantile"] in (0.125, 0.25, 0.5, 1.0):
            share = round(100 * row["mean_depth"] / 8)
            assert (f"| {row['quantile']:g} | {row['mean_depth']:.2f} ({share} %) | {100 * row['accuracy']:.2f} % | "
                    f"{100 * row['fixed_depth_accuracy']:.2f} % |") in readme


def test_the_costs_are_counted_anew():
    assert script("costs").cost_table() in DECISIONS
