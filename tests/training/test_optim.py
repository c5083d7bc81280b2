"""Muon beside AdamW, what is decayed, the learning rate, and the averaged weights."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import nn

import frost
from frost.data.splits import Split
from frost.halting.ranking import HaltingConfig
from frost.training.loop import Training, go_on
from frost.training.optim import (
    MUON_MOMENTUM,
    MUON_RATE,
    Muon,
    learning_rate_at,
    make_optimizer,
    orthogonalised,
    parameter_groups,
    update_ema,
)
from frost.training.settings import RuntimeConfig, TrainConfig
from frost.zoo.registry import SIZES, build

MODEL = replace(SIZES["resnet-8px"], channels=16, bottleneck=8, depth=3, backbone="resnet-ws")


@pytest.mark.parametrize("shape", [(5, 12), (12, 5), (8, 8)])
def test_singular_values_are_pulled_to_one(shape):
    torch.manual_seed(0)
    left, values, right = torch.linalg.svd(torch.randn(shape, dtype=torch.double), full_matrices=False)
    values = torch.linspace(0.3, 1.0, len(values), dtype=torch.double)
    matrix = left @ torch.diag(values) @ right
    found = torch.linalg.svdvals(orthogonalised(matrix))
    assert bool(((found > 0.6) & (found < 1.3)).all())
    assert float((orthogonalised(matrix) * (left @ right)).sum()) > 0.9 * len(values) * 0.8    # towards U Vᵀ
    assert not orthogonalised(torch.zeros(shape)).any()


def test_a_step_by_hand():
    torch.manual_seed(0)
    model = build(MODEL, seed=0)
    optimizer = make_optimizer(model, 1e-3, 0.05, "muon")
    assert isinstance(optimizer, Muon)
    kernel = optimizer.param_groups[-1]["params"][0]
    taken = {id(part) for part in optimizer.param_groups[-1]["params"]}
    others = [part for part in model.parameters() if id(part) not in taken]
    twins = [part.detach().clone().requires_grad_() for part in others]
    plain = torch.optim.AdamW([{"params": [p for p in twins if p.ndim >= 2], "weight_decay": 0.05},
                               {"params": [p for p in twins if p.ndim < 2], "weight_decay": 0.0}], lr=1e-3)
    for part in model.parameters():
        part.grad = torch.randn_like(part)
    for twin, part in zip(twins, others, strict=True):
        twin.grad = part.grad.clone()
    before, gradient = kernel.detach().clone(), kernel.grad.clone()
    optimizer.step()
    plain.step()
    unit = before * len(before) ** 0.5 / before.norm()
    towards = orthogonalised((gradient + MUON_MOMENTUM * gradient).flatten(1)).view_as(before)
    torch.testing.assert_close(kernel.detach(), unit - MUON_RATE * 1e-3 * towards)
    for twin, part in zip(twins, others, strict=True):
        torch.testing.assert_close(part.detach(), twin.detach())


def test_a_training_with_muon_goes_on_bit_for_bit(tmp_path):
    torch.manual_seed(0)
    batches = [(torch.rand(8, 1, 8, 8), torch.randint(10, (8,))) for _ in range(4)]
    settings = {"config": TrainConfig(epochs=2, optimizer="muon", learning_rate=1e-3, precision="float32"),
                "runtime": RuntimeConfig(save_every=1), "is_shown": False}
    straight = build(MODEL, seed=0)
    frost.fit(straight, batches, **settings)

    class Pulled(list):
        def __iter__(self):
            yield self[0]
            yield self[1]
            raise OSError("pulled")

    with pytest.raises(OSError, match="pulled"):
        frost.fit(build(MODEL, seed=0), Pulled(batches), out=tmp_path / "run", **settings)
    resumed = build(MODEL, seed=0)
    frost.fit(resumed, batches, out=tmp_path / "run", resume=True, **settings)
    assert all(torch.equal(a, b) for a, b in zip(straight.state_dict().values(), resumed.state_dict().values(),
                                                 strict=True))


def test_nothing_scalar_is_decayed():
    model = build(SIZES["vit-8px"])
    decayed, free = (set(map(id, group["params"])) for group in parameter_groups(model, 0.1))
    by_name = {name: id(parameter) for name, parameter in model.named_parameters()}
    assert by_name["scale.raw"] in free
    assert by_name["stem.positions"] in free
    assert by_name["norm.weight"] in free
    assert by_name["head.readout.bias"] in free
    assert by_name["transition.mlp.0.weight"] in decayed
    assert len(decayed) + len(free) == len(by_name)


def test_the_learning_rate_warms_up_then_falls_to_zero():
    rates = [learning_rate_at(step, 100, 10, 1.0) for step in range(1, 101)]
    assert rates[:10] == pytest.approx([i / 10 for i in range(1, 11)])
    assert all(later <= earlier for earlier, later in pairwise(rates[9:]))
    assert 0 < rates[-1] < 0.001
    assert learning_rate_at(1, 1, 0, 1.0) == 1.0


def test_the_average_follows_the_weights():
    data = Split(torch.rand(8, 1, 8, 8), torch.arange(8))
    config = TrainConfig(epochs=1, batch=8, learning_rate=0.01, ema=0.9, precision="float32")
    training = Training.begin(build(MODEL, seed=3), config)
    start = [parameter.clone() for parameter in training.model.parameters()]
    next(go_on(training, data, config, HaltingConfig()))
    for before, now, mean in zip(start, training.model.parameters(), training.ema.parameters(), strict=True):
        share = 1 - 2 / 11                    # the first step counts for 1 − (1 + 1) / (10 + 1)
        assert torch.allclose(mean, before + share * (now - before), atol=1e-6)


def test_late_steps_count_by_the_decay_and_counts_are_copied():
    ema, model = (nn.Sequential(nn.BatchNorm1d(2)) for _ in range(2))
    with torch.no_grad():
        model[0].weight.fill_(3.0)
        model[0].running_mean.fill_(10.0)
        model[0].num_batches_tracked.fill_(7)
    update_ema(ema, model, step=1000, decay=0.9)
    assert torch.allclose(ema[0].weight, torch.full((2,), 0.9 * 1.0 + 0.1 * 3.0))
    assert torch.allclose(ema[0].running_mean, torch.full((2,), 1.0))
    assert int(ema[0].num_batches_tracked) == 7
