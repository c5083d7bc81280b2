"""Configurations of older versions mean what they meant, or are refused with the name of what is gone."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import frost
from frost import directory
from frost.checkpoint import save
from frost.config import from_dict, to_dict
from frost.legacy import GONE, LAST, RUNTIME, modern, modern_model
from frost.paper.section import sections, units_of
from frost.paper.sizes import size_of
from frost.paper.units import done
from frost.recipes import RECIPES, recipe
from frost.training.runfolder import begin_facts, may_begin
from frost.training.settings import RunConfig, RuntimeConfig
from frost.zoo.registry import ModelConfig, build

CPU = Path(__file__).parent.parent / "docs" / "results" / "cpu"
UNITS = {unit.name: unit for unit in units_of(sections().values(), size_of("cpu"))}
# what the version before wrote for `cifar100-cpu`
OLD = {
    "recipe": "cifar100-cpu", "data": "cifar100",
    "model": {"depth": 3, "hurst": 0.8, "learn_hurst": False, "scale_init": 0.5, "rule": "residual",
              "gate": "interpolate", "start": "zero", "rectify": True, "score_sees": "output", "architecture": "frost",
              "backbone": "resnet", "image_size": 32, "image_channels": 3, "classes": 100, "channels": 128, "patch": 4,
              "heads": 12, "expansion": 4.0, "bottleneck": 0, "dilation": 1, "deep_stem": True, "light_stem": False,
              "standardise_weights": True, "kappa": 0.9, "leaky": True, "standardise": True, "folded_start": False},
    "halting": {"objective": "rank", "ponder_weight": 0.01, "ponder_prior": 0.25, "rank_by": "gain", "refit": 20000,
                "ranks": "gathered", "pairs": "step", "easy_fraction": 0.25, "hard_fraction": 0.25, "margin": 0.2,
                "relative_weight": 0.7, "anchoring_weight": 0.3, "reduce": "mean", "calibrate": "held-out",
                "stop_gradient": True},
    "train": {"epochs": 80, "batch": 64, "optimizer": "muon", "learning_rate": 0.002, "weight_decay": 0.05,
              "warmup": 0.05, "clip": 1.0, "label_smoothing": 0.1, "supervision": "all", "random_depth": 0,
              "growing_depth": 2, "average": 0.999,
              "augment": {"shift": 4, "flip": True, "rand_augment": 0, "rand_magnitude": 9, "erase": 0.0,
                          "mix": "mixup", "mix_share": 0.5},
              "device": "auto", "precision": "float32", "checkpointing": False, "compile": False, "validate_every": 4,
              "save_every": 0, "workers": 0, "timeout": 300.0, "seed": 0}}


def old_with(group: str, **fields):
    """The old configuration with other fields in one of its groups."""
    return {**OLD, group: {**OLD[group], **fields}}


def test_the_old_form_of_the_shipped_run_is_its_recipe():
    assert from_dict(RunConfig, modern(OLD)) == recipe("cifar100-cpu")


def test_the_converter_leaves_its_input_alone():
    before = json.dumps(OLD)
    modern(OLD)
    assert json.dumps(OLD) == before


@pytest.mark.parametrize("name", RECIPES)
def test_a_configuration_of_today_passes_unchanged(name):
    today = to_dict(recipe(name))
    assert modern(today) == today


@pytest.mark.parametrize(("group", "fields", "path", "expected"), [
    ("model", {"rule": "gated", "leaky": False}, "model.update", "gated"),
    ("model", {"deep_stem": False, "light_stem": True}, "model.stem", "light"),
    ("model", {"deep_stem": False}, "model.stem", "standard"),
    ("model", {"rectify": False, "standardise": False, "standardise_weights": False}, "model.backbone", "resnet"),
    ("model", {"architecture": "basic-ssm", "folded_start": True}, "model.architecture", "basic-ssm-folded"),
    ("halting", {"easy_fraction": 0.1, "hard_fraction": 0.1}, "halting.fraction", 0.1),
    ("train", {"average": 0.5}, "train.ema", 0.5),
    ("train", {"random_depth": 3, "growing_depth": 0}, "train.depth_schedule", "random"),
    ("train", {"random_depth": 3, "growing_depth": 0}, "train.min_depth", 3),
    ("train", {"growing_depth": 0}, "train.depth_schedule", "full"),
    ("train", {"workers": 3}, "runtime.workers", 3), ("train", {"compile": True}, "runtime.compile", True)])
def test_each_old_name_has_its_new_one(group, fields, path, expected):
    found = from_dict(RunConfig, modern(old_with(group, **fields)))
    outer, _, inner = path.partition(".")
    assert getattr(getattr(found, outer), inner) == expected


@pytest.mark.parametrize(("group", "fields", "name"), [
    ("model", {"gate": "add"}, r"model\.gate is 'add'"), ("model", {"start": "stem"}, r"model\.start is 'stem'"),
    ("model", {"kappa": 0.5}, r"model\.kappa"), ("model", {"expansion": 2.0}, r"model\.expansion"),
    ("model", {"separable": True}, r"model\.separable"), ("model", {"standardise": False}, r"model\.rectify"),
    ("model", {"backbone": "vit"}, r"model\.rectify"),
    ("halting", {"pairs": "all"}, r"halting\.pairs"), ("halting", {"ranks": "local"}, r"halting\.ranks"),
    ("halting", {"ponder_prior": 0.5}, r"halting\.ponder_prior"),
    ("halting", {"hard_fraction": 0.5}, r"halting\.hard_fraction"),
    ("train", {"clip": 2.0}, r"train\.clip"), ("train", {"ranked_supervision": True}, r"train\.ranked_supervision"),
    ("train", {"augment": {"mix_share": 1.0}}, r"train\.augment\.mix_share")])
def test_what_is_gone_is_refused_by_its_name(group, fields, name):
    with pytest.raises(ValueError, match=f"{name}.* no longer has that setting; use the code of commit {LAST}"):
        modern(old_with(group, **fields))


def test_nothing_that_is_gone_has_a_namesake_today():
    today = to_dict(recipe("digits"))
    groups = {"model": today["model"], "halting": today["halting"], "train": today["train"],
              "train.augment": today["train"]["augment"]}
    assert all(not GONE[name].keys() & group.keys() for name, group in groups.items())
    assert set(RUNTIME) == today["runtime"].keys()
    assert not set(RUNTIME) & today["train"].keys()


@pytest.mark.parametrize("strange", [{"model": 3}, {"train": {"augment": "none"}}, {"halting": None}, {}, {"fit": "X"}])
def test_what_is_no_configuration_is_left_for_its_reader_to_refuse(strange):
    assert modern(strange) == strange


@pytest.mark.parametrize("name", UNITS)
def test_every_committed_unit_is_still_accepted(name):
    assert done(CPU, UNITS[name], size_of("cpu")) is not None


def test_a_unit_may_differ_in_what_decides_nothing():
    unit = UNITS["frost-gated"]
    other = replace(unit, run=replace(unit.run, runtime=RuntimeConfig(workers=2, validate_every=3)))
    assert done(CPU, other, size_of("cpu")) is not None


@pytest.mark.parametrize("change", [("train", "seed", 9), ("halting", "pairs", "all"), ("model", "gate", "add")])
def test_a_unit_of_other_settings_is_not_accepted(tmp_path, change):
    group, field, value = change
    numbers = json.loads((CPU / "units" / "frost-gated.json").read_text())
    numbers["config"][group][field] = value
    (tmp_path / "units").mkdir()
    (tmp_path / "units" / "frost-gated.json").write_text(json.dumps(numbers))
    with pytest.raises(ValueError, match="other settings"):
        done(tmp_path, UNITS["frost-gated"], size_of("cpu"))


def small_old_model():
    """An old description of a small model, and the model."""
    model = {**OLD["model"], "channels": 16, "classes": 10}
    return model, build(from_dict(ModelConfig, modern_model(model)), seed=3)


def test_a_run_of_the_old_form_loads(tmp_path):
    described, model = small_old_model()
    save(tmp_path / "run", model, {**OLD, "model": described})
    run = frost.load(tmp_path / "run")
    assert run.config["model"]["backbone"] == "resnet-ws"
    assert all(torch.equal(one, two) for one, two in zip(model.state_dict().values(), run.model.state_dict().values(),
                                                         strict=True))


def test_a_run_loads_whatever_it_was_trained_with(tmp_path):
    """How a model was trained does not change what it is."""
    described, model = small_old_model()
    save(tmp_path / "run", model, {**old_with("halting", pairs="all"), "model": described})
    assert frost.load(tmp_path / "run").model.depth == 3


def test_a_run_whose_model_is_gone_is_refused_by_name(tmp_path):
    described, model = small_old_model()
    save(tmp_path / "run", model, {**OLD, "model": {**described, "start": "stem"}})
    with pytest.raises(ValueError, match=r"model\.start is 'stem'"):
        frost.load(tmp_path / "run")


def test_a_training_that_the_old_version_began_may_go_on(tmp_path):
    begin_facts(tmp_path, OLD, {}, ("frost", "train"))
    assert directory.read_json(tmp_path / "run.json")["config"] == OLD
    assert may_begin(tmp_path, to_dict(recipe("cifar100-cpu")), resume=True)
    other = recipe("cifar100-cpu")
    with pytest.raises(ValueError, match=r"its train\.ema is 0\.999"):
        may_begin(tmp_path, to_dict(replace(other, train=replace(other.train, ema=0.5))), resume=True)


def test_a_training_with_what_is_gone_cannot_go_on(tmp_path):
    begin_facts(tmp_path, old_with("train", clip=2.0), {}, ("frost", "train"))
    with pytest.raises(ValueError, match=r"train\.clip is 2\.0"):
        may_begin(tmp_path, to_dict(recipe("cifar100-cpu")), resume=True)
