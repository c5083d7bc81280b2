"""Augmentation is repeatable, keeps shapes and ranges, and mixes labels as it mixes images."""

import pytest
import torch

from frost.data import augment
from frost.data.augment import Augmentation, augmented, check_kornia, mixed, random_flip

IMAGES = torch.rand(12, 3, 16, 16, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(12)


def seeded(number=1):
    return torch.Generator().manual_seed(number)


def test_half_of_the_images_are_mirrored_and_the_rest_untouched():
    flipped = random_flip(IMAGES, seeded())
    same = (flipped == IMAGES).flatten(1).all(dim=1)
    mirrored = (flipped == IMAGES.flip(3)).flatten(1).all(dim=1)
    assert bool((same ^ mirrored).all())
    assert 0 < int(mirrored.sum()) < 12


def test_mixup_blends_images_and_labels_by_the_same_share():
    blended, (partners, share) = mixed(IMAGES, LABELS, "mixup", seeded())
    assert torch.allclose(blended, share * IMAGES + (1 - share) * IMAGES[partners])
    assert sorted(partners.tolist()) == LABELS.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_cutmix_takes_a_rectangle_and_its_share_is_the_pixels_that_stayed(seed):
    cut, (partners, share) = mixed(IMAGES, LABELS, "cutmix", seeded(seed))
    own = (cut == IMAGES).all(dim=1)
    theirs = (cut == IMAGES[partners]).all(dim=1)
    assert bool((own | theirs).all())
    differs = partners != LABELS
    assert torch.allclose(own[differs].double().mean(dim=(1, 2)), torch.tensor(share).double(), atol=1e-9)


@pytest.mark.parametrize("how", [
    Augmentation(shift=2, flip=True), Augmentation(mix="mixup"), Augmentation(mix="cutmix"),
    Augmentation(rand_augment=2, erase=0.5)])
def test_the_same_seed_gives_the_same_batch_whatever_else_is_drawn(how, monkeypatch):
    monkeypatch.setattr(augment, "MIXED_SHARE", 1.0)
    one, labels_one = augmented(IMAGES, LABELS, how, seeded())
    torch.manual_seed(5)
    torch.rand(3)
    state = torch.get_rng_state()
    two, labels_two = augmented(IMAGES, LABELS, how, seeded())
    assert torch.equal(torch.get_rng_state(), state)      # the global generator is left as it was
    assert torch.equal(one, two)
    assert (labels_one is None) == (labels_two is None)
    assert one.shape == IMAGES.shape
    assert 0 <= float(one.min()) <= float(one.max()) <= 1
    other, _ = augmented(IMAGES, LABELS, how, seeded(2))
    assert not torch.equal(one, other)


def test_half_of_the_batches_are_mixed():
    how = Augmentation(mix="mixup")
    count = sum(augmented(IMAGES, LABELS, how, seeded(seed))[1] is not None for seed in range(400))
    assert 165 <= count <= 235       # 200 expected, deviation 10


def test_nothing_asked_for_changes_nothing():
    same, labels = augmented(IMAGES, LABELS, Augmentation(), seeded())
    assert same is IMAGES
    assert labels is None


@pytest.mark.parametrize("fields", [{"shift": -1}, {"mix": "blend"}, {"erase": 1.5}, {"erase": -0.1},
                                    {"rand_augment": 9}, {"flip": 2}])
def test_settings_out_of_range_are_refused(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        Augmentation(**fields)


def test_without_kornia_the_sentence_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install -e '\.\[train\]'"):
        check_kornia(Augmentation(erase=0.5))


def test_without_kornia_every_recipe_can_still_be_listed(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert Augmentation(erase=0.5).erase == 0.5


