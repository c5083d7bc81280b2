"""What a hostile or hurried user does to an engine: one odd input fails alone, and mistakes are one sentence."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import frost
from conftest import small_frost
from frost.runtime.reference import predict_slowly

RULE = frost.Rule("rank", (0.0,))


def images(count, side=8):
    return torch.rand(count, 1, side, side, generator=torch.Generator().manual_seed(count))


@pytest.fixture
def model():
    return small_frost().eval()    # takes images of any size


@pytest.mark.parametrize("executor", ["masked", "compact", "refill"])
def test_an_odd_first_input_fails_alone(model, executor):
    engine = frost.Engine(model, RULE, executor, slots=3, example=images(1)[0])
    stream = [images(1, 9)[0], torch.rand(3, 8, 8), *images(5), torch.rand(8), *images(2)]
    results = list(engine.run(stream))
    assert [result.error is None for result in results] == [False, False] + [True] * 5 + [False] + [True] * 2
    expected = predict_slowly(model, RULE, torch.stack([*images(5), *images(2)]))
    answers = torch.stack([result.output for result in results if result.error is None])
    torch.testing.assert_close(answers, expected.outputs)


@pytest.mark.parametrize(("wrong", "sentence"), [
    (torch.full((6,), math.nan), "holds NaN or infinity"), (torch.zeros(6, dtype=torch.long), "got torch.int64"),
    (torch.zeros(6, dtype=torch.complex64), "got torch.complex64"), (np.array(["a"] * 6), "can't convert"),
    (None, "Could not infer dtype")])
def test_an_input_of_the_wrong_kind_fails_alone(wrong, sentence):
    vectors = frost.Frost(nn.Linear(6, 8), nn.Tanh(), channels=8, classes=2, depth=3)
    first, bad, last = frost.Engine(vectors, frost.AtDepth(2), example=torch.rand(6)).run(
        [torch.rand(6), frost.Request(wrong), torch.rand(6)])
    assert sentence in bad.error
    assert first.error is None
    assert last.error is None


def test_one_odd_request_does_not_block_a_session(model):
    session = frost.Engine(model, RULE, slots=2, example=images(1)[0]).open()
    with pytest.raises(ValueError, match=r"takes inputs of shape \(1, 8, 8\), got \(1, 9, 9\)"):
        session.submit(images(1, 9)[0])
    session.submit(images(1)[0])
    assert len(list(session.drained())) == 1
    with pytest.raises(ValueError, match="takes inputs of"):
        session.submit(images(1, 5)[0])    # also after it has drained
    session.submit(images(1)[0])
    assert len(list(session.drained())) == 1


def test_an_engine_that_does_not_know_the_shape_asks_for_it(model):
    engine = frost.Engine(model, RULE)
    for use in (engine.open, lambda: engine.run(images(2))):
        with pytest.raises(ValueError, match="example=input"):
            use()
    assert engine.predict(images(3)).depth.shape == (3,)    # a batch says by itself


class Picky(nn.Module):
    """A stem that fails for some inputs of the right shape, as one with a lookup table does."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 8)

    def forward(self, ids):
        if bool((ids == 3).any()):
            raise RuntimeError("no threes")
        return self.table(ids)


@pytest.mark.parametrize("executor", ["masked", "compact", "refill"])
def test_what_the_model_cannot_begin_with_fails_alone(executor):
    model = frost.Frost(Picky(), nn.Tanh(), channels=8, classes=2, depth=4)
    ids = torch.tensor([[0, 1], [3, 1], [2, 4], [9, 0], [1, 1], [0, 3]])    # 3 is refused, 9 is not in the table
    results = list(frost.Engine(model, frost.AtDepth(2), executor, slots=4, example=ids[0]).run(ids))
    assert [result.error is None for result in results] == [True, False, True, False, True, False]
    assert "no threes" in results[1].error
    assert "index out of range" in results[3].error
    good = ids[[0, 2, 4]]
    expected = predict_slowly(model, frost.AtDepth(2), good)
    torch.testing.assert_close(torch.stack([results[place].output for place in (0, 2, 4)]), expected.outputs)


def test_a_model_that_fails_for_every_input_fails_each_with_its_reason(model):
    model.transition.register_forward_hook(lambda *_: 1 / 0)
    engine = frost.Engine(model, RULE, slots=2, example=images(1)[0])
    results = list(engine.run(images(2)))
    assert all("division by zero" in result.error for result in results)


@pytest.mark.parametrize("executor", ["masked", "compact", "refill"])
@pytest.mark.parametrize("inside", [True, False])
def test_inference_mode_may_begin_or_end_in_the_middle_of_a_stream(model, executor, inside):
    engine = frost.Engine(model, RULE, executor, slots=2, example=images(1)[0])
    expected = engine.predict(images(7)).outputs
    with torch.inference_mode(inside):
        stream = engine.run(images(7))
        first = [next(stream), next(stream)]
    with torch.inference_mode(not inside):
        rest = list(stream)
    assert torch.equal(torch.stack([result.output for result in [*first, *rest]]), expected)


@pytest.mark.parametrize("executor", ["masked", "compact", "refill"])
def test_a_model_in_double_precision_answers_in_it(model, executor):
    double = small_frost().double().eval()
    ours = frost.Engine(double, RULE, executor, slots=3, example=images(1)[0].double()).predict(images(4).double())
    assert ours.outputs.dtype == torch.float64
    expected = predict_slowly(double, RULE, images(4).double())
    torch.testing.assert_close(ours.outputs, expected.outputs, rtol=1e-12, atol=1e-12)


def test_arrays_of_any_strides_just_work(model):
    engine = frost.Engine(model, RULE, slots=2, example=images(1)[0])
    picture = images(1)[0].numpy()
    turned = picture[:, ::-1, ::-1]
    assert any(stride < 0 for stride in turned.strides)
    given, expected = engine.run([turned, np.ascontiguousarray(turned)])
    assert torch.equal(given.output, expected.output)


@pytest.mark.parametrize(("make", "sentence"), [
    (lambda model: frost.Engine(model, None), "takes a stopping rule"),
    (lambda model: frost.Engine(model, 0.5), "takes a stopping rule"),
    (lambda model: frost.Engine(nn.Linear(3, 3), RULE), "frost.iterate makes one of any recurrence"),
    (lambda model: frost.Engine(model, RULE, slots=1.5), "slots must be a whole number"),
    (lambda model: frost.Engine(model, RULE, slots=True), "slots must be a whole number"),
    (lambda model: frost.Engine(model, RULE, slots=2**40), "from 1 to"),
    (lambda model: frost.Engine(model, RULE, sync_every=1.5), "sync_every must be a whole number"),
    (lambda model: frost.Engine(model, RULE, max_queue=0.5), "max_queue must be a whole number"),
    (lambda model: frost.Engine(small_frost().to("meta"), RULE), "device 'meta'"),
    (lambda model: frost.Engine(model, RULE, device="tpu"), "device is one of"),
    (lambda model: frost.Engine(model, RULE, device="cuda"), "no such GPU"),
    (lambda model: frost.Engine(model, RULE, example=images(1)[0]).run(images(1), order="typo"), "order is one of"),
    (lambda model: frost.Engine(frost.Frost(nn.Linear(4, 8), nn.Tanh(), frost.Regressor(8), depth=3),
                                frost.stop_when(confidence=0.9)), "answers with numbers")])
def test_mistakes_are_one_sentence_when_they_are_made(model, make, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        make(model)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("executor", ["compact", "refill"])
def test_training_mode_in_the_middle_of_a_stream_is_noticed(model, executor):
    engine = frost.Engine(model, frost.Rule("rank", (math.inf,)), executor, slots=2, example=images(1)[0])
    stream = engine.run(images(9))
    next(stream)
    model.train()
    with pytest.raises(ValueError, match=r"call model\.eval"):
        list(stream)


def test_a_pair_of_tensors_is_an_input_and_a_pair_with_a_name_is_not():
    class Sum(nn.Module):
        def forward(self, inputs):
            return inputs[0] + inputs[1]

    model = frost.Frost(Sum(), nn.Tanh(), channels=4, classes=2, depth=3)
    one, two = torch.randn(4), torch.randn(4)
    engine = frost.Engine(model, frost.AtDepth(2), slots=2, example=(one, two))
    plain, named = engine.run([(one, two), ("mine", (one, two))])
    assert (plain.key, named.key) == (0, "mine")
    assert torch.equal(plain.output, named.output)
    wrong = list(engine.run([one, {"a": one, "b": two}, (one, two, two)]))
    assert all("the model takes a tuple of" in result.error for result in wrong)


def test_an_engine_says_what_it_promises(model):
    exact = frost.load("digits").model
    assert frost.Engine(exact, RULE).promise == "are the same bit for bit in any batch"
    assert "shape of the batch changes" in frost.Engine(exact, RULE, "compact").promise
    assert "check_batch_invariance" in repr(frost.Engine(model, RULE))


@pytest.mark.parametrize("executor", ["compact", "refill"])
def test_a_stream_is_stopped_between_steps(model, executor):
    asked = []

    def stops():
        asked.append(True)
        return len(asked) > 4

    engine = frost.Engine(model, frost.Rule("rank", (math.inf,)), executor, slots=2, example=images(1)[0])
    answers = list(engine.run(images(40), stops=stops))
    assert len(answers) < 10
    assert len(asked) == 5


def picky_step(state):
    if bool((state.abs() > 50).any()):
        raise RuntimeError("too large")
    return 2 * state


@pytest.mark.parametrize("executor", ["masked", "compact", "refill"])
def test_what_the_model_cannot_step_fails_alone(executor):
    growing = frost.iterate(lambda x: x, picky_step, lambda x: x, depth=12).expects(torch.rand(3))
    inputs = torch.tensor([[1.0, 2.0, 3.0], [0.1, 0.1, 0.1], [20.0, 0.0, 0.0], [0.5, 0.5, 0.5], [1.0, 0.0, 0.0]])
    results = list(frost.Engine(growing, frost.AtDepth(4), executor, slots=2).run(inputs))
    assert [result.error is None for result in results] == [True, True, False, True, True]
    assert "too large" in results[2].error
    for place in (0, 1, 3, 4):
        torch.testing.assert_close(results[place].output, 16 * inputs[place])


def test_a_session_goes_on_after_a_step_that_failed():
    growing = frost.iterate(lambda x: x, picky_step, lambda x: x, depth=12).expects(torch.rand(3))
    session = frost.Engine(growing, frost.AtDepth(4), slots=4).open()
    for value in (1.0, 40.0, 2.0):
        session.submit(torch.full((3,), value), value)
    results = {result.key: result for result in session.drained()}
    assert results[40.0].error
    assert results[1.0].error is None
    assert results[2.0].error is None
    assert len(session) == 0


def test_whole_numbers_are_not_narrowed_in_silence():
    table = frost.Frost(nn.Embedding(300, 8), nn.Tanh(), channels=8, classes=2, depth=2)
    engine = frost.Engine(table, frost.AtDepth(1), example=torch.zeros(4, dtype=torch.uint8))
    wide, fine, flag = engine.run([torch.tensor([299, 1, 2, 3]), torch.tensor([5, 1, 2, 3]), torch.ones(4).bool()])
    assert "beyond it" in wide.error
    assert fine.error is None or "Byte" in fine.error    # an embedding takes no bytes; that is the stem's own word
    assert "got torch.bool" in flag.error


def test_an_item_of_another_session_is_not_taken_out(model):
    engine = frost.Engine(model, RULE, slots=2, example=images(1)[0])
    first, second = engine.open(), engine.open()
    item = first.submit(images(1)[0])
    second.submit(images(1)[0])
    with pytest.raises(ValueError, match="another session"):
        second.cancel(item)
    assert len(list(second.drained())) == 1


def test_padding_may_hold_anything():
    class Padded(nn.Module):
        def forward(self, x):
            mask = ~torch.isnan(x).any(dim=2)
            return x, {"mask": mask}

    class Still(nn.Module):
        def forward(self, hidden, mask):
            return torch.tanh(hidden)

    dense = frost.Frost(Padded(), Still(), frost.Dense(4, 2), depth=3).eval()
    x = torch.randn(3, 5, 4)
    x[0, 3:] = torch.nan
    state = dense.begin(x)
    for _ in range(2):
        state = dense.step(state)
    output, score = dense.read(state)
    assert bool(torch.isfinite(score).all())
    assert bool(torch.isfinite(output[0, :3]).all())
