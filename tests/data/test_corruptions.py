import pytest
import torch

from frost.data.corruptions import KINDS, corrupted


@pytest.mark.parametrize("kind", KINDS)
def test_a_corruption_grows_with_its_severity(kind):
    images = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    changes = [(corrupted(images, kind, severity) - images).abs().mean().item() for severity in (1, 3, 5)]
    assert 0 < changes[0] < changes[1] < changes[2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_corruption_keeps_shape_and_range(kind):
    found = corrupted(torch.rand(4, 1, 8, 8), kind, 5)
    assert found.shape == (4, 1, 8, 8)
    assert found.min() >= 0
    assert found.max() <= 1


def test_the_same_seed_corrupts_the_same_way():
    images = torch.rand(4, 3, 8, 8)
    assert torch.equal(corrupted(images, "noise", 3, seed=7), corrupted(images, "noise", 3, seed=7))
    assert not torch.equal(corrupted(images, "noise", 3, seed=7), corrupted(images, "noise", 3, seed=8))


def test_a_blur_keeps_a_flat_image():
    flat = torch.full((1, 3, 8, 8), 0.3)
    assert torch.allclose(corrupted(flat, "blur", 5), flat, atol=1e-6)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kinds of corruption are noise, blur"):
        corrupted(torch.rand(1, 1, 8, 8), "fog", 1)
