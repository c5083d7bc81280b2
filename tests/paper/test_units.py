"""What is there is never done again; what a newer section wants is added where the model is still there."""

import json
from dataclasses import replace

import pytest

from frost.data.digits import load_digits
from frost.paper.section import sections, units_of
from frost.paper.sizes import size_of, with_model
from frost.paper.units import Measurement, Unit, base, do, done, is_left, merged, missing, unit_file

SIZE = replace(size_of("smoke"), base=with_model(size_of("smoke").base, channels=8, bottleneck=4, depth=2))
WEIGHTS = Measurement(name="weights", take=lambda model, data, size: sum(p.numel() for p in model.parameters()))
IMAGES = Measurement(name="images", take=lambda model, data, size: min(size.probes, len(data.test)),
                     settings=lambda size: {"probes": size.probes})
WHILE_TRAINING = Measurement(name="slope", probe=lambda data, halting: lambda model, step, steps: {"share": 0.0})


@pytest.fixture
def fresh():
    return Unit(name="fresh", run=SIZE.base, is_trained=False, wants=(WEIGHTS,))


@pytest.fixture
def out(tmp_path, fresh):
    (tmp_path / "units").mkdir()
    do(fresh, SIZE, tmp_path, load_digits(), None)
    return tmp_path


def test_what_two_sections_want_of_a_unit_is_measured_once(fresh):
    both = merged([fresh, fresh.wanting(WEIGHTS, IMAGES)])
    assert [want.name for want in both["fresh"].wants] == ["weights", "images"]


def test_one_name_for_two_units_is_refused(fresh):
    with pytest.raises(ValueError, match="different units by the name 'fresh'"):
        merged([fresh, replace(fresh, run=with_model(SIZE.base, hurst=0.3))])


def test_a_unit_that_is_there_is_not_left(out, fresh):
    assert done(out, fresh, SIZE)["weights"] > 0
    assert not is_left(out, fresh, SIZE)


def test_a_newer_measurement_leaves_the_file_valid(out, fresh):
    newer = fresh.wanting(IMAGES)
    assert missing(newer, done(out, newer, SIZE)) == [IMAGES]
    assert is_left(out, newer, SIZE)


def test_a_newer_measurement_is_added_to_the_old_ones(out, fresh):
    before = done(out, fresh, SIZE)
    after = do(fresh.wanting(IMAGES), SIZE, out, load_digits(), None)
    assert after == done(out, fresh.wanting(IMAGES), SIZE)
    assert after["images"] == SIZE.probes
    assert after["weights"] == before["weights"]
    assert after["measured_with"] == {"form": 3, "wants": ["images", "weights"], "probes": SIZE.probes}
    assert after["timing"]["seconds"] > before["timing"]["seconds"]
    assert not is_left(out, fresh.wanting(IMAGES), SIZE)


def test_a_measurement_with_other_settings_is_refused(out, fresh):
    do(fresh.wanting(IMAGES), SIZE, out, load_digits(), None)
    with pytest.raises(ValueError, match="other settings"):
        done(out, fresh.wanting(IMAGES), replace(SIZE, probes=9))
    assert done(out, fresh, replace(SIZE, probes=9)) is not None    # who does not want it does not mind


def test_a_unit_of_another_model_is_refused(out, fresh):
    with pytest.raises(ValueError, match="other settings"):
        done(out, replace(fresh, run=with_model(SIZE.base, hurst=0.3)), SIZE)


def test_a_training_that_is_gone_is_not_done_again_for_a_newer_measurement(out, fresh):
    trained = replace(fresh, is_trained=True).wanting(IMAGES)
    assert missing(trained, done(out, trained, SIZE)) == [IMAGES]
    assert not is_left(out, trained, SIZE)


def test_what_is_measured_while_training_cannot_be_added(out, fresh):
    probed = fresh.wanting(WHILE_TRAINING)
    assert missing(probed, done(out, probed, SIZE)) == [WHILE_TRAINING]
    assert not is_left(out, probed, SIZE)


def test_of_a_training_that_diverged_nothing_is_missing(out, fresh):
    file = unit_file(out, "fresh")
    file.write_text(json.dumps({**json.loads(file.read_text()), "is_finite": False}))
    newer = fresh.wanting(IMAGES)
    assert missing(newer, done(out, newer, SIZE)) == []


def test_a_section_says_what_it_lacks():
    section = sections()["jacobian"]
    there = {"ours": {"measured_with": {"wants": ["rules"]}}}
    assert section.lacks(SIZE, there) == ["the unit frost-mean-s0", "jacobian of ours"]


def test_the_paper_form_is_measured_for_every_section_that_wants_it():
    unit = next(unit for unit in units_of(sections().values(), SIZE) if unit.name == base(SIZE).name)
    assert sorted(want.name for want in unit.wants) == ["conflict", "extrapolation", "geometry", "jacobian", "rules",
                                                        "theory"]
