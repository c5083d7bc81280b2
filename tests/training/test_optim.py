"""Muon beside AdamW."""

from dataclasses import replace

import pytest
import torch

import frost
from frost.training.optim import MUON_MOMENTUM, MUON_RATE, Muon, make_optimizer, orthogonalised
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
