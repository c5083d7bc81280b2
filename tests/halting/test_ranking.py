import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from frost.halting.ranking import HaltingConfig, batch_time_ranks, easy_and_hard


@given(st.integers(1, 6), st.integers(2, 6), st.integers(0, 100))
def test_ranks_are_a_permutation(images, steps, seed):
    losses = torch.randn(images, steps, generator=torch.Generator().manual_seed(seed))
    assert sorted(batch_time_ranks(losses).flatten().tolist()) == list(range(1, images * steps + 1))


@pytest.mark.parametrize("rank_by", ["loss", "gain"])
def test_no_pair_is_both_easy_and_hard(rank_by):
    for seed in range(20):
        losses = torch.rand(5, 4, generator=torch.Generator().manual_seed(seed))
        easy, hard = easy_and_hard(losses, HaltingConfig(rank_by=rank_by))
        assert not (easy & hard).any()
        assert easy.any()
        assert hard.any()


def test_every_easy_pair_has_a_smaller_loss_than_every_hard_pair():
    losses = torch.rand(9, 6)
    easy, hard = easy_and_hard(losses, HaltingConfig())
    assert losses[easy].max() < losses[hard].min()
    assert easy.sum() == hard.sum() == int(0.25 * 54)


def test_settled_images_are_easy_by_gain_even_when_they_are_wrong():
    losses = torch.tensor([[5.0, 5.0, 5.0], [2.0, 1.0, 0.1]])    # hopeless from the start; still improving
    easy, hard = easy_and_hard(losses, HaltingConfig(rank_by="gain"))
    assert easy[0, :2].any()
    assert not easy[1].any()
    assert hard[1, 0]
    easy, _ = easy_and_hard(losses, HaltingConfig(rank_by="loss"))
    assert not easy[0].any()


def test_nobody_is_ranked_by_gain_at_the_last_step():
    easy, hard = easy_and_hard(torch.rand(8, 5), HaltingConfig(rank_by="gain", fraction=0.5))
    assert not (easy | hard)[:, -1].any()
    assert (easy | hard)[:, :-1].all()


def test_a_single_pair_is_neither_easy_nor_hard():
    easy, hard = easy_and_hard(torch.rand(1, 1), HaltingConfig())
    assert not easy.any()
    assert not hard.any()


def test_ranking_by_gain_needs_two_steps():
    with pytest.raises(ValueError, match="at least 2"):
        easy_and_hard(torch.rand(3, 1), HaltingConfig(rank_by="gain"))


@pytest.mark.parametrize("fields", [
    {"fraction": 0.0}, {"fraction": 0.6}, {"margin": -0.1}, {"anchoring_weight": -1.0}, {"rank_by": "gains"},
    {"reduce": "max"}, {"refit": 2.5}, {"calibrate": "last-epoch", "refit": 4},
    {"calibrate": "last-epoch", "objective": "act"}])
def test_a_bad_configuration_is_refused(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        HaltingConfig(**fields)
