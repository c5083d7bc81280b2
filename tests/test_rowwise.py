import pytest
import torch

from frost.rowwise import RowLinear


@pytest.mark.parametrize("rows", [1, 2, 5, 13, 16, 33])
@pytest.mark.parametrize(("channels", "classes"), [(48, 10), (256, 100), (768, 100)])
def test_a_row_has_the_same_bits_in_any_place(rows, channels, classes):
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        linear, numbers = RowLinear(channels, classes), torch.randn(rows, channels)
        order = torch.randperm(rows)
        with torch.no_grad():
            assert torch.equal(linear(numbers)[order], linear(numbers[order]))
    finally:
        torch.set_num_threads(threads)


def test_it_is_the_linear_map():
    linear, numbers = RowLinear(20, 7), torch.randn(9, 20)
    with torch.no_grad():
        apart = linear(numbers)
    assert torch.allclose(apart, linear(numbers), atol=1e-5)
    assert linear(numbers).requires_grad
