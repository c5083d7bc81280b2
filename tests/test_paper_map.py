"""docs/paper-map.md names a function and a test for each equation; both must exist."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ITEM = r"^- \*\*(.+?)\*\* (.*?)\n    - Code: (.*?)\n    - Test: (.*?)(?=\n-|\n\n)"
ROWS = [[re.sub(r"\s+", " ", part) for part in item]     # what the paper calls it, what it says, code, test
        for item in re.findall(ITEM, (ROOT / "docs" / "paper-map.md").read_text(), re.M | re.S)]
TESTS = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
LAST = 41


def numbers(cell: str) -> list[int]:
    found = []
    for first, last in re.findall(r"\(([1-9]\d?)\)(?:–\((\d+)\))?", cell):
        found += range(int(first), int(last or first) + 1)
    return found


def test_every_equation_has_exactly_one_row():
    listed = [number for row in ROWS for number in numbers(row[0])]
    assert sorted(listed) == list(range(1, LAST + 1))


def test_every_statement_has_a_row():
    statements = {row[0].split(",")[0] for row in ROWS if not row[0].startswith("(")}
    assert statements == {"Lemma 2.1", "Definition 3.1", "Definition 3.2", "Lemma 3.3", "Proposition 3.4",
                          "Definition B.1", "Theorem B.2", "Theorem B.3", "Proposition B.4", "Definition D.1"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_functions_exist(row):
    for place in re.findall(r"`([\w/]+\.py)::(\w+)(?:\.(\w+))?`", row[2]):
        path, name, attribute = place
        module = importlib.import_module("frost." + path.removesuffix(".py").replace("/", "."))
        thing = getattr(module, name)
        assert not attribute or hasattr(thing, attribute)
    assert "`" in row[2] or row[2].startswith("none:")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_tests_exist(row):
    named = re.findall(r"`(test_\w+)`", row[3])
    assert named or row[3].startswith("none:")
    for name in named:
        assert re.search(rf"def {name}\w*\(", TESTS), name


@pytest.mark.parametrize("row", [row for row in ROWS if row[0].startswith("(")], ids=lambda row: row[0])
def test_the_function_states_its_equation(row):
    places = re.findall(r"`([\w/]+\.py)::(\w+)(?:\.(\w+))?`", row[2])
    stated = set()
    for path, name, attribute in places:
        thing = getattr(importlib.import_module("frost." + path.removesuffix(".py").replace("/", ".")), name)
        stated |= set(numbers((getattr(thing, attribute) if attribute else thing).__doc__))
    assert not places or set(numbers(row[0])) <= stated
