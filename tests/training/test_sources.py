"""Batches are the same, however many threads read them and however many processes share them."""

import pytest
import torch

from frost.data.augment import Augmentation, augmented
from frost.data.splits import Split
from frost.training.distributed import SINGLE, World
from frost.training.sources import prefetch


def test_augmentation_is_drawn_for_the_whole_batch():
    images, labels = torch.rand(7, 3, 8, 8), torch.arange(7)
    how = Augmentation(shift=2, flip=True)
    whole, _ = augmented(images, labels, how, torch.Generator().manual_seed(3))
    for rank in range(3):
        part = World(rank, 3).part(7)
        mine, _ = augmented(images[part], labels, how, torch.Generator().manual_seed(3), part)
        assert torch.equal(mine, whole[part])


@pytest.mark.parametrize("workers", [1, 3])
def test_reading_ahead_changes_nothing(workers):
    data = Split(torch.rand(23, 1, 8, 8), torch.arange(23) % 10)
    shares = torch.randperm(23).split(5)
    plain = list(prefetch(data, shares, SINGLE, False, 0))
    ahead = list(prefetch(data, shares, SINGLE, False, workers))
    assert len(plain) == len(ahead) == 5
    assert all(torch.equal(a.images, b.images) and torch.equal(a.rows, b.rows)
               for a, b in zip(plain, ahead, strict=True))


def test_an_error_while_reading_ahead_is_raised():
    class Broken(Split):
        def batch(self, rows):
            raise OSError("cannot read")

    with pytest.raises(OSError, match="cannot read"):
        list(prefetch(Broken(torch.rand(4, 1, 8, 8), torch.zeros(4)), torch.arange(4).split(2), SINGLE, False, 2))


def test_a_process_without_images_computes_one_uncounted():
    data = Split(torch.rand(1, 1, 8, 8), torch.zeros(1, dtype=torch.long))
    (batch,) = prefetch(data, torch.arange(1).split(1), World(0, 2), False, 0)
    assert (batch.part.stop - batch.part.start, len(batch.images)) == (0, 1)
