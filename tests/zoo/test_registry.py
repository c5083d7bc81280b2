from dataclasses import replace

import pytest
import torch

from frost.core.model import Frost, FrostConfig
from frost.zoo.fold import fold
from frost.zoo.registry import SIZES, ModelConfig, build, named, names

SMALL = [name for name in names() if name.endswith(("32px", "8px"))]


@pytest.mark.parametrize("name", SMALL)
def test_every_small_model_runs_forward_then_backward(name):
    config = named(name)
    model = build(replace(config, depth=3), seed=0)
    trajectory = model(torch.rand(2, config.image_channels, config.image_size, config.image_size))
    assert trajectory.outputs.shape == (2, 3, config.classes)
    (trajectory.outputs.square().sum() + trajectory.score_logits.sum()).backward()
    missing = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert missing == []


@pytest.mark.parametrize("name", [name for name in names() if name.endswith(("b16", "50"))])
def test_the_models_of_the_paper_have_the_papers_shape(name):
    with torch.device("meta"):
        model = build(named(name))
        trajectory = model(torch.empty(1, 3, 224, 224), keep_states=False)
    assert trajectory.outputs.shape == (1, 12 if "vit" in name else 16, 100)


@pytest.mark.parametrize("size", ["vit-8px", "resnet-8px"])
def test_a_folded_zoo_model_gives_the_same_outputs(size):
    model = build(replace(SIZES[size], scale_init=0.4), seed=0).eval()
    images = torch.rand(3, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(fold(model)(images).outputs, model(images).outputs, rtol=1e-5, atol=1e-5)


def test_a_folded_bottleneck_has_no_scaling_left():
    folded = fold(build(SIZES["resnet-8px"], seed=0))
    assert type(folded.transition).__name__ == "Bottleneck"


def transitions_that_share_or_hide_their_last_map() -> dict[str, torch.nn.Module]:
    tied = torch.nn.Linear(16, 16)

    class Odd(torch.nn.Linear):
        def forward(self, hidden):
            return super().forward(hidden).tanh()

    return {"tied": torch.nn.Sequential(tied, torch.nn.Tanh(), tied),
            "parametrized": torch.nn.Sequential(torch.nn.Tanh(), torch.nn.utils.parametrizations.spectral_norm(
                torch.nn.Linear(16, 16))),
            "subclass": torch.nn.Sequential(torch.nn.Tanh(), Odd(16, 16))}


@pytest.mark.parametrize("kind", ["tied", "parametrized", "subclass"])
def test_a_last_map_that_is_not_free_to_change_is_left_alone(kind):
    transition = transitions_that_share_or_hide_their_last_map()[kind]
    stem = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 16))
    model = Frost(stem, transition, channels=16, classes=3, config=FrostConfig(depth=4, scale_init=0.4)).eval()
    images = torch.rand(3, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(fold(model)(images).outputs, model(images).outputs, rtol=1e-5, atol=1e-5)


def test_a_folded_model_runs_no_transition_in_its_first_step():
    folded = fold(build(SIZES["resnet-8px"], seed=0)).eval()
    calls = []
    folded.transition.register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        folded(torch.rand(2, 1, 8, 8))
        folded(torch.rand(2, 1, 8, 8))
    assert len(calls) == 1 + 7 + 7


def test_folding_leaves_the_original_alone():
    model = build(SIZES["resnet-8px"], seed=0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fold(model)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_basic_ssm_may_start_as_a_folded_frost():
    config = replace(SIZES["resnet-8px"], architecture="basic-ssm-folded")
    images = torch.rand(2, 1, 8, 8)
    frost = build(SIZES["resnet-8px"], seed=3)
    torch.testing.assert_close(build(config, seed=3)(images).outputs, frost(images).outputs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rule", ["gated", "contractive", "theorem"])
def test_only_the_residual_rule_folds(rule):
    with pytest.raises(ValueError, match="only the residual rule folds"):
        fold(build(replace(SIZES["resnet-8px"], update=rule)))


def test_only_frost_folds():
    with pytest.raises(ValueError, match="only a Frost model"):
        fold(build(named("recurrent-vit-8px")))


def test_a_seed_gives_the_same_weights_and_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    first, second = build(SIZES["vit-8px"], seed=5), build(SIZES["vit-8px"], seed=5)
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_vanilla_says_what_it_cannot_do():
    model = build(named("vanilla-vit-8px"))
    state = model.begin(torch.rand(1, 1, 8, 8))
    assert not model.stationary
    with pytest.raises(ValueError, match="mixed depths"):
        model.step(state._replace(step=None))
    with pytest.raises(ValueError, match="cannot take step 9"):
        model.step(state._replace(step=8))


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(ValueError, match="Did you mean 'frost-vit-b16'"):
        named("frost-vitb16")


@pytest.mark.parametrize("fields", [
    {"channels": 0}, {"classes": 1}, {"stem": "deep"}, {"stem": "light"}, {"patch": 0}, {"heads": 5},
    {"architecture": "folded"}, {"bottleneck": -1}])
def test_a_bad_configuration_is_refused(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        ModelConfig(**fields)


def test_sizes_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="multiple of patch"):
        build(replace(SIZES["vit-8px"], patch=3))
    with pytest.raises(ValueError, match="must be even"):
        replace(SIZES["resnet-8px"], update="contractive", channels=45)
    assert build(replace(SIZES["resnet-8px"], channels=44)).depth == 8
    with pytest.raises(ValueError, match="1, 2 or 4"):
        build(replace(SIZES["resnet-8px"], patch=3))


def test_contracting_models_state_their_constant():
    for size in ("resnet-8px", "vit-8px"):
        contractive, theorem = (build(replace(SIZES[size], update=rule)) for rule in ("contractive", "theorem"))
        assert isinstance(contractive, Frost)
        assert contractive.lipschitz == pytest.approx(0.5 + 0.5 * 0.9)
        assert theorem.lipschitz == pytest.approx(0.5)


LEAKY = replace(SIZES["resnet-8px"], leaky=True)


def test_a_leaky_model_moves_towards_its_block():
    """h′ = (1 − λ) h + λ g(h) + B_λ(x): what (14) becomes for A = g − id."""
    model = build(LEAKY, seed=0).eval()
    state = model.step(model.begin(torch.rand(2, 1, 8, 8)))
    scale, block = model.scale.value, model.transition.block
    expected = (1 - scale) * state.hidden + scale * block(state.hidden) + state.drive
    torch.testing.assert_close(model.step(state).hidden, expected)


def test_a_leaky_block_starts_larger_and_is_otherwise_the_same():
    plain, leaky = build(SIZES["resnet-8px"], seed=0).transition, build(LEAKY, seed=0).transition.block
    torch.testing.assert_close(leaky[-1].weight, 3.0 * plain[-1].weight)
    assert torch.equal(leaky[2].weight, plain[2].weight)


def test_a_leaky_model_folds_too():
    model = build(replace(LEAKY, backbone="resnet-ws"), seed=0).eval()
    images = torch.rand(2, 1, 8, 8)
    torch.testing.assert_close(fold(model)(images).outputs, model(images).outputs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rule", ["contractive", "theorem"])
def test_a_leak_is_refused_where_it_makes_no_sense(rule):
    with pytest.raises(ValueError, match="leaky is for"):
        replace(LEAKY, update=rule)


@pytest.mark.parametrize("architecture", ["vanilla", "recurrent"])
def test_baselines_keep_their_skip_connection(architecture):
    models = [build(replace(LEAKY, architecture=architecture, leaky=leaky), seed=0).eval() for leaky in (False, True)]
    images = torch.rand(2, 1, 8, 8)
    assert torch.equal(models[0](images).outputs, models[1](images).outputs)


def test_standardising_is_a_shift_of_the_images():
    standard = build(replace(SIZES["resnet-8px"], backbone="resnet-ws"), seed=0).eval()
    plain = build(SIZES["resnet-8px"], seed=0).eval()
    images = torch.rand(2, 1, 8, 8)
    torch.testing.assert_close(standard.stem(images), plain.stem((images - 0.5) / 0.25))


@pytest.mark.parametrize("architecture", ["frost", "vanilla", "recurrent", "basic-ssm", "basic-ssm-folded"])
def test_every_architecture_reads_what_is_positive_where_the_backbone_says_so(architecture):
    config = replace(SIZES["resnet-8px"], architecture=architecture, backbone="resnet-ws", depth=2)
    assert build(config).norm.rectify
    assert not build(replace(config, backbone="resnet")).norm.rectify


def test_a_folded_start_is_that_of_the_residual_rule_whatever_rule_frost_has():
    config = replace(SIZES["line"], architecture="basic-ssm-folded")
    plain, gated = (build(replace(config, update=update), seed=0) for update in ("residual", "gated"))
    assert all(torch.equal(one, two) for one, two in zip(plain.parameters(), gated.parameters(), strict=True))
