"""Contraction is a promise about all pairs of states: gradient ascent looks for the worst one (App. B)."""

from dataclasses import replace
from functools import cache

import pytest
import torch

from frost.core.model import Frost
from frost.data.digits import load_digits
from frost.halting.ranking import HaltingConfig
from frost.paper.measurements import contraction_and_jacobian as stability
from frost.training.loop import fit
from frost.training.settings import TrainConfig
from frost.zoo.registry import SIZES, build

FORMS = {"convolutional": "resnet-8px", "token": "vit-8px"}
ROUNDING = 1e-9    # everything runs in double precision


@cache
def model_of(form: str, rule: str, is_trained: bool) -> Frost:
    model = build(replace(SIZES[FORMS[form]], update=rule, depth=6, channels=16, heads=2), seed=1)
    if is_trained:
        data = load_digits().train
        config = TrainConfig(epochs=2, batch=64, learning_rate=0.02)
        for record in fit(model, data, config, HaltingConfig()):
            last = record
        assert last.gradient_norm > 0
    return model.double().eval()


def step_of(model: Frost, images: torch.Tensor):
    """h → Φ(h, x), each row of h with its own image."""
    with torch.no_grad():
        state = model.begin(images.double())
    return lambda hidden: model.step(state._replace(hidden=hidden, step=None)).hidden


def images(count: int) -> torch.Tensor:
    return load_digits().test.images[:count]


def worst_ratio(model: Frost, count: int = 6) -> float:
    """The largest expansion that ascents find from the model's own last states and from states of other sizes."""
    with torch.no_grad():
        states = model(images(count).double()).states
    step = step_of(model, images(count))
    starts = (states[:, -1], 10 * torch.randn_like(states[:, 0]), 0.1 * torch.randn_like(states[:, 0]))
    return max(stability.worst_pair(step, start).ratio for start in starts)


cases = pytest.mark.parametrize(("form", "rule", "is_trained"), [
    (form, rule, is_trained) for form in FORMS for rule in ("contractive", "theorem") for is_trained in (False, True)])


@pytest.mark.slow
@cases
def test_the_worst_pair_that_can_be_found_obeys_the_constant(form, rule, is_trained):
    model = model_of(form, rule, is_trained)
    assert 0.3 * model.lipschitz < worst_ratio(model) <= model.lipschitz + ROUNDING
    assert model.lipschitz < 1


@pytest.mark.slow
@cases
def test_the_error_bound_holds_at_every_step(form, rule, is_trained):
    model = model_of(form, rule, is_trained)
    with torch.no_grad():
        step = step_of(model, images(1))
        limit = stability.fixed_point(step, torch.zeros_like(model.begin(images(1).double()).hidden), tolerance=1e-11)
        states = [model.begin(images(1).double()).hidden]
        for _ in range(20):
            states.append(step(states[-1]))
        first_move = (states[1] - states[0]).norm().item()
        errors = stability.distances(torch.stack(states, dim=1), limit)[0].tolist()
        for t, error in enumerate(errors):
            assert error <= stability.error_bound(model.lipschitz, first_move, t) + ROUNDING
        for t in range(1, 20):
            travel = (states[20] - states[t]).norm().item()
            last_move = (states[t] - states[t - 1]).norm().item()
            assert travel <= stability.remaining_travel(model.lipschitz, last_move, 20 - t) + ROUNDING
    assert errors[-1] < errors[1]


@pytest.mark.slow
@cases
def test_the_jacobian_of_many_steps_is_bounded(form, rule, is_trained):
    model = model_of(form, rule, is_trained)
    step = step_of(model, images(1))
    hidden = torch.randn_like(model.begin(images(1).double()).hidden)
    for steps in (1, 3):
        def many(h, steps=steps):
            for _ in range(steps):
                h = step(h)
            return h
        assert stability.jacobian_norm(many, hidden, iterations=30) <= model.lipschitz**steps + ROUNDING


@pytest.mark.parametrize("form", FORMS)
def test_control_the_residual_rule_with_large_weights_fails_the_same_search(form):
    model = build(replace(SIZES[FORMS[form]], depth=6, channels=16, heads=2), seed=1).double().eval()
    with torch.no_grad():
        for parameter in model.transition.parameters():
            if parameter.ndim > 1:
                parameter.mul_(5)
    assert model.lipschitz is None
    assert worst_ratio(model) > 1.5


def test_the_bounds_refuse_what_is_no_contraction():
    for constant in (1.0, 1.2, -0.1, float("nan")):
        with pytest.raises(ValueError, match="0 ≤ L < 1"):
            stability.error_bound(constant, 1.0, 3)
        with pytest.raises(ValueError, match="0 ≤ L < 1"):
            stability.remaining_travel(constant, 1.0, 3)


def test_a_map_that_does_not_converge_has_no_fixed_point_to_find():
    with pytest.raises(ValueError, match="did not converge"):
        stability.fixed_point(lambda h: 2 * h + 1, torch.zeros(1, 1), most=50)


def test_the_search_finds_the_norm_of_a_linear_map():
    matrix = torch.tensor([[3.0, 1.0], [0.0, 2.0]]).double()
    worst = stability.worst_pair(lambda h: h @ matrix.t(), torch.randn(4, 2).double(), ascents=300)
    assert worst.ratio == pytest.approx(torch.linalg.matrix_norm(matrix, 2).item(), rel=1e-3)
    found = stability.expansion(lambda h: h @ matrix.t(), worst.first, worst.second).item()
    assert found == pytest.approx(worst.ratio)
