"""Every kind of input, head and state through everything: engine, calibration, training, saving, resuming."""

import copy

import pytest
import torch
from kinds import DEPTH, KINDS
from torch import nn

import frost
from frost.core.inputs import mapped, row
from frost.halting.ranking import HaltingConfig
from frost.runtime.reference import predict_slowly
from frost.training.settings import RuntimeConfig, TrainConfig

EACH = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
OF_CLASSES = [name for name, kind in KINDS.items() if kind.model().task.gives == "classes"]


def rules(model):
    found = [frost.AtDepth(3), frost.stop_when(score=0.5), frost.stop_when(change=0.5)]
    if model.task.gives == "classes":
        found += [frost.stop_when(confidence=0.4), frost.stop_when(entropy=1.0), frost.stop_when(margin=0.1),
                  frost.stop_when(patience=1), frost.Rule("margin-mean", (0.15,))]
    return found


@EACH
@pytest.mark.parametrize("executor", ["masked", "compact", "refill"])
def test_an_engine_equals_the_obvious_loop(kind, executor):
    model, (inputs, _) = kind.model(), kind.batch(13)
    for rule in rules(model):
        expected = predict_slowly(model, rule, inputs)
        ours = frost.Engine(model, rule, executor, slots=4).predict(inputs)
        assert not ours.errors
        assert torch.equal(ours.depth, expected.depth)
        torch.testing.assert_close(ours.outputs, expected.outputs, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(ours.scores, expected.scores, rtol=1e-5, atol=1e-5)


@EACH
def test_an_answer_does_not_depend_on_who_shares_the_batch(kind):
    """A dozen needles each; campaigns/batch_invariance.py has five hundred."""
    model, (inputs, _) = kind.model(), kind.batch(12)
    found = frost.check_batch_invariance(model, inputs, slots=8)
    assert found.largest <= 1e-5
    engine = frost.Engine(model, frost.stop_when(score=0.5), slots=8, example=row(inputs, 0))
    whole = engine.predict(inputs)
    for place in range(12):
        alone = engine.predict(mapped(lambda part, place=place: part[place:place + 1], inputs))
        assert alone.depth.tolist() == whole.depth[place:place + 1].tolist()
        if found:
            assert torch.equal(alone.outputs[0], whole.outputs[place])
        torch.testing.assert_close(alone.outputs[0], whole.outputs[place], rtol=1e-5, atol=1e-5)


def test_a_block_that_looks_across_the_batch_is_found_out():
    class Across(nn.Module):
        def forward(self, hidden):
            return torch.tanh(hidden - hidden.mean(dim=0))

    model = frost.Frost(nn.Linear(6, 8), Across(), channels=8, classes=3, depth=4)
    found = frost.check_batch_invariance(model, torch.randn(12, 6), slots=8)
    assert not found
    assert found.largest > 1e-3
    assert "looks across it" in frost.Engine(model, frost.AtDepth(2), slots=8).promise
    assert "slots=9" in frost.Engine(model, frost.AtDepth(2), slots=9).promise    # another shape is another question


@EACH
def test_a_training_learns_and_goes_on_exactly(kind, tmp_path):
    batches = [kind.batch(8, seed) for seed in range(6)]
    settings = {"config": TrainConfig(epochs=3, batch=8, learning_rate=1e-2, supervision="all",
                                      precision="float32"), "runtime": RuntimeConfig(save_every=4), "is_shown": False}
    straight = kind.model().train()
    first = frost.fit(copy.deepcopy(straight), batches, config=TrainConfig(
        epochs=1, batch=8, learning_rate=1e-5, precision="float32"), is_shown=False).last.task
    last = frost.fit(straight, batches, **settings).last
    assert last.task < first
    broken = kind.model().train()
    with pytest.raises(OSError, match="pulled"):
        frost.fit(broken, Pulled(batches, at=10), out=tmp_path / "run", **settings)
    resumed = kind.model().train()
    frost.fit(resumed, batches, out=tmp_path / "run", resume=True, **settings)
    for name, weight in straight.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], weight), name
    loaded = frost.load(tmp_path / "run", model=kind.model(seed=5)).model
    assert torch.equal(loaded(batches[0][0]).outputs, straight.eval()(batches[0][0]).outputs)
    assert loaded.signature == straight.signature


class Pulled(list):
    """A loader whose plug is pulled at its so-manieth batch."""

    def __init__(self, batches, at):
        super().__init__(batches)
        self.left = at

    def __iter__(self):
        for batch in super().__iter__():
            self.left -= 1
            if self.left < 0:
                raise OSError("pulled")
            yield batch


@EACH
def test_a_calibration_answers_every_budget(kind, tmp_path):
    model = kind.model()
    held_out = [kind.batch(50, seed) for seed in range(4)]
    calibration = frost.calibrate(model, held_out, is_shown=False)
    assert calibration.depth == DEPTH
    assert model.calibration is calibration
    found = frost.evaluate(model, held_out)
    assert found.inputs == 200
    assert found.rows[-1].mean_depth == DEPTH
    engine = frost.Engine(model, calibration.at_mean_depth(3.0), slots=16)
    depths = [result.depth for inputs, _ in held_out for result in engine.run(
        frost.Request(row(inputs, place)) for place in range(50))]
    assert sum(depths) / len(depths) == pytest.approx(calibration.mean_depth_of(engine.rule), abs=0.03)
    model.save(tmp_path / "run")
    again = frost.load(tmp_path / "run", model=kind.model(seed=3))
    assert again.calibration.to_dict() == calibration.to_dict()
    assert torch.equal(again.model(held_out[0][0]).outputs, model(held_out[0][0]).outputs)


@EACH
@pytest.mark.parametrize("halting", [
    HaltingConfig(rank_by="loss"), HaltingConfig(rank_by="gain", refit=16),
    HaltingConfig(rank_by="wins", refit=16), HaltingConfig(objective="act"), HaltingConfig(objective="ponder")],
    ids=["loss", "gain", "wins", "act", "ponder"])
def test_every_way_to_teach_a_score_works_with_every_head(kind, halting):
    model = kind.model().train()
    before = copy.deepcopy(model.head.score.state_dict())
    config = TrainConfig(epochs=1, learning_rate=1e-2, supervision="all", depth_schedule="random", min_depth=2, ema=0.5,
                         precision="float32")
    runtime = RuntimeConfig(checkpointing=halting.rank_by == "gain")
    frost.fit(model, [kind.batch(8, seed) for seed in range(4)], config=config, halting=halting, runtime=runtime,
              is_shown=False)
    assert any(not torch.equal(value, before[name]) for name, value in model.head.score.state_dict().items())


@pytest.mark.parametrize("name", [name for name in OF_CLASSES if name != "recurrence"])
def test_the_baselines_take_the_same_inputs_and_heads(name):
    kind = KINDS[name]
    ours, (inputs, targets) = kind.model(), kind.batch(6)
    blocks = lambda: copy.deepcopy(ours.transition)    # noqa: E731
    for other in (frost.Vanilla(ours.stem, blocks, copy.deepcopy(ours.head), depth=3),
                  frost.Recurrent(ours.stem, blocks(), copy.deepcopy(ours.head), depth=3),
                  frost.BasicSSM(ours.stem, blocks(), copy.deepcopy(ours.head), depth=3)):
        frost.fit(other, [(inputs, targets)] * 2, epochs=1, is_shown=False)
        rule = frost.stop_when(confidence=0.4)
        expected = predict_slowly(other, rule, inputs)
        given = frost.Engine(other, rule, "compact", 4, example=row(inputs, 0)).predict(inputs)
        assert torch.equal(given.depth, expected.depth)
        torch.testing.assert_close(given.outputs, expected.outputs, rtol=1e-5, atol=1e-5)


def test_a_context_makes_the_first_step_depend_on_the_input():
    """A(0) may be kept only where the block sees nothing of the input beside the state."""
    class Pushed(nn.Module):
        def forward(self, hidden, push):
            return hidden + push

    class Stem(nn.Module):
        def forward(self, x):
            return x, {"push": 3 * x}

    model = frost.Frost(Stem(), Pushed(), channels=4, classes=2, depth=2).eval()
    x = torch.randn(5, 4)
    with torch.no_grad():
        first = model.step(model.begin(x)).hidden
        drive = model.begin(x).drive
    torch.testing.assert_close(first, model.scale.value * 3 * x + drive)


def test_padding_changes_nothing():
    kind = KINDS["tokens"]
    model, (ids, _) = kind.model(), kind.batch(6)
    longer = torch.cat([ids, torch.zeros(6, 4, dtype=torch.long)], dim=1)
    torch.testing.assert_close(model(longer).outputs, model(ids).outputs, rtol=1e-5, atol=1e-6)


def test_the_least_sure_position_decides():
    logits = torch.zeros(2, 1, 3, 2)
    logits[0, 0, :, 0] = torch.tensor([5.0, 5.0, 0.2])
    logits[1, 0, :, 0] = torch.tensor([5.0, 5.0, 5.0])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    from frost.halting.signals import SIGNALS, along

    least = along(SIGNALS["confidence"], logits, torch.zeros(2, 1), mask=mask)[:, 0].exp()
    torch.testing.assert_close(least, torch.sigmoid(torch.tensor([0.2, 5.0])))
    mean = along(SIGNALS["confidence-mean"], logits, torch.zeros(2, 1), mask=mask)[:, 0].exp()
    torch.testing.assert_close(mean, torch.stack([torch.sigmoid(torch.tensor([5.0, 5.0, 0.2])).mean(),
                                                  torch.sigmoid(torch.tensor(5.0))]))
