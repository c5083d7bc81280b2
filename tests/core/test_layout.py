import pytest
import torch
from torch import nn

from frost.core import layout
from frost.core.layout import ChannelMap, ChannelNorm, channel_axis, default_layout, pool


def test_pooling_a_map_equals_pooling_its_positions_as_tokens():
    tokens = torch.randn(2, 12, 5)
    maps = tokens.transpose(1, 2).reshape(2, 5, 3, 4)
    torch.testing.assert_close(pool(maps, 1), pool(tokens, -1))


@pytest.mark.parametrize(("shape", "axis"), [((2, 5), -1), ((2, 9, 5), -1), ((2, 5, 9), 1), ((2, 5, 4, 4), 1),
                                             ((2, 5, 5, 5), 1), ((2, 5, 3, 4, 4), 1)])
def test_the_number_of_channels_says_where_they_are(shape, axis):
    assert channel_axis(shape, 5) == axis


def test_where_it_does_not_the_user_has_to():
    with pytest.raises(ValueError, match="say which with layout='tokens' or layout='maps'"):
        channel_axis((2, 5, 5), 5)
    assert channel_axis((2, 5, 5), 5, "tokens") == -1
    assert channel_axis((2, 5, 5), 5, "maps") == 1
    assert channel_axis((2, 4, 4, 5), 5, "tokens") == -1


@pytest.mark.parametrize(("shape", "layout"), [((2, 4), "auto"), ((2, 9, 4), "auto"), ((2, 4, 8, 8), "auto"),
                                               ((2, 4, 4, 5), "auto"), ((2, 9, 5), "maps"), ((2, 5, 9), "tokens")])
def test_a_state_without_the_channels_is_refused(shape, layout):
    with pytest.raises(ValueError, match="must give 5 channels"):
        channel_axis(shape, 5, layout)


@pytest.mark.parametrize(("shape", "axis"), [((3, 7, 6), -1), ((3, 6, 7), 1), ((3, 6, 4, 2), 1)])
def test_only_positions_that_count_are_pooled(shape, axis):
    hidden = torch.randn(shape)
    positions = shape[2:] if axis == 1 else shape[1:-1]
    mask = torch.rand(3, *positions) < 0.5
    mask.view(3, -1)[:, 0] = True
    rows = (hidden.flatten(2).transpose(1, 2) if axis == 1 else hidden).reshape(3, -1, 6)
    by_hand = torch.stack([row[keep.flatten()].mean(dim=0) for row, keep in zip(rows, mask, strict=True)])
    torch.testing.assert_close(pool(hidden, axis, mask), by_hand)
    torch.testing.assert_close(ChannelNorm(6).pooled(hidden, mask), pool(ChannelNorm(6)(hidden), axis, mask))


def test_a_vector_is_its_own_pool():
    vectors = torch.randn(2, 5)
    assert pool(vectors, -1) is vectors


def test_the_channel_map_is_the_same_for_maps_as_for_tokens():
    tokens = torch.randn(2, 12, 5)
    maps = tokens.transpose(1, 2).reshape(2, 5, 3, 4)
    mix = ChannelMap(5, 7, bias=True)
    torch.testing.assert_close(mix(maps).flatten(2).transpose(1, 2), mix(tokens))


def test_the_channel_norm_of_a_map_is_the_layer_norm_of_its_positions():
    tokens = torch.randn(2, 12, 5)
    maps = tokens.transpose(1, 2).reshape(2, 5, 3, 4)
    norm = ChannelNorm(5)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    torch.testing.assert_close(norm(maps).flatten(2).transpose(1, 2), norm(tokens))


def test_grey_images_from_numpy_lose_their_ambiguous_strides():
    images = torch.rand(3, 8, 8).numpy()[:, None]
    tensor = torch.from_numpy(images)
    assert default_layout(tensor).stride() == (64, 64, 8, 1)
    torch.testing.assert_close(default_layout(tensor), tensor)


@pytest.mark.parametrize("rectify", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((3, 6, 4, 5), 1), ((3, 7, 6), -1), ((3, 6), -1), ((3, 6, 9), 1),
                                             ((3, 6, 2, 3, 4), 1)])
def test_the_fast_normalised_pool_equals_the_obvious_one(shape, axis, rectify):
    norm = ChannelNorm(6, rectify).double()
    with torch.no_grad():
        norm.weight.normal_()
        norm.bias.normal_()
    fast, slow = (torch.randn(shape, dtype=torch.double, generator=torch.Generator().manual_seed(0)).requires_grad_()
                  for _ in range(2))
    one, two = norm.pooled(fast), pool(norm(slow), axis)
    torch.testing.assert_close(one, two)
    for values, leaf in ((one, fast), (two, slow)):
        (values * torch.arange(6.0, dtype=torch.double)).square().sum().backward()
        assert leaf.grad.is_contiguous()      # channels-last gradients crash the convolution before it
    torch.testing.assert_close(fast.grad, slow.grad)


@pytest.mark.parametrize("rectify", [False, True])
def test_large_maps_are_read_one_by_one_and_give_the_same(rectify, monkeypatch):
    norm = ChannelNorm(6, rectify)
    with torch.no_grad():
        norm.weight.normal_()
        norm.bias.normal_()
    hidden = 3 + 2 * torch.randn(5, 6, 7, 9)
    with torch.no_grad():
        monkeypatch.setattr(layout, "LARGE", 6 * 7 * 9)
        fast = norm.pooled(hidden)
        torch.testing.assert_close(fast, pool(norm(hidden), 1))
        assert torch.equal(norm.pooled(hidden[2:3])[0], fast[2])          # whatever else is there
        assert norm.pooled(hidden[:0]).shape == (0, 6)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(norm.pooled(hidden), fast)
        monkeypatch.setattr(ChannelNorm, "_pooled_map", None)
        with pytest.raises(TypeError):                                    # it was that way that was taken
            norm.pooled(hidden)


def test_rectifying_pools_the_positive_part_only():
    hidden = torch.randn(2, 6, 4, 4)
    assert torch.equal(ChannelNorm(6, True)(hidden), ChannelNorm(6)(hidden).clamp_min(0))
    assert bool((ChannelNorm(6, True).pooled(hidden) >= 0).all())
