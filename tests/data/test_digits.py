import numpy as np
import torch

from frost.data.augment import random_shift
from frost.data.digits import load_digits
from frost.data.splits import stratified


def test_the_splits_share_no_image_with_one_another():
    from sklearn.datasets import load_digits as bundled

    labels = bundled().target
    parts = stratified(labels, (0.3, 0.1))
    assert sorted(np.concatenate(parts).tolist()) == list(range(1797))


def test_the_splits_are_stratified():
    data = load_digits()
    assert [len(data.train), len(data.validation), len(data.test)] == [1079, 179, 539]
    for split in (data.train, data.validation, data.test):
        counts = torch.bincount(split.labels, minlength=10)
        assert counts.max() - counts.min() <= 0.06 * len(split)
        assert 0.0 <= split.images.min() <= split.images.max() <= 1.0


def test_the_splits_are_always_the_same():
    first, second = load_digits(), load_digits()
    assert torch.equal(first.test.images, second.test.images)
    assert first.test.labels[:12].tolist() == second.test.labels[:12].tolist()


def test_a_shift_moves_pixels_by_at_most_its_size():
    images = torch.zeros(200, 2, 8, 8)
    images[:, :, 4, 4] = 1.0
    moved = random_shift(images, 2, torch.Generator().manual_seed(0))
    where = moved[:, 0].nonzero()
    assert len(where) == 200
    assert set(where[:, 1].tolist()) == set(where[:, 2].tolist()) == {2, 3, 4, 5, 6}
    assert torch.equal(moved[:, 0], moved[:, 1])


def test_no_shift_is_the_identity():
    images = torch.rand(3, 1, 8, 8)
    assert random_shift(images, 0, torch.Generator()) is images


def test_a_shift_is_decided_by_its_generator():
    images = torch.rand(3, 1, 8, 8)
    first, second = (random_shift(images, 1, torch.Generator().manual_seed(4)) for _ in range(2))
    assert torch.equal(first, second)
