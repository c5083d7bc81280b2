"""The constants hold for any weights: compared with singular values of the maps written out as matrices."""

import pytest
import torch

from frost.core.lipschitz import AolMap, Chain, MaxMin, TokenMix, aol_linear


def operator_norm(module, shape) -> float:
    zero = torch.zeros(1, *shape, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(module, zero).reshape(zero.numel(), -1)
    return torch.linalg.matrix_norm(jacobian, 2).item()


@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("kernel", [None, 1, 3, 5])
def test_rescaled_maps_never_exceed_one(kernel, spread):
    module = AolMap(4, 4, kernel=kernel, bias=False).double()
    torch.nn.init.normal_(module.weight, std=spread)
    assert operator_norm(module, (4,) if kernel is None else (4, 6, 6)) <= module.lipschitz + 1e-9


def test_an_orthogonal_matrix_is_left_as_it_is():
    matrix = torch.linalg.qr(torch.randn(5, 5).double()).Q
    torch.testing.assert_close(aol_linear(matrix), matrix)


def test_a_zero_kernel_stays_finite():
    module = AolMap(4, 4, kernel=3)
    module.weight.data.zero_()
    assert torch.isfinite(module(torch.rand(1, 4, 5, 5))).all()


@pytest.mark.parametrize("groups", [1, 2])
def test_token_mixing_never_exceeds_one(groups):
    module = TokenMix(5, groups).double()
    torch.nn.init.normal_(module.weight, std=3)
    assert operator_norm(module, (5, 4)) <= module.lipschitz + 1e-9


def test_sorting_pairs_keeps_the_norm():
    hidden = torch.randn(3, 8, 4, 4)
    torch.testing.assert_close(MaxMin()(hidden).norm(), hidden.norm())


def test_a_chain_multiplies_constants():
    assert Chain(AolMap(4, 4), MaxMin(), Chain(AolMap(4, 4), factor=0.5), factor=0.8).lipschitz == pytest.approx(0.4)


def test_a_negative_factor_counts_by_its_size():
    assert Chain(AolMap(4, 4), factor=-5.0).lipschitz == 5.0


def test_parts_without_a_constant_are_refused():
    with pytest.raises(ValueError, match="states no constant"):
        Chain(torch.nn.Linear(4, 4))
    with pytest.raises(ValueError, match="finite"):
        Chain(AolMap(4, 4), factor=float("nan"))
    with pytest.raises(ValueError, match="even number"):
        MaxMin()(torch.rand(1, 3))


def test_the_bound_is_computed_in_full_precision_under_autocast():
    module = AolMap(16, 16, bias=False)
    torch.nn.init.normal_(module.weight)
    exact = module.bounded_weight()
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(module.bounded_weight(), exact, rtol=0, atol=0)


def test_rescaling_happens_once_in_an_unrolling():
    from frost.core.weight_cache import one_unrolling

    module = AolMap(4, 4)
    with one_unrolling():
        first, second = module.bounded_weight(), module.bounded_weight()
    assert first is second
    assert first.requires_grad
    assert module.bounded_weight() is not first
