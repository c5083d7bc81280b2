import torch

from frost.data.splits import Split
from frost.training.validation import run_frozen
from frost.zoo.registry import SIZES, build

DATA = Split(torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(24) % 10)


def test_frozen_trajectories_do_not_depend_on_the_batch_they_ran_in():
    model = build(SIZES["resnet-8px"], seed=0)
    whole, pieces = run_frozen(model, DATA.images, keep_states=True), run_frozen(model, DATA.images, batch=7)
    torch.testing.assert_close(whole.outputs, pieces.outputs)
    assert whole.states.shape[:2] == (24, 8)
    model.stem.eval()
    run_frozen(model, DATA.images[:2])
    assert not model.stem.training
    assert pieces.states is None
    assert model.training
