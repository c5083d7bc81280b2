"""The committed report on CIFAR-100 is what this code makes of the committed units."""

import json
import shutil
from pathlib import Path

import pytest

from frost.paper.reproduction import results
from frost.paper.section import ORDER
from frost.paper.sizes import size_of

REPORT = Path(__file__).parents[2] / "docs" / "results" / "cpu"
COMMITTED = json.loads((REPORT / "results.json").read_text())


@pytest.fixture(scope="module")
def made():
    return results(size_of("cpu"), REPORT, COMMITTED["data"])


def differences(ours, theirs, place=""):
    """Places where two parts of a report differ; the last digits depend on the machine."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and list(ours) == list(theirs):
        return [found for key in ours for found in differences(ours[key], theirs[key], f"{place}/{key}")]
    if isinstance(ours, (list, tuple)) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [found for at, (one, other) in enumerate(zip(ours, theirs, strict=True))
                for found in differences(one, other, f"{place}/{at}")]
    if isinstance(ours, float) and isinstance(theirs, float):
        return [] if ours == pytest.approx(theirs, rel=1e-9, abs=1e-12) else [(place, ours, theirs)]
    return [] if ours == theirs else [(place, ours, theirs)]


@pytest.mark.parametrize("name", ORDER)
def test_every_number_verdict_and_check_of_a_section_is_made_again(made, name):
    assert differences(made["sections"][name], COMMITTED["sections"][name]) == []


def test_the_claims_of_the_abstract_are_judged_again_as_they_stand(made):
    assert differences(made["claims"], COMMITTED["claims"]) == []
    assert len(made["claims"]) == 8


def test_everything_else_is_made_again(made):
    rest = {key: value for key, value in made.items() if key not in ("sections", "claims")}
    assert differences(rest, {key: COMMITTED[key] for key in rest}) == []
    assert list(made) == list(COMMITTED)


def test_a_section_that_is_younger_than_the_units_is_left_out(made):
    assert list(made["sections"]) == list(ORDER)


def test_one_image_more_is_noticed(made, tmp_path):
    shutil.copytree(REPORT, tmp_path / "cpu")
    file = tmp_path / "cpu" / "units" / "frost-deep.json"
    numbers = json.loads(file.read_text())
    numbers["per_step_accuracy"][-1] += 1 / numbers["images"]
    file.write_text(json.dumps(numbers))
    changed = results(size_of("cpu"), tmp_path / "cpu", COMMITTED["data"])
    assert differences(changed["sections"]["supervision"], COMMITTED["sections"]["supervision"]) != []
    assert differences(changed["sections"]["losses"], COMMITTED["sections"]["losses"]) == []
