import numpy as np
import pytest
import torch

from frost.data.splits import DataSet, Split, as_float, hold_out, take


def test_bytes_become_floats_between_zero_and_one():
    floats = as_float(torch.tensor([0, 51, 255], dtype=torch.uint8))
    assert floats.dtype == torch.float32
    assert floats.tolist() == pytest.approx([0.0, 0.2, 1.0])


def test_floats_pass_through_untouched():
    images = torch.rand(2, 1, 3, 3)
    assert as_float(images) is images


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
def test_a_batch_holds_the_rows_asked_for(kind):
    images = (torch.rand(6, 3, 4, 5) * 255).to(kind) if kind == torch.uint8 else torch.rand(6, 3, 4, 5)
    split = Split(images, torch.arange(6))
    rows = torch.tensor([4, 0, 4])
    assert split.image_shape == (3, 4, 5)
    assert torch.equal(split.batch(rows), as_float(images)[rows])


def test_a_tenth_of_each_class_of_a_small_set_is_held_out():
    labels = np.repeat(np.arange(4), 50)
    train, validation = hold_out(labels)
    assert np.bincount(labels[validation]).tolist() == [5] * 4
    assert sorted([*train, *validation]) == list(range(200))


def test_fifty_of_each_class_are_held_out_of_cifar100():
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(100), 500))
    assert set(np.bincount(labels[hold_out(labels)[1]]).tolist()) == {50}


def test_a_large_set_gives_five_thousand():
    labels = np.repeat(np.arange(100), 1300)
    assert hold_out(labels)[1].size == 5000


@pytest.mark.parametrize("count", [0, 1, 3])
def test_too_few_images_to_hold_any_out_is_an_error(count):
    with pytest.raises(ValueError, match="too few to hold out"):
        hold_out(np.zeros(count, dtype=np.int64))


def test_classes_are_named_after_digits_unless_given():
    split = take(np.zeros((1, 1, 2, 2), np.uint8), np.zeros(1, np.int64), np.arange(1))
    assert DataSet("any", split, split, split).classes == tuple("0123456789")
