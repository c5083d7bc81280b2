"""A batch that shrinks in its own memory."""

import itertools

import pytest
import torch

from frost.core.trajectory import State
from frost.runtime.live import Live


def live(count: int, drive: torch.Tensor | None) -> Live:
    """A batch whose every number tells its row."""
    rows = torch.arange(count)
    wide = rows[:, None].float().repeat(1, 3)
    return Live(State(wide.clone(), drive, wide.clone(), None), (rows.float(),), rows.clone(), wide[:, None].clone(),
                wide.clone(), rows.float(), wide.clone(), rows.clone(), rows.clone())


@pytest.mark.parametrize("has_drive", [True, False])
def test_a_smaller_batch_holds_the_rows_that_stay(has_drive):
    for count in (1, 2, 5):
        for size in range(1, count + 1):
            for staying in itertools.combinations(range(count), size):
                drive = torch.arange(count)[:, None].float().repeat(1, 2) if has_drive else None
                small, order = live(count, drive).shrunk_to(list(staying))
                assert sorted(order) == list(staying)
                for part in small.tensors():
                    assert part.flatten(1).T[0].tolist() == order if part.ndim > 1 else part.tolist() == order


def test_rows_that_stay_in_front_are_not_copied():
    batch = live(5, None)
    small, order = batch.shrunk_to([0, 1, 4])
    assert order == [0, 1, 4]
    assert small.state.hidden.data_ptr() == batch.state.hidden.data_ptr()
    assert live(5, None).shrunk_to([1, 2, 4])[1] == [4, 1, 2]


def test_what_a_model_expands_over_the_batch_keeps_its_value():
    shared = torch.ones(1, 2)
    small, _ = live(4, shared.expand(4, 2)).shrunk_to([2, 3])
    assert torch.equal(small.state.drive, torch.ones(2, 2))
    assert torch.equal(shared, torch.ones(1, 2))
