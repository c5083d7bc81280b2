import json
from dataclasses import dataclass, field
from typing import Literal

import pytest

from frost.config import from_dict, override, to_dict
from frost.recipes import RECIPES, RunConfig, recipe


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

    words = ["folded_start=true", "architecture=basic-ssm"]
    assert override(SIZES["vit-8px"], words) == override(SIZES["vit-8px"], words[::-1])


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
