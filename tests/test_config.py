import json
from dataclasses import dataclass, field
from typing import Literal

import pytest

from frost.config import check_fields, from_dict, override, setting, settings_of, to_dict
from frost.recipes import RECIPES, recipe
from frost.training.settings import RunConfig


@dataclass(frozen=True, kw_only=True)
class Inner:
    depth: int = 4
    rate: float = 0.5
    rule: Literal["residual", "gated"] = "residual"
    is_on: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"depth must be at least 1, got {self.depth}.")


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str = "x"
    model: Inner = field(default_factory=Inner)


@pytest.mark.parametrize(("assignment", "expected"), [
    ("model.depth=12", Inner(depth=12)), ("model.rate=1e-3", Inner(rate=1e-3)), ("model.rate=2", Inner(rate=2.0)),
    ("model.rule=gated", Inner(rule="gated")), ("model.is_on=true", Inner(is_on=True)),
    ("model.limit=7", Inner(limit=7)), ("model.limit=none", Inner()), (" model.depth = 3 ", Inner(depth=3))])
def test_a_dotted_path_reaches_its_field(assignment, expected):
    assert override(Outer(), [assignment]).model == expected


def test_the_order_of_assignments_does_not_matter():
    from frost.zoo.registry import SIZES

    words = ["stem=deep", "patch=4"]    # neither alone is possible
    assert override(SIZES["resnet-8px"], words) == override(SIZES["resnet-8px"], words[::-1])


def test_the_name_of_the_group_may_stand_before_a_path():
    assert override(Inner(), ["model.depth=7"], where="model") == override(Inner(), ["depth=7"], where="model")
    with pytest.raises(ValueError, match=r"model\.dept: .* Did you mean 'depth'"):
        override(Inner(), ["model.dept=7"], where="model")


def test_later_assignments_win():
    assert override(Outer(), ["model.depth=2", "name=y", "model.depth=3"]) == Outer(name="y", model=Inner(depth=3))


@pytest.mark.parametrize(("assignment", "message"), [
    ("model.dept=3", "Inner has no field 'dept'. Did you mean 'depth'?"),
    ("modle.depth=3", "Outer has no field 'modle'. Did you mean 'model'?"),
    ("model=3", "model is a group of fields"), ("name.depth=3", "single value"),
    ("model.depth=three", "model.depth takes a whole number, got 'three'"),
    ("model.depth=3.5", "takes a whole number"), ("model.rate=nan", "takes a finite number"),
    ("model.rule=gate", "is one of residual, gated"), ("model.is_on=maybe", "takes true or false"),
    ("model.depth=0", "model: depth must be at least 1, got 0"), ("model.depth", "path=value"), ("=3", "path=value")])
def test_a_wrong_assignment_says_what_to_change(assignment, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        override(Outer(), [assignment])


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_survives_json(name):
    config = recipe(name)
    assert from_dict(RunConfig, json.loads(json.dumps(to_dict(config)))) == config


@pytest.mark.parametrize(("values", "message"), [
    ({"model": {"depht": 3}}, "Did you mean 'depth'"), ({"model": {"depth": "3"}}, "type int"),
    ({"model": {"depth": True}}, "type int"), ({"model": 3}, "expected an object"),
    ({"model": {"rate": float("inf")}}, "finite"), ({"model": {"rule": []}}, "one of")])
def test_wrong_stored_values_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        from_dict(Outer, values)


def test_an_unknown_recipe_gets_a_suggestion():
    with pytest.raises(ValueError, match="Did you mean 'digits'"):
        recipe("digit")


@dataclass(frozen=True, kw_only=True)
class Limited:
    share: float = setting(0.5, "a share", above=0, most=1)
    count: int = setting(3, "how many", least=1, below=2_000)

    def __post_init__(self) -> None:
        check_fields(self)


@pytest.mark.parametrize(("fields", "message"), [
    ({"share": 0.0}, "share must be above 0 and at most 1, got 0.0; the default is 0.5"),
    ({"share": 1.5}, "share must be above 0 and at most 1, got 1.5"),
    ({"count": 0}, "count must be at least 1 and below 2,000, got 0; the default is 3"),
    ({"count": 2_000}, "below 2,000, got 2000"), ({"count": 2.0}, "type int"), ({"share": float("nan")}, "finite")])
def test_a_value_outside_its_limits_is_refused_with_the_limits(fields, message):
    with pytest.raises(ValueError, match=message):
        Limited(**fields)


@pytest.mark.parametrize("fields", [{"share": 1}, {"share": 1e-9}, {"count": 1}, {"count": 1_999}])
def test_a_limit_itself_is_taken_where_it_belongs_to_the_range(fields):
    name, value = next(iter(fields.items()))
    assert getattr(Limited(**fields), name) == value


def test_a_setting_of_another_group_is_suggested_with_its_group():
    with pytest.raises(ValueError, match=r"RuntimeConfig has no field 'epochs'. Did you mean 'train.epochs'\?"):
        override(recipe("digits"), ["runtime.epochs=3"])


@pytest.mark.parametrize("name", RECIPES)
def test_every_setting_says_in_one_line_what_it_is(name):
    settings = list(settings_of(recipe(name)))
    assert len(settings) == len({found.path for found in settings})
    for found in settings:
        assert 0 < len(found.help) <= 90, found
        assert found.help == " ".join(found.help.split())


def test_a_setting_is_listed_with_its_path_type_value_and_default():
    listed = {setting.path: setting for setting in settings_of(recipe("digits"))}
    depth, shift = listed["model.depth"], listed["train.augment.shift"]
    assert (depth.type, depth.value, depth.default) == ("whole number", 8, 16)
    assert (shift.type, shift.value, shift.default) == ("whole number", 1, 0)
    assert listed["train.supervision"].type == "last, all"
    assert listed["recipe"].default is None


def test_what_is_listed_can_be_set():
    config = recipe("cifar100-cpu")
    words = [f"{setting.path}={str(setting.value).lower()}" for setting in settings_of(config)]
    assert override(recipe("cifar100-cpu"), words) == config


@pytest.mark.parametrize(("old", "new"), [
    ("train.average", "train.ema"), ("train.random_depth", "train.depth_schedule"), ("model.rule", "model.update"),
    ("halting.easy_fraction", "halting.fraction"), ("train.workers", "runtime.workers")])
def test_an_old_name_is_answered_with_todays(old, new):
    with pytest.raises(ValueError, match=f"Did you mean '{new}'"):
        override(recipe("digits"), [f"{old}=1"])
