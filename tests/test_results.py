"""Numbers of the documents that code can compute anew."""

import importlib.util
from pathlib import Path

from frost.checkpoint import load
from frost.evaluation.complexity import measure

ROOT = Path(__file__).parent.parent
DECISIONS = "\n".join(page.read_text() for page in sorted((ROOT / "docs" / "decisions").glob("*.md")))


def script(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_shipped_run_spends_its_flops_on_refinement():
    """Stem, B and D are at most a quarter of the FLOPs at full depth, and the whole fits the largest budget."""
    cost = measure(load("cifar100-cpu").model)
    assert cost.flops_once <= 0.25 * cost.flops_full_depth_cached
    assert cost.flops_full_depth_cached <= 129e6
    assert cost.parameters <= 0.4e6


def test_the_costs_are_counted_anew():
    assert script("costs").cost_table() in DECISIONS
