"""Stems, blocks, heads and contexts of the user's: what is taken, and the sentence where something does not fit."""

import pytest
import torch
from torch import nn

import frost
from frost.core.model import FrostConfig
from frost.core.update_rules import Residual

X = torch.randn(4, 6)


class Stem(nn.Module):
    """Gives what the test asks for."""

    def __init__(self, given):
        super().__init__()
        self.given = given

    def forward(self, inputs):
        return self.given(inputs)


class Takes(nn.Module):
    """A block that takes any context."""

    def forward(self, hidden, **context):
        return torch.tanh(hidden)


def model(stem, head=None, block=None, **options):
    options = {"depth": 3, **({} if head is not None else {"channels": 8, "classes": 2}), **options}
    return frost.Frost(Stem(stem), Takes() if block is None else block, head, **options)


def states(*shape):
    return lambda inputs: torch.randn(len(inputs), *shape)


def with_context(**context):
    return lambda inputs: (torch.randn(len(inputs), 5, 8), {name: make(len(inputs)) for name, make in context.items()})


BAD = {
    "no tensor": (lambda: model(lambda x: None), "a stem must return x, or x and a dict of named tensors"),
    "three things": (lambda: model(lambda x: (x, {}, 3)), "a stem must return x"),
    "channels": (lambda: model(states(5)), "must give 8 channels, got shape"),
    "batch": (lambda: model(lambda x: torch.randn(2, 8)), "batch of 4 in front"),
    "ambiguous": (lambda: model(states(8, 8)), "say which with layout="),
    "context batch": (lambda: model(with_context(edges=lambda n: torch.ones(7, 2))),
                      "context 'edges' must have the batch of 4 in front"),
    "mask kind": (lambda: model(with_context(mask=lambda n: torch.ones(n, 5))), "must be bool of shape"),
    "mask shape": (lambda: model(with_context(mask=lambda n: torch.ones(n, 4).bool())), "must be bool of shape"),
    "empty mask": (lambda: model(with_context(mask=lambda n: torch.arange(n)[:, None].expand(n, 5) > 0)),
                   "that of sample 0 has no true element"),
    "block's width": (lambda: model(states(8), block=nn.Linear(4, 4)), "Linear does not take a state of shape"),
    "block without mask": (lambda: model(with_context(mask=lambda n: torch.ones(n, 5).bool()), block=nn.Tanh()),
                           "does not take a state of shape .* and context mask"),
    "head's width": (lambda: model(states(8), frost.OwnHead(nn.Linear(5, 2), 8)), "Linear does not take a state"),
    "layout": (lambda: model(states(8), layout="map"), "layout is one of"),
    "dense vector": (lambda: model(states(8), frost.Dense(8, 2)), "without positions; use Classifier"),
    "own head": (lambda: model(states(8), frost.OwnHead(nn.Flatten(0), 8)), "with the batch of 4 in front"),
    "own head's kind": (lambda: model(states(8), frost.OwnHead(nn.LSTM(8, 2), 8)), "must give one tensor"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_refused_in_one_sentence_at_the_first_batch(name):
    make, sentence = BAD[name]
    with pytest.raises(ValueError, match=sentence) as refused:
        make()(X)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("make", "sentence"), [
    (lambda: frost.Frost(nn.Identity(), nn.Identity()), "a model needs a head"),
    (lambda: frost.Frost(nn.Identity(), nn.Identity(), nn.Linear(8, 2)), "needs channels="),
    (lambda: frost.Frost(nn.Identity(), nn.Identity(), frost.Classifier(8, 2), classes=3), "leave channels="),
    (lambda: frost.Frost(nn.Identity(), nn.Identity(), nn.Linear(8, 2), channels=8, classes=2), "give one of them"),
    (lambda: frost.Frost(nn.Identity(), nn.Identity(), frost.Classifier(8, 2), depth=4, config=FrostConfig(depth=8)),
     "depth=4 and config.depth=8 differ"),
    (lambda: frost.Frost(nn.Identity(), nn.Identity(), frost.Classifier(8, 2), update="gated",
                         config=FrostConfig(depth=8)), "update=gated and config.update=residual differ"),
    (lambda: frost.Frost(lambda x: x, nn.Identity(), frost.Classifier(8, 2)), r"stem must be a torch\.nn\.Module"),
    (lambda: frost.Frost(nn.Identity(), lambda x: x, frost.Classifier(8, 2)), r"transition must be a torch\.nn"),
    (lambda: frost.Frost(nn.Identity(), nn.Linear(8, 4), frost.Classifier(8, 2)), "must keep the state's shape"),
    (lambda: frost.Classifier(8, 1), "frost.Regressor"), (lambda: frost.Regressor(8, 0), "at least 1"),
    (lambda: frost.Dense(8, 1), "two classes"), (lambda: frost.Regressor(8, tolerance=0.0), "a positive number"),
    (lambda: frost.OwnHead(nn.Linear(8, 2), 8, gives="words"), "gives is one of"),
    (lambda: frost.OwnHead(len, 8), r"a head must be a torch\.nn\.Module"),
    (lambda: frost.Frost(nn.Identity(), nn.Identity(), frost.Regressor(8), config=FrostConfig(score_sees="output")),
     "use score_sees='state'")])
def test_what_does_not_fit_is_refused_at_construction(make, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        make()
    assert "\n" not in str(refused.value)


def test_positional_and_short_forms_make_the_same_model():
    torch.manual_seed(0)
    long = frost.Frost(nn.Linear(6, 8), nn.Tanh(), frost.Classifier(8, 3), config=FrostConfig(depth=5, update="gated"))
    short = frost.Frost(stem=nn.Linear(6, 8), transition=nn.Tanh(), channels=8, classes=3, depth=5, update="gated")
    short.load_state_dict(long.state_dict())
    assert torch.equal(short(X).outputs, long(X).outputs)
    assert short.config == long.config


def test_an_update_rule_may_be_an_object_of_the_users():
    class Slow(Residual):
        """Half of every move."""

        def forward(self, hidden, change, drive, scale):
            """h + ½ (λA(h) + B_λ(x))."""
            return hidden + (super().forward(hidden, change, drive, scale) - hidden) / 2

    torch.manual_seed(0)
    ours = frost.Frost(nn.Linear(6, 8), nn.Tanh(), channels=8, classes=3, depth=1, update=Slow())
    plain = frost.Frost(nn.Linear(6, 8), nn.Tanh(), channels=8, classes=3, depth=1)
    plain.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours(X).states, plain(X).states / 2)
    with pytest.raises(ValueError, match="only the residual rule folds"):
        frost.fold(ours)


def test_a_head_of_the_users_gets_the_normalised_state_without_powers_of_lambda():
    ours = frost.Frost(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3), channels=8, depth=2)
    with torch.no_grad():
        ours.scale.raw.fill_(2.0)
    trajectory = ours(X)
    torch.testing.assert_close(trajectory.outputs, ours.head.module(ours.norm(trajectory.states)))
    assert ours.begin(X).feedthrough is None
    with pytest.raises(ValueError, match="only a linear head folds"):
        frost.fold(ours)


def test_a_head_of_the_users_may_ask_for_the_mask():
    class Last(nn.Module):
        """The last position that counts."""

        def forward(self, hidden, mask):
            """(b, n, c) → (b, c)."""
            return hidden[torch.arange(len(hidden)), mask.sum(dim=1) - 1]

    lengths = torch.tensor([1, 5, 3, 2])
    ours = model(with_context(mask=lambda n: torch.arange(5) < lengths[:, None]), frost.OwnHead(Last(), 8))
    trajectory = ours(X)
    normal = ours.norm(trajectory.states.flatten(0, 1)).view(4, 3, 5, 8)
    expected = torch.stack([normal[place, :, length - 1] for place, length in enumerate(lengths)])
    torch.testing.assert_close(trajectory.outputs, expected)


@pytest.mark.parametrize("head", [frost.Regressor(8, 3), frost.Dense(8, 3), frost.Classifier(8, 3)],
                         ids=["regressor", "dense", "classifier"])
def test_every_linear_head_folds(head):
    torch.manual_seed(0)
    ours = frost.Frost(nn.Conv2d(2, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1), head, depth=4).eval()
    images = torch.randn(3, 2, 5, 5)
    torch.testing.assert_close(frost.fold(ours)(images).outputs, ours(images).outputs, rtol=1e-4, atol=1e-4)


def test_a_dense_answer_is_the_readout_of_each_position():
    ours = frost.Frost(nn.Conv2d(2, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1), frost.Dense(8, 3), depth=2)
    images = torch.randn(3, 2, 5, 6)
    trajectory, state = ours(images), ours.begin(images)
    normal = ours.norm(trajectory.states[:, -1]).movedim(1, -1)                      # (b, h, w, c)
    expected = ours.scale.power(-ours.scale.hurst) * ours.head.readout(normal.flatten(1, 2)).view(3, 5, 6, 3)
    torch.testing.assert_close(trajectory.outputs[:, -1], expected + state.feedthrough)


@pytest.mark.parametrize(("kind", "targets", "sentence"), [
    ("classes", torch.zeros(4), "must be whole numbers"),
    ("classes", torch.zeros(4, 3, dtype=torch.long), "one class a sample"),
    ("numbers", torch.zeros(4, 3), "must have the shape of the outputs")])
def test_targets_that_do_not_fit_the_head_are_refused(kind, targets, sentence):
    head = frost.Classifier(8, 2) if kind == "classes" else frost.Regressor(8, 2)
    ours = frost.Frost(nn.Linear(6, 8), nn.Tanh(), head, depth=2)
    with pytest.raises(ValueError, match=sentence):
        ours.task.losses(ours(X).outputs, targets)


def test_positions_that_do_not_count_change_neither_loss_nor_quality():
    outputs, targets = torch.randn(3, 2, 7, 4), torch.randint(4, (3, 7))
    padded = torch.cat([outputs, torch.randn(3, 2, 2, 4)], dim=2)
    ignored = torch.cat([targets, torch.full((3, 2), -100)], dim=1)
    task = frost.Dense(8, 4).task
    torch.testing.assert_close(task.losses(padded, ignored), task.losses(outputs, targets))
    assert torch.equal(task.qualities(padded, ignored), task.qualities(outputs, targets))
    right = torch.nn.functional.one_hot(targets, 4).float()[:, None]
    assert task.qualities(right, targets).tolist() == [[1.0]] * 3
    right[0, 0, 0] = -right[0, 0, 0]
    assert task.qualities(right, targets).tolist() == [[0.0], [1.0], [1.0]]    # all positions, or it is not solved


BAD_RECURRENCES = {
    "depth": (lambda: frost.iterate(len, len, len, depth=0), "depth must be at least 1"),
    "verb": (lambda: frost.iterate(len, 3, len, depth=2), "step must be a function or a module"),
    "state": (lambda: frost.iterate(lambda x: (x, 3), len, len, depth=2)(X), "must be a tensor with the batch of 4"),
    "batch": (lambda: frost.iterate(lambda x: x[:2], len, len, depth=2)(X), "batch of 4 in front"),
    "structure": (lambda: frost.iterate(lambda x: x, lambda x: (x, x), lambda x: x, depth=2)(X), "like the one"),
    "shape": (lambda: frost.iterate(lambda x: x, lambda x: x[:, :3], lambda x: x, depth=2)(X), "must keep the shapes"),
    "in place": (lambda: frost.iterate(lambda x: x.clone(), lambda x: x.mul_(0.9), lambda x: x, depth=2)(X),
                 "must not change its state in place"),
    "empty": (lambda: frost.iterate(lambda x: {}, len, len, depth=2)(X), "at least one tensor"),
    "gives": (lambda: frost.iterate(len, len, len, depth=2, gives="class"), "gives is one of"),
    "half a step": (lambda: frost.iterate(len, len, len, depth=2.5), "a whole number, got 2.5"),
    "reading": (lambda: frost.iterate(lambda x: x, lambda x: x, lambda x: x.sum(), depth=2)(X), "read must give one"),
}


@pytest.mark.parametrize("name", BAD_RECURRENCES)
def test_a_recurrence_that_does_not_fit_is_refused(name):
    make, sentence = BAD_RECURRENCES[name]
    with pytest.raises(ValueError, match=sentence):
        make()


def test_a_recurrence_without_a_score_does_not_stop_by_one():
    ours = frost.iterate(lambda x: x, lambda x: x / 2, lambda x: x, depth=4).expects(X[0])
    with pytest.raises(ValueError, match="looks at a halting score, and this model has none"):
        frost.Engine(ours, frost.stop_when(score=0.5))
    assert frost.Engine(ours, frost.stop_when(change=1.5)).predict(X).depth.tolist() == [2, 2, 2, 2]


def test_a_model_can_be_pickled():
    import pickle

    ours = frost.Frost(nn.Linear(6, 8), nn.Tanh(), frost.Regressor(8, tolerance=0.5), depth=2).eval()
    again = pickle.loads(pickle.dumps(ours))
    assert torch.equal(again(X).outputs, ours(X).outputs)


def test_a_partial_method_brings_its_module_along():
    from functools import partial

    linear = nn.Linear(6, 6)
    ours = frost.iterate(lambda x: x, partial(linear.forward), lambda x: x, depth=2)
    assert sum(weight.numel() for weight in ours.parameters()) == 42


def test_a_copy_of_a_recurrence_has_weights_of_its_own():
    import copy

    from kinds import KINDS

    ours = KINDS["recurrence"].model()
    inputs, _ = KINDS["recurrence"].batch(3)
    assert {name.split(".")[0] for name in ours.state_dict()} == {"parts", "head"}
    twin = copy.deepcopy(ours)
    with torch.no_grad():
        for weight in ours.parameters():
            weight.zero_()
    assert not torch.equal(twin(inputs).outputs, ours(inputs).outputs)


def test_a_second_model_with_the_same_head_leaves_its_score_alone():
    head = frost.Classifier(8, 3)
    first = frost.Frost(nn.Linear(6, 8), nn.Tanh(), head, depth=2)
    before = first(X).score_logits
    frost.Recurrent(nn.Linear(6, 8), nn.Tanh(), head, depth=2)
    assert torch.equal(first(X).score_logits, before)


@pytest.mark.parametrize("wrong", [-0.1, ("a",), None, ()])
def test_thresholds_that_are_no_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match="a rule has one threshold"):
        frost.Rule("confidence", wrong)


def test_a_list_of_thresholds_will_do():
    assert frost.Rule("confidence", [-0.1, -0.2]).thresholds == (-0.1, -0.2)


@pytest.mark.parametrize("wrong", [2.5, "3", True, 0])
def test_a_depth_is_a_whole_number(wrong):
    with pytest.raises(ValueError, match="a whole number"):
        frost.AtDepth(wrong)
