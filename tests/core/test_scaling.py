import pytest
import torch

from frost.core.scaling import Scale


def test_a_fixed_hurst_is_no_parameter():
    assert [name for name, _ in Scale(0.5, 0.8).named_parameters()] == ["raw"]


def test_a_learnable_hurst_gets_a_gradient():
    scale = Scale(0.5, 0.8, learn_hurst=True)
    scale.power(1 + scale.hurst).backward()
    # d λ^{1+H} / dH = log λ · λ^{1+H}
    assert scale.hurst.grad.item() == pytest.approx(torch.tensor(0.5).log().item() * 0.5**1.8)


def test_the_scale_gets_a_gradient_through_every_power():
    scale = Scale(0.5, 0.8)
    scale.power(-scale.hurst).backward()
    assert scale.raw.grad.item() == pytest.approx(-0.8 * 0.5**-0.8)


@pytest.mark.parametrize("raw", [-40.0, 0.0, 40.0])
def test_the_sigmoid_form_never_exceeds_one(raw):
    scale = Scale(0.5, 0.8, form="sigmoid")
    scale.raw.data.fill_(raw)
    assert 0.0 < scale.value.item() < 1.0
    assert torch.isfinite(scale.power(-scale.hurst))


def test_hurst_travels_with_the_weights():
    state = Scale(0.5, 0.3).state_dict()
    restored = Scale(0.9, 0.8)
    restored.load_state_dict(state)
    assert restored.hurst.item() == pytest.approx(0.3)
    assert restored.value.item() == pytest.approx(0.5)
