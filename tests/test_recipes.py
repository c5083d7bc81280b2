"""Every recipe describes a run that can be built, and says what it costs and gives."""

from dataclasses import replace

import pytest
import torch

from frost.config import from_dict, override, to_dict
from frost.data.catalogue import FACTS
from frost.evaluation.complexity import measure
from frost.recipes import RECIPES, RunConfig, recipe
from frost.zoo.registry import ARCHITECTURES, DIMENSIONS, build


@pytest.mark.parametrize("name", list(RECIPES))
def test_a_recipe_fits_its_data_and_survives_json(name):
    config = recipe(name)
    facts = FACTS[config.data]
    assert config.recipe == name
    assert config.model.classes == facts.classes
    assert config.model.image_channels == facts.image_channels
    assert facts.image_size in (None, config.model.image_size)
    assert from_dict(RunConfig, to_dict(config)) == config
    assert f"frost train {name} --out RUN" in RECIPES[name].__doc__


@pytest.mark.parametrize("name", list(RECIPES))
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_each_baseline_is_one_setting_away(name, architecture):
    config = override(recipe(name), [f"model.architecture={architecture}"])
    with torch.device("meta"):
        model = build(config.model)
    with torch.device("meta"):
        outputs = model(torch.empty(1, *config.model.input_shape), keep_states=False).outputs
    positions = config.model.input_shape[1:] if config.model.backbone in DIMENSIONS else ()
    assert outputs.shape == (1, config.model.depth, *positions, config.model.classes)


def test_the_papers_recipes_train_as_the_paper_says():
    for name in ("cifar100", "imagenet100-resnet50", "imagenet100-vit-b16"):
        config = recipe(name)
        assert config.halting.rank_by == "loss"
        assert config.train.supervision == "last"
        assert config.train.least_depth == 0
        assert config.model.depth == (12 if "vit" in name else 16)
        assert not config.model.leaky
    for name in ("digits", "fashion-mnist", "cifar100-short", "cifar100-cpu"):
        assert recipe(name).halting.rank_by == "gain"


def test_the_shipped_model_is_small_and_most_of_its_work_is_refinement():
    """Stem, B and D are at most a quarter of the FLOPs at full depth."""
    model = recipe("cifar100-cpu").model
    with torch.device("meta"):
        cost = measure(build(model))
    assert cost.parameters <= 0.4e6
    assert cost.flops_once <= 0.25 * cost.flops_full_depth_cached


def test_gain_cannot_be_ranked_after_one_step():
    config = recipe("digits")
    for name in ("random_depth", "growing_depth"):
        with pytest.raises(ValueError, match=name):
            replace(config, train=replace(config.train, **{name: 1}))
