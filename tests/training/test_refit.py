import copy

import pytest
import torch

from frost.data.augment import Augmentation
from frost.data.digits import load_digits
from frost.halting.ranking import HaltingConfig, difficulty, easy_and_hard
from frost.training.losses import anchoring_loss, relative_loss, step_losses
from frost.training.refit import collect_examples, fit_score, images_of, refit
from frost.zoo.registry import SIZES, build

HALTING = HaltingConfig(refit=200)


@pytest.fixture
def model():
    from dataclasses import replace

    return build(replace(SIZES["resnet-8px"], channels=16, bottleneck=8, depth=4, score_sees="output"), seed=0)


def test_only_the_score_changes(model):
    before = copy.deepcopy(model.state_dict())
    refit(model, load_digits().train, HALTING, Augmentation(shift=1), seed=0)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"head.score.linear.weight", "head.score.linear.bias", "head.score.decided.weight"}


def test_the_same_start_gives_the_same_score(model):
    twin = copy.deepcopy(model)
    for one in (model, twin):
        refit(one, load_digits().train, HALTING, Augmentation(), seed=3)
    assert torch.equal(model.head.score.linear.weight, twin.head.score.linear.weight)


def test_averaged_weights_which_are_frozen_stay_so(model):
    model.requires_grad_(False)
    before = model.head.score.linear.weight.clone()
    refit(model, load_digits().train, HALTING, Augmentation(), seed=0)
    assert not torch.equal(model.head.score.linear.weight, before)
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_the_ranking_losses_fall(model):
    data = load_digits().train
    examples = collect_examples(model, images_of(data, torch.arange(400), None, 0), 300)
    assert len(examples.losses) == 300
    by_wins = HaltingConfig(rank_by="wins")
    easy, hard = easy_and_hard(examples.losses, by_wins, examples.quality)

    def loss():
        logits = model.head.score(examples.features, examples.output_features)
        return (0.7 * relative_loss(logits, easy, hard, 0.2) + 0.3 * anchoring_loss(logits, easy, hard)).item()

    before = loss()
    fit_score(model.head.score, examples, by_wins, seed=0)
    assert loss() < before


def test_what_it_looks_at_is_what_the_model_reads(model):
    data = load_digits().train
    examples = collect_examples(model, images_of(data, torch.arange(5), None, 0), 5)
    trajectory = model.eval()(data.batch(torch.arange(5)))
    assert torch.allclose(examples.losses, step_losses(trajectory.outputs, data.labels[:5]), atol=1e-5)
    assert torch.equal(examples.quality > 0, trajectory.outputs.argmax(-1) == data.labels[:5, None])
    logits = model.head.score(examples.features, examples.output_features)
    assert torch.allclose(logits, trajectory.score_logits, atol=1e-5)


def test_wins_by_hand():
    correct = torch.tensor([[False, False, True], [True, True, True], [False, True, False]])
    assert difficulty(torch.rand(3, 3), "wins", correct).tolist() == [[1, 1], [0, 0], [0, -1]]


def test_what_going_on_sets_right_is_hard_and_all_else_easy():
    correct = torch.tensor([[False, False, True], [True, True, True], [False, True, False]])
    easy, hard = easy_and_hard(torch.rand(3, 3), HaltingConfig(rank_by="wins"), correct)
    assert hard.tolist() == [[True, True, False], [False, False, False], [False, False, False]]
    assert easy.tolist() == [[False, False, False], [True, True, False], [True, True, False]]


def test_a_score_that_was_taught_otherwise_is_not_taught_ranks():
    with pytest.raises(ValueError, match="refit teaches ranks"):
        HaltingConfig(objective="act", refit=10)
