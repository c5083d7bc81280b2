"""`runtime.compile` trains the same model, to rounding."""

import pytest
import torch

from frost.data.splits import Split
from frost.halting.ranking import HaltingConfig
from frost.training.loop import Training, go_on
from frost.training.settings import RuntimeConfig, TrainConfig
from frost.zoo.registry import SIZES, build

DATA = Split(torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(24) % 10)


@pytest.mark.slow
def test_a_compiled_training_has_the_same_losses():
    losses = []
    for compiled in (False, True):
        config = TrainConfig(epochs=2, batch=12, learning_rate=1e-3, ema=0.9, precision="float32")
        training = Training.begin(build(SIZES["resnet-8px"], seed=0), config, runtime=RuntimeConfig(compile=compiled))
        losses.append([record.loss for record in go_on(training, DATA, config, HaltingConfig())])
        assert all(not name.startswith("_orig_mod") for name in training.result.state_dict())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_compiling_excludes_checkpointing():
    with pytest.raises(ValueError, match="exclude one another"):
        RuntimeConfig(compile=True, checkpointing=True)
