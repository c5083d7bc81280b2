"""`frost.create`: a model by name, new or with the weights of a run."""

import pytest
import torch

import frost


def test_an_architecture_by_name():
    model = frost.create("frost-resnet-8px", classes=7, seed=3)
    assert model(torch.rand(2, 1, 8, 8)).outputs.shape == (2, 8, 7)
    twin = frost.create("frost-resnet-8px", classes=7, seed=3)
    assert torch.equal(model.head.readout.weight, twin.head.readout.weight)


def test_a_run_with_its_own_classes_has_all_of_its_weights():
    ours, run = frost.create("digits", pretrained=True).state_dict(), frost.load("digits").model.state_dict()
    assert all(torch.equal(ours[name], run[name]) for name in run)


def test_other_classes_get_a_new_head_and_nothing_else():
    model, run = frost.create("digits", classes=3, pretrained=True), frost.load("digits").model.state_dict()
    ours = model.state_dict()
    differ = {name for name in run if run[name].shape != ours[name].shape or not torch.equal(run[name], ours[name])}
    assert differ == {"head.readout.weight", "head.readout.bias", "head.feedthrough.weight", "head.score.linear.weight",
                      "head.score.linear.bias", "head.score.decided.weight"}
    assert model(torch.rand(2, 1, 8, 8)).outputs.shape == (2, 8, 3)
    frost.fit(model, [(torch.rand(8, 1, 8, 8), torch.randint(3, (8,)))], epochs=1, is_shown=False)


def test_a_run_without_its_weights_is_its_architecture():
    assert frost.create("digits", seed=0).zoo_config == frost.load("digits").model.zoo_config


@pytest.mark.parametrize(("arguments", "sentence"), [
    ({"name": "frost-vitb16"}, "Did you mean 'frost-vit-b16'"), ({"name": "digit"}, "Did you mean 'digits'"),
    ({"name": "frost-vit-b16", "pretrained": True}, "an architecture without weights"),
    ({"name": "digits", "classes": 1}, "classes must be at least 2")])
def test_what_cannot_be_made_is_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        frost.create(**arguments)
