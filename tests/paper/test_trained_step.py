"""The bounds of App. B on a model: what depends on weights alone is computed once, and nothing else changes."""

from dataclasses import replace

import torch

from frost.core.lipschitz import AolMap
from frost.data.digits import load_digits
from frost.paper.measurements import trained_step as contraction
from frost.zoo.registry import SIZES, build

CONFIG = replace(SIZES["resnet-8px"], channels=8, update="contractive", depth=3)


def test_one_look_at_the_weights_gives_what_many_give(monkeypatch):
    monkeypatch.setattr(contraction, "ASCENTS", 2)
    monkeypatch.setattr(contraction, "POWER", 2)
    model, test = build(CONFIG, seed=0), load_digits().test
    twin = build(CONFIG, seed=0).double().eval().requires_grad_(False)
    looks = []
    monkeypatch.setattr(AolMap, "bounded_weight", _counted(AolMap.bounded_weight, looks))
    fast = contraction.theory(model, test, 2)
    slow = contraction.contraction_of(twin, test.batch(torch.arange(2)).double())
    assert fast == slow
    half = len(looks) // 2
    assert len(set(looks[1:half])) < len(set(looks[half:])) / 10    # the fast way hands out the same tensor again


def _counted(look, looks):
    kept = []    # so that no address is used twice

    def wrapper(self):
        weight = look(self)
        kept.append(weight)
        looks.append(id(weight))
        return weight

    return wrapper
