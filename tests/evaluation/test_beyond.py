"""Sizes beyond training, and more steps than T."""

import pytest
import torch

from frost.core.head import Dense
from frost.core.model import Frost
from frost.evaluation.beyond import quality_after
from frost.evaluation.traces import trace


def test_quality_after_some_steps_is_that_of_reading_every_step():
    block = torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.Linear(8, 8), torch.nn.Tanh())
    model = Frost(torch.nn.Linear(3, 8), block, head=Dense(8, 2), depth=2).eval()
    batches = [(torch.randn(count, 2, 3), torch.randint(2, (count, 2))) for count in (30, 7)]

    every = trace(model, batches, [], depth=8).quality.mean(dim=0)

    assert quality_after(model, batches, (2, 4, 8)) == {step: every[step - 1].item() for step in (2, 4, 8)}
    assert 0 < every[1].item() < 1


def test_steps_in_any_order_keep_their_quality():
    model = Frost(torch.nn.Linear(3, 8), torch.nn.Linear(8, 8), channels=8, classes=2, depth=2).eval()
    batches = [(torch.randn(50, 3), torch.randint(2, (50,)))]

    one_by_one = {step: quality_after(model, batches, [step])[step] for step in (1, 5)}

    assert quality_after(model, batches, (5, 1)) == pytest.approx(one_by_one)
