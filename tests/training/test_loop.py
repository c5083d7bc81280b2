import math
from dataclasses import replace

import pytest
import torch

from frost.data.augment import Augmentation
from frost.data.digits import load_digits
from frost.data.splits import Split
from frost.halting.ranking import HaltingConfig
from frost.training import loop
from frost.training.loop import fit
from frost.training.losses import objective
from frost.training.settings import TrainConfig
from frost.zoo.registry import SIZES, build, named

DATA = Split(torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(24) % 10)
CONFIG = TrainConfig(epochs=3, batch=10, learning_rate=0.01, augment=Augmentation(shift=1))


def losses_of(config=CONFIG, halting=None, name="frost-resnet-8px"):
    return [record.loss for record in fit(build(named(name), seed=0), DATA, config, halting or HaltingConfig())]


def test_training_lowers_the_loss():
    digits = load_digits().train
    few = Split(digits.images[:128], digits.labels[:128])
    records = list(fit(build(SIZES["resnet-8px"], seed=0), few, TrainConfig(epochs=25, batch=32, learning_rate=0.01),
                       HaltingConfig()))
    assert records[-1].task < 0.7 * records[0].task
    assert records[0].scale != records[-1].scale
    assert all(record.hurst == pytest.approx(0.8) for record in records)


def test_training_is_bit_repeatable():
    assert losses_of() == losses_of()


def test_another_seed_orders_the_images_differently():
    assert losses_of() != losses_of(replace(CONFIG, seed=1))


@pytest.mark.parametrize("name", ["vanilla-resnet-8px", "recurrent-vit-8px", "basic-ssm-resnet-8px"])
def test_baselines_train_by_the_same_loop(name):
    records = list(fit(build(named(name), seed=0), DATA, CONFIG, HaltingConfig()))
    assert len(records) == 9
    assert all(math.isfinite(record.loss) for record in records)
    assert records[0].scale is None


def test_a_watcher_sees_every_batch_with_its_epoch():
    seen = []
    list(fit(build(SIZES["resnet-8px"], seed=0), DATA, CONFIG, HaltingConfig(),
             lambda epoch, trajectory: seen.append((epoch, len(trajectory.score_logits)))))
    assert seen == [(epoch, size) for epoch in (1, 2, 3) for size in (10, 10, 4)]


def test_a_growing_depth_takes_each_number_of_steps_for_an_equal_part_of_the_training():
    seen = []
    model = build(replace(SIZES["resnet-8px"], depth=4), seed=0)
    list(fit(model, DATA, replace(CONFIG, depth_schedule="growing", min_depth=2), HaltingConfig(),
             lambda epoch, trajectory: seen.append(trajectory.score_logits.shape[1])))
    assert seen == [2] * 3 + [3] * 3 + [4] * 3


@pytest.mark.parametrize("fields", [{"min_depth": 2}, {"depth_schedule": "random"}, {"depth_schedule": "growing"}])
def test_a_schedule_needs_its_fewest_steps_and_full_depth_has_none(fields):
    with pytest.raises(ValueError, match="min_depth"):
        TrainConfig(**fields)


@pytest.mark.parametrize("dtype", [torch.float32, torch.double])
def test_losses_are_computed_in_the_precision_of_the_model(dtype):
    seen = []
    data = Split(DATA.images.to(dtype), DATA.labels)
    list(fit(build(named("frost-resnet-8px"), seed=0).to(dtype), data, replace(CONFIG, epochs=1), HaltingConfig(),
             watch=lambda _, trajectory: seen.append(trajectory)))
    assert {each.dtype for trajectory in seen for each in (trajectory.outputs, trajectory.score_logits)} == {dtype}


def test_a_last_short_batch_is_used():
    records = list(fit(build(SIZES["resnet-8px"], seed=0), DATA, CONFIG, HaltingConfig()))
    assert [record.epoch for record in records] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert {record.steps for record in records} == {9}


def trained_with(halting: HaltingConfig) -> dict[str, torch.Tensor]:
    model = build(SIZES["resnet-8px"], seed=0)
    list(fit(model, DATA, CONFIG, halting))
    return model.state_dict()


def test_halting_gradients_flow_unless_they_are_stopped(monkeypatch):
    """With the gradient stopped, the weight of the halting losses changes the score and nothing else."""
    monkeypatch.setattr(loop, "CLIP", 1e9)    # clipping would couple all gradients by their norm
    for is_stopped in (False, True):
        weak = trained_with(HaltingConfig(anchoring_weight=0.1, stop_gradient=is_stopped))
        strong = trained_with(HaltingConfig(anchoring_weight=1.0, stop_gradient=is_stopped))
        changed = {name.startswith("head.score") for name in weak if not torch.equal(weak[name], strong[name])}
        assert changed == ({True} if is_stopped else {True, False})


def test_a_stopped_gradient_needs_an_isolated_score():
    model = build(SIZES["resnet-8px"], seed=0)
    with pytest.raises(ValueError, match="isolate_score=True"):
        objective(model(DATA.images), DATA.labels, HaltingConfig(stop_gradient=True))


def test_a_gradient_that_is_not_finite_stops_before_the_optimiser_moves():
    model = build(SIZES["resnet-8px"], seed=0)
    model.head.readout.weight.register_hook(lambda gradient: gradient * math.nan)
    before = model.stem.layers[0].weight.clone()
    with pytest.raises(FloatingPointError, match="a gradient is not finite at step 1"):
        list(fit(model, DATA, CONFIG, HaltingConfig()))
    assert torch.equal(before, model.stem.layers[0].weight)


def test_a_loss_that_is_not_finite_stops_before_the_optimiser_moves():
    model = build(SIZES["resnet-8px"], seed=0)
    model.head.readout.weight.data[0, 0] = math.inf
    before = model.stem.layers[0].weight.clone()
    with pytest.raises(FloatingPointError, match="at step 1, images"):
        list(fit(model, DATA, CONFIG, HaltingConfig()))
    assert torch.equal(before, model.stem.layers[0].weight)


def test_a_scale_of_one_is_warned_about():
    model = build(replace(SIZES["resnet-8px"], scale_init=1.3), seed=0)
    with pytest.warns(UserWarning, match="λ has reached"):
        next(fit(model, DATA, CONFIG, HaltingConfig()))


@pytest.mark.parametrize("fields", [
    {"epochs": 0}, {"batch": 0}, {"learning_rate": 0.0}, {"warmup": 1.0}, {"ema": 1.0}])
def test_a_bad_configuration_is_refused(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        TrainConfig(**fields)
