import pytest
import torch

from conftest import small_frost
from frost.core.inference import run_batches
from frost.core.model import FrostConfig


@pytest.fixture
def model():
    return small_frost(FrostConfig(depth=3))


def test_what_is_kept_comes_in_the_order_of_the_batches(model, images):
    batches = [(images[:2], "first"), (images[2:], "second")]
    found = run_batches(model, batches, lambda whole, name: (name, whole.outputs))
    assert [name for name, _ in found] == ["first", "second"]
    whole = model.eval()(images).outputs
    assert torch.allclose(torch.cat([outputs for _, outputs in found]), whole, atol=1e-5)


def test_states_are_kept_and_more_steps_taken_only_where_asked_for(model, images):
    def shapes(whole, _):
        return whole.states is not None, whole.depth

    assert run_batches(model, [(images, None)], shapes) == [(False, 3)]
    assert run_batches(model, [(images, None)], shapes, depth=5, keep_states=True) == [(True, 5)]


def test_reports_count_inputs(model, images):
    seen = []
    batches = [(part, None) for part in images.split(2)]
    run_batches(model, batches, lambda *_: None, report=lambda done, text: seen.append(done))
    assert seen == [2, 4, 5]


def test_inputs_are_brought_to_the_precision_of_the_model(model, images):
    (dtype,) = run_batches(model.double(), [(images.float(), None)], lambda whole, _: whole.outputs.dtype)
    assert dtype == torch.double


def test_a_model_is_in_its_own_mode_again_even_after_an_error(model, images):
    model.train()
    model.stem.eval()

    def broken(whole, _):
        assert not whole.outputs.requires_grad
        assert not model.training
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        run_batches(model, [(images, None)], broken)
    assert model.training
    assert not model.stem.training
    assert torch.is_grad_enabled()
