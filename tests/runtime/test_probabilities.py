"""Probabilities of an answer are the softmax in double precision."""

import pytest
import torch

from frost.runtime.probabilities import probabilities, surest


@pytest.mark.parametrize("shape", [(7,), (3, 4, 5)])
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_probabilities_are_the_softmax(shape, size):
    output = size * torch.randn(shape)
    expected = output.double().softmax(dim=-1)
    torch.testing.assert_close(torch.from_numpy(probabilities(output)), expected, rtol=1e-12, atol=1e-300)


def test_the_surest_class_has_the_largest_share():
    output = torch.tensor([0.0, 2.0, -1.0])
    label, confidence = surest(output)
    assert label == 1
    assert confidence == pytest.approx(float(output.double().softmax(dim=-1)[1]), rel=1e-12)
