import copy
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from torch import nn

from conftest import small_frost
from frost.core import weight_cache as frozen
from frost.core.block import branch
from frost.core.lipschitz import AolMap, Chain
from frost.core.model import Frost, FrostConfig
from frost.core.trajectory import State
from frost.zoo.registry import SIZES, build

RULES = ("residual", "gated", "contractive", "theorem")


def frost_with(rule: str, **fields) -> Frost:
    bounded = Chain(AolMap(8, 8, kernel=3), factor=0.9 if rule == "contractive" else 1.0)
    transition = bounded if rule in ("contractive", "theorem") else None
    return small_frost(FrostConfig(depth=5, update=rule, **fields), transition)


@pytest.mark.parametrize("rule", RULES)
def test_a_trajectory_keeps_every_step(rule, images):
    trajectory = frost_with(rule)(images)
    assert trajectory.states.shape == (5, 5, 8, 8, 8)
    assert trajectory.outputs.shape == (5, 5, 4)
    assert trajectory.score_logits.shape == trajectory.scores.shape == (5, 5)
    assert ((trajectory.scores >= 0) & (trajectory.scores <= 1)).all()


@pytest.mark.parametrize("rule", RULES)
def test_the_verbs_give_the_trajectory(rule, images):
    model = frost_with(rule).eval()
    with torch.no_grad():
        trajectory = model(images)
        state = model.begin(images)
        for t in range(5):
            state = model.step(state)
            output, score_logit = model.read(state)
            torch.testing.assert_close(output, trajectory.outputs[:, t])
            torch.testing.assert_close(score_logit, trajectory.score_logits[:, t])
            torch.testing.assert_close(state.hidden, trajectory.states[:, t])


@pytest.mark.parametrize("rule", RULES)
def test_a_batch_of_mixed_depths_steps_as_its_rows_do(rule, images):
    model = frost_with(rule).eval()
    with torch.no_grad():
        early = model.step(model.begin(images))
        late = model.step(model.step(early))
        mixed = State(torch.cat([early.hidden[:2], late.hidden[2:]]), early.drive, early.feedthrough, None)
        moved = model.step(mixed)
        assert moved.step is None
        torch.testing.assert_close(moved.hidden[:2], model.step(early).hidden[:2])
        torch.testing.assert_close(moved.hidden[2:], model.step(late).hidden[2:])


@pytest.mark.parametrize("rule", RULES)
def test_the_cached_first_step_equals_the_computed_one(rule, images):
    model = frost_with(rule).eval()
    computed = model(images)                      # gradients on: nothing is cached
    with torch.no_grad():
        torch.testing.assert_close(model(images).outputs, computed.outputs)
        torch.testing.assert_close(model(images).outputs, computed.outputs)


def test_the_first_step_does_not_run_the_transition_twice(images):
    model = small_frost(FrostConfig(depth=3)).eval()
    calls = []
    model.transition.register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        model(images)
        model(images)
    assert len(calls) == 1 + 2 + 2


CHANGES = {
    "in place": lambda model: [parameter.mul_(1.5) for parameter in model.transition.parameters()],
    "load_state_dict": lambda model: model.load_state_dict(small_frost(FrostConfig(depth=3)).state_dict()),
    "replaced": lambda model: setattr(model.transition[-1], "weight", nn.Parameter(torch.randn(8, 8, 3, 3))),
    "cast there and back": lambda model: model.double().float(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_weights_renews_the_cached_first_step(change, images):
    model = small_frost(FrostConfig(depth=3)).eval()
    with torch.no_grad():
        model(images)
        CHANGES[change](model)
        cached = model(images)
    torch.testing.assert_close(cached.outputs, model(images).outputs)


@pytest.mark.parametrize("rule", ["residual", "contractive"])
def test_a_fused_optimiser_renews_the_cache(rule, images):
    model = frost_with(rule).eval()
    with torch.no_grad():
        model(images)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    model(images).outputs.square().sum().backward()
    optimizer.step()
    with torch.no_grad():
        torch.testing.assert_close(model(images).outputs, copy.deepcopy(model)(images).outputs)


def test_optimisers_are_watched_only_once_a_value_is_kept():
    code = ("import torch, frost\n"
            "from torch import nn\n"
            "from torch.optim.optimizer import _global_optimizer_post_hooks as hooks\n"
            "model = frost.Frost(nn.Identity(), nn.Linear(4, 4), channels=4, classes=2, depth=2)\n"
            "model(torch.rand(3, 4)).outputs.sum().backward()\n"
            "torch.optim.SGD(model.parameters(), lr=0.1).step()\n"
            "before = len(hooks)\n"
            "with torch.no_grad():\n"
            "    model.eval()(torch.rand(3, 4))\n"
            "    model(torch.rand(3, 4))\n"
            "print(before, len(hooks))\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1"]


def test_a_block_that_overwrites_its_input_is_refused(images):
    in_place = small_frost(transition=nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(8, 8, 1)))
    with pytest.raises(ValueError, match="in place"):
        in_place(images)
    in_place.eval()
    with torch.no_grad(), pytest.raises(ValueError, match="in place"):
        in_place(images)


def test_a_block_of_a_fixed_size_is_accepted(images):
    block = nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(8, 8, 1), nn.Upsample(size=(8, 8)))
    assert small_frost(FrostConfig(depth=2), transition=block)(images).depth == 2


def test_a_stem_in_channels_last_does_not_crash_training(images):
    class Stem(nn.Conv2d):
        def forward(self, batch):
            return super().forward(batch).to(memory_format=torch.channels_last)

    model = Frost(Stem(1, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1), channels=8, classes=2)
    model(images).outputs.sum().backward()
    assert torch.isfinite(model.stem.weight.grad).all()


def test_the_cache_works_in_inference_mode(images):
    model = small_frost(FrostConfig(depth=3)).eval()
    with torch.inference_mode():
        first = model(images).outputs
    with torch.no_grad():
        torch.testing.assert_close(model(images).outputs, first)


def test_the_cache_is_not_used_while_training(images):
    model = small_frost(FrostConfig(depth=1), transition=nn.Sequential(nn.Conv2d(8, 8, 1), nn.Dropout(0.5))).train()
    with torch.no_grad():
        assert not torch.equal(model(images).outputs, model(images).outputs)
        model.eval()
        assert torch.equal(model(images).outputs, model(images).outputs)
        model.transition.train()      # dropout at inference
        assert not torch.equal(model(images).outputs, model(images).outputs)


def test_a_copy_of_a_model_has_a_cache_of_its_own(images):
    model = small_frost(FrostConfig(depth=2)).eval()
    with torch.no_grad():
        model(images)
    assert model._at_zero._kept is not None
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin._at_zero is not model._at_zero
        assert twin._at_zero._kept is None


def test_fresh_weights_at_a_freed_address_renew_the_cache(images):
    model = Frost(nn.Flatten(), nn.Linear(64, 64), channels=64, classes=2, config=FrostConfig(depth=1)).eval()
    for seed in range(30):
        torch.manual_seed(seed)
        weights = {"transition.bias": torch.randn(64)}
        with torch.no_grad():
            cached = torch.func.functional_call(model, weights, (images,)).outputs
        torch.testing.assert_close(cached, torch.func.functional_call(model, weights, (images,)).outputs)


def test_threads_share_a_model(images):
    model = frost_with("contractive").eval()
    expected = model(images).outputs.detach()

    def run(_: int) -> bool:
        with torch.no_grad():
            return bool(torch.allclose(model(images).outputs, expected, atol=1e-5))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(40)))


def test_drive_and_feedthrough_are_computed_once_per_image(images):
    model = small_frost(FrostConfig(depth=6))
    calls = []
    for module in (model.stem, model.input_map, model.head.feedthrough):
        module.register_forward_hook(lambda *_: calls.append(1))
    model(images)
    assert len(calls) == 3


@pytest.mark.parametrize("rule", RULES)
def test_bfloat16_autocast_stays_close(rule, images):
    model = frost_with(rule).eval()
    with torch.no_grad():
        exact = model(images)
        with torch.autocast("cpu", torch.bfloat16):
            rough = model(images)
    assert torch.isfinite(rough.outputs).all()
    torch.testing.assert_close(rough.outputs.float(), exact.outputs, rtol=0.1, atol=0.1)


def test_branch_removes_the_skip_connection():
    block = nn.Identity()
    assert branch(block)(torch.randn(2, 3)).abs().max() == 0


def test_deeper_than_trained_is_allowed(images):
    assert small_frost(FrostConfig(depth=2))(images, depth=7).depth == 7


def test_tokens_and_vectors_are_states_too():
    tokens = Frost(nn.Flatten(2), nn.Linear(64, 64), channels=64, classes=3, config=FrostConfig(depth=2))
    assert tokens(torch.rand(2, 3, 8, 8)).states.shape == (2, 2, 3, 64)
    vectors = Frost(nn.Flatten(), nn.Linear(64, 64), channels=64, classes=3, config=FrostConfig(depth=2))
    assert vectors(torch.rand(2, 1, 8, 8)).states.shape == (2, 2, 64)


@pytest.mark.parametrize("transition", [
    nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.Conv2d(8, 8, 3), nn.Conv2d(8, 16, 1), nn.MaxPool2d(2), nn.Linear(8, 4)])
def test_a_transition_that_changes_the_shape_is_refused_when_built(transition):
    with pytest.raises(ValueError, match=r"transition must keep the state's shape.*dilation"):
        small_frost(transition=transition)


def test_a_transition_that_changes_only_the_real_shape_is_refused_at_the_first_step(images):
    class Odd(nn.Module):
        def forward(self, hidden):
            return hidden[..., :-1] if hidden.shape[-1] == 8 and hidden.ndim == 4 else hidden

    model = small_frost(transition=Odd())
    with pytest.raises(ValueError, match="transition must keep the state's shape"):
        model(images)


def test_a_transition_must_be_a_module_that_returns_a_tensor(images):
    with pytest.raises(ValueError, match=r"must be a torch\.nn\.Module"):
        small_frost(transition=torch.tanh)
    recurrent = Frost(nn.Flatten(2), nn.LSTM(64, 64, batch_first=True), channels=64, classes=2)
    with pytest.raises(ValueError, match="returns a tuple"):
        recurrent(images)


@pytest.mark.parametrize(("fields", "message"), [
    ({"depth": 0}, "depth must be at least 1"), ({"hurst": -0.1}, "hurst must be at least 0 and at most 1"),
    ({"hurst": 1.2}, "hurst must be at least 0 and at most 1"), ({"scale_init": 0.0}, "scale_init must be above 0"),
    ({"update": "theorem", "scale_init": 1.0}, "below 1"), ({"update": "contractve"}, "update is one of residual"),
    ({"score_sees": "State"}, "score_sees is one of"), ({"scale_init": float("nan")}, "finite"),
    ({"depth": 2.5}, "type int")])
def test_a_bad_configuration_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        FrostConfig(**fields)


def test_the_contracting_rules_refuse_a_transition_without_a_bound():
    for rule in ("contractive", "theorem"):
        with pytest.raises(ValueError, match="states none"):
            small_frost(FrostConfig(update=rule))
    with pytest.raises(ValueError, match="below 1"):
        small_frost(FrostConfig(update="contractive"), transition=AolMap(8, 8, kernel=3))
    with pytest.raises(ValueError, match="below 1"):
        small_frost(FrostConfig(update="contractive"), transition=Chain(AolMap(8, 8, kernel=3), factor=-5.0))


BAD_IMAGES = {
    "nan": (torch.full((2, 1, 8, 8), float("nan")), "2 of 2 hold NaN"),
    "bytes": (torch.zeros(2, 1, 8, 8, dtype=torch.uint8), "divide bytes by 255"),
    "numpy": (torch.zeros(2, 1, 8, 8).numpy(), "must be a tensor"),
    "no batch": (torch.zeros(1, 8, 8), "batch"),
    "channels": (torch.zeros(2, 3, 8, 8), "images of 1 channel"),
    "size": (torch.zeros(2, 1, 9, 8), "8×8 pixels"),
}


@pytest.mark.parametrize("kind", BAD_IMAGES)
def test_bad_images_are_refused_with_a_sentence(kind):
    model = build(replace(SIZES["resnet-8px"], channels=8, bottleneck=4, depth=2))
    wrong, message = BAD_IMAGES[kind]
    with pytest.raises(ValueError, match=message):
        model(wrong)


def test_what_a_stem_of_the_users_does_not_take_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match=r"the stem does not take a tensor of shape \(2, 3, 8, 8\)"):
        small_frost().begin(torch.zeros(2, 3, 8, 8))


def test_an_isolated_score_sends_no_gradient_to_the_backbone(images):
    model = small_frost()
    model(images, isolate_score=True).score_logits.sum().backward()
    assert all(parameter.grad is None for parameter in model.transition.parameters())
    assert model.head.score.linear.weight.grad is not None


def test_a_stem_of_the_wrong_width_is_refused(images):
    model = Frost(nn.Conv2d(1, 6, 1), nn.Identity(), channels=8, classes=2)
    with pytest.raises(ValueError, match="stem must give 8 channels, got shape"):
        model(images)


def test_a_depth_of_zero_is_refused_when_running(images):
    with pytest.raises(ValueError, match="depth must be at least 1"):
        small_frost()(images, depth=0)


def test_a_first_step_computed_for_one_image_has_the_gradients_of_all(monkeypatch):
    """A(0) is the same for every image: computed once and shared, its gradient is the sum over the batch."""
    model = build(SIZES["resnet-8px"], seed=0).double()
    with torch.no_grad():
        for parameter in model.transition.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    images = torch.rand(5, 1, 8, 8).double()
    gradients = []
    for shared in (True, False):
        monkeypatch.setattr(frozen, "treats_images_alike", lambda module, shared=shared: shared)
        model.zero_grad()
        model(images).outputs.sin().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in model.transition.parameters()])
    for one, all_ in zip(*gradients, strict=True):
        torch.testing.assert_close(one, all_)


@pytest.mark.parametrize(("part", "alike"), [(nn.ReLU(), True), (nn.Dropout(0.5), False), (nn.BatchNorm2d(4), False)])
def test_what_is_random_or_looks_across_the_batch_is_computed_for_all(part, alike):
    assert frozen.treats_images_alike(nn.Sequential(nn.Conv2d(4, 4, 1), part)) is alike

    class Own(nn.Module):
        pass

    assert not frozen.treats_images_alike(nn.Sequential(Own(), part))
