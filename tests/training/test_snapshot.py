"""A training goes on from any step, bit for bit."""

import errno
from dataclasses import replace

import pytest
import torch

from frost.checkpoint import load
from frost.config import to_dict
from frost.data.augment import Augmentation
from frost.data.splits import Split
from frost.halting.ranking import HaltingConfig
from frost.training.loop import Training, go_on
from frost.training.settings import TrainConfig
from frost.training.snapshot import KEPT, restore_newest, save_snapshot
from frost.zoo.registry import SIZES, build

DATA = Split(torch.rand(30, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(30) % 10)
CONFIG = TrainConfig(epochs=3, batch=8, learning_rate=0.01, ema=0.9, depth_schedule="random", min_depth=2,
                     precision="float32",
                     augment=Augmentation(shift=1, flip=True, mix="cutmix"))
CONFIGS = {"conv": SIZES["resnet-8px"], "vit": SIZES["vit-8px"],
           "vanilla": replace(SIZES["resnet-8px"], architecture="vanilla")}


def fresh(name, config=CONFIG):
    return Training.begin(build(CONFIGS[name], seed=3), config)


def values_of(training):
    tensors = {f"m.{k}": v for k, v in training.model.state_dict().items()}
    tensors |= {f"a.{k}": v for k, v in (training.ema.state_dict() if training.ema else {}).items()}
    for name, parameter in training.model.named_parameters():
        tensors |= {f"o.{key}.{name}": value for key, value in training.optimizer.state[parameter].items()}
    return tensors


@pytest.mark.parametrize("name", list(CONFIGS))
@pytest.mark.parametrize("stop", [1, 4, 6])    # the first step, an epoch's end, the middle of an epoch
def test_going_on_is_bit_for_bit_the_undisturbed_training(tmp_path, name, stop):
    whole = fresh(name)
    expected = list(go_on(whole, DATA, CONFIG, HaltingConfig()))
    first = fresh(name)
    before = []
    for record in go_on(first, DATA, CONFIG, HaltingConfig()):
        before.append(record)
        if record.step == stop:
            break
    save_snapshot(tmp_path, first, {"model": to_dict(CONFIGS[name])}, {"seconds": 1.5})
    torch.manual_seed(99)    # whatever else the process drew must not matter
    second = fresh(name)
    place, scores = restore_newest(tmp_path, second)
    assert (place["seconds"], scores) == (1.5, None)
    after = list(go_on(second, DATA, CONFIG, HaltingConfig()))
    assert before + after == expected
    one, two = values_of(whole), values_of(second)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_without_the_optimizer_going_on_would_differ(tmp_path):
    """The control: a resume that forgets the optimizer is noticed by the comparison above."""
    whole = list(go_on(fresh("conv"), DATA, CONFIG, HaltingConfig()))
    first = fresh("conv")
    for record in go_on(first, DATA, CONFIG, HaltingConfig()):
        if record.step == 6:
            break
    save_snapshot(tmp_path, first, {"model": to_dict(CONFIGS["conv"])}, {"seconds": 0.0})
    second = fresh("conv")
    restore_newest(tmp_path, second)
    second.optimizer.state.clear()
    assert list(go_on(second, DATA, CONFIG, HaltingConfig())) != whole[6:]


def test_the_newest_whole_checkpoint_wins_and_few_are_kept(tmp_path):
    training = fresh("conv")
    config = {"model": to_dict(CONFIGS["conv"])}
    for record in go_on(training, DATA, CONFIG, HaltingConfig()):
        save_snapshot(tmp_path, training, config, {"seconds": 0.0})
        if record.step == 4:
            break
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["step-00000003", "step-00000004"]
    assert len(list(tmp_path.iterdir())) == KEPT
    damaged = tmp_path / "step-00000004" / "training.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    again = fresh("conv")
    with pytest.warns(UserWarning, match="step-00000004 .* is damaged and set aside; going on from step-00000003"):
        restore_newest(tmp_path, again)
    assert again.step == 3


def test_damaged_checkpoints_do_not_push_out_the_new_ones(tmp_path):
    training = fresh("conv")
    for record in go_on(training, DATA, CONFIG, HaltingConfig()):
        save_snapshot(tmp_path, training, {}, {"seconds": 0.0})
        if record.step == 6:
            break
    for path in tmp_path.glob("step-*"):
        (path / "training.json").write_text("{}")
    again = fresh("conv")
    with pytest.warns(UserWarning, match="starting anew"):
        assert restore_newest(tmp_path, again) is None
    next(go_on(again, DATA, CONFIG, HaltingConfig()))
    save_snapshot(tmp_path, again, {}, {"seconds": 0.0})
    third = fresh("conv")
    restore_newest(tmp_path, third)
    assert third.step == 1


def test_a_disk_that_is_full_is_reported_with_the_path(tmp_path, monkeypatch):
    training = fresh("conv")
    save_snapshot(tmp_path, training, {}, {"seconds": 0.0})
    next(go_on(training, DATA, CONFIG, HaltingConfig()))

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("frost.directory.fsync", full)
    with pytest.raises(OSError, match=r"step-00000001 could not be written \(No space left on device\); what"):
        save_snapshot(tmp_path, training, {}, {"seconds": 0.0})
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000000"]


def test_another_number_of_threads_is_warned_about(tmp_path):
    training = fresh("conv")
    save_snapshot(tmp_path, training, {}, {"seconds": 0.0, "threads": 77})
    with pytest.warns(UserWarning, match="threads 77 so far and now uses .* not bit for bit"):
        restore_newest(tmp_path, fresh("conv"))


def test_a_resume_point_is_a_run_of_the_averaged_weights(tmp_path):
    training = fresh("conv")
    for record in go_on(training, DATA, CONFIG, HaltingConfig()):
        if record.step == 3:
            break
    save_snapshot(tmp_path / "checkpoints", training, {"model": to_dict(CONFIGS["conv"])}, {"seconds": 0.0})
    model = load(tmp_path).model    # a folder in training stands for its newest checkpoint
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), training.ema.parameters(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(model.parameters(), training.model.parameters(), strict=True))


def test_an_empty_folder_has_nothing_to_go_on_from(tmp_path):
    assert restore_newest(tmp_path / "nowhere", fresh("conv")) is None
