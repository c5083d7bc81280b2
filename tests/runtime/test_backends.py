"""Backends compute the same answers; rules beside each input; a ladder of shapes."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import frost
from frost.halting.stopping import AtDepth, Rule
from frost.rowwise import row_sum
from frost.runtime.engine import Engine
from frost.runtime.fastest import fastest_backend, remember_fastest
from frost.runtime.folded import folded
from frost.runtime.ladder import Ladder
from frost.runtime.rules import as_compared
from frost.zoo.registry import SIZES, build

pytest.importorskip("onnxruntime")
MODELS = {
    "conv": replace(SIZES["resnet-8px"], channels=16, bottleneck=8, depth=5),
    "conv-ws": replace(SIZES["resnet-8px"], backbone="resnet-ws", channels=16, bottleneck=0, depth=4, image_size=16,
                       patch=4, stem="deep", leaky=True, score_sees="output"),
    "vit": replace(SIZES["vit-8px"], channels=16, heads=2, depth=5),
    "gated": replace(SIZES["resnet-8px"], channels=16, bottleneck=8, depth=4, update="gated"),
    "recurrent": replace(SIZES["vit-8px"], channels=16, heads=2, depth=4, architecture="recurrent"),
    "line": replace(SIZES["line"], channels=8, depth=5, image_size=12),
    "grid": replace(SIZES["grid"], channels=8, depth=5, image_size=5),
}


@pytest.fixture(params=MODELS)
def model(request):
    return build(MODELS[request.param], seed=0).eval()


def inputs_of(model, count=21):
    random = torch.Generator().manual_seed(1)
    return torch.rand(count, *model.signature.parts[0].shape, generator=random)


def middle(model, name="confidence"):
    """A rule that stops some inputs early and some late."""
    from frost.halting.signals import SIGNALS, along

    with torch.no_grad():
        found = model(inputs_of(model))
    values = along(SIGNALS[name], found.outputs, found.score_logits, found.states, found.mask)
    return Rule.fitted(name, [float(part.quantile(0.525)) for part in values.nan_to_num(neginf=-9.0).unbind(dim=1)])


def test_a_folded_model_gives_the_same_outputs(model):
    with torch.no_grad():
        ours, theirs = folded(model)(inputs_of(model)), model(inputs_of(model))
    torch.testing.assert_close(ours.outputs, theirs.outputs, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.score_logits, theirs.score_logits, rtol=1e-4, atol=1e-5)


def test_folding_leaves_the_model_alone():
    model = build(MODELS["conv-ws"], seed=0)
    before = {name: part.clone() for name, part in model.state_dict().items()}
    folded(model.train())
    assert model.training
    assert all(torch.equal(part, before[name]) for name, part in model.state_dict().items())
    assert not any(type(part).__name__ == "StandardConv2d" for part in folded(model).modules())
    assert not any(isinstance(part, nn.BatchNorm2d) for part in folded(model).modules())


def test_onnx_runtime_gives_the_answers_of_pytorch_with_the_same_bits_in_any_company(model):
    rule, batch = middle(model), inputs_of(model)
    plain = Engine(model, rule, slots=5).predict(batch)
    engine = Engine(model, rule, slots=5, backend="onnxruntime")
    graph = engine.predict(batch)
    assert len(set(plain.depth.tolist())) > 1
    assert graph.depth.tolist() == plain.depth.tolist()
    torch.testing.assert_close(graph.outputs, plain.outputs, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(graph.scores, plain.scores, rtol=1e-4, atol=1e-5)
    order = torch.randperm(len(batch), generator=torch.Generator().manual_seed(2)).tolist()
    for result in [*engine.run([(place, batch[place]) for place in order]), *engine.run([(3, batch[3])])]:
        assert torch.equal(result.output, graph.outputs[result.key])
        assert result.depth == graph.depth[result.key]


@pytest.mark.parametrize("name", ["patience", "second-order", "act"])
def test_onnx_runtime_computes_signals_that_remember(name):
    model = build(MODELS["conv"], seed=0).eval()
    rule, batch = middle(model, name), inputs_of(model)
    plain, graph = (Engine(model, rule, slots=4, backend=kind).predict(batch) for kind in ("eager", "onnxruntime"))
    assert graph.depth.tolist() == plain.depth.tolist()


@pytest.mark.parametrize("backend", ["eager", "onnxruntime"])
@pytest.mark.parametrize("ladder", [False, True])
def test_each_request_may_have_a_rule_of_its_own(backend, ladder):
    model = build(MODELS["conv"], seed=0).eval()
    batch = inputs_of(model)
    rules = [middle(model), AtDepth(2), middle(model, "margin"), Rule("rank", (math.inf,)), Rule("fixed", (2.5,))]
    engine = Engine(model, rules[0], slots=4, backend=backend, ladder=ladder, signals=["margin", "rank"])
    alone = {number: Engine(model, rule, slots=4).predict(batch).depth for number, rule in enumerate(rules)}
    session = engine.open()
    for place, image in enumerate(batch):
        session.submit(image, place, rule=rules[place % len(rules)] if place % len(rules) else None)
    depths = {result.key: result.depth for result in session.drained()}
    assert depths == {place: int(alone[place % len(rules)][place]) for place in range(len(batch))}


def test_a_rule_by_a_signal_that_is_not_computed_is_refused():
    model = build(MODELS["conv"], seed=0).eval()
    session = Engine(model, AtDepth(2), slots=2).open()
    with pytest.raises(ValueError, match=r"signals=\['margin'\]"):
        session.submit(inputs_of(model)[0], rule=Rule("margin", (0.5,)))


@pytest.mark.parametrize("backend", ["eager", "onnxruntime"])
def test_a_ladder_runs_at_the_smallest_shape_that_holds_what_is_there(backend):
    model = build(MODELS["vit"], seed=0).eval()
    rule, batch = middle(model), inputs_of(model)
    engine = Engine(model, rule, slots=16, backend=backend, ladder=True)
    lone = next(iter(engine.run(batch[:1])))
    assert engine.work.begun == 1
    assert engine.work.stepped == lone.depth - 1
    expected = Engine(model, rule, slots=16).predict(batch)
    ours = engine.predict(batch)
    assert ours.depth.tolist() == expected.depth.tolist()
    torch.testing.assert_close(ours.outputs, expected.outputs, rtol=1e-4, atol=1e-5)


def test_a_ladder_grows_and_shrinks_while_inputs_come_and_go():
    model = build(MODELS["conv"], seed=0).eval()
    batch = inputs_of(model, 40)
    expected = Engine(model, AtDepth(5), slots=8).predict(batch)
    session = Engine(model, AtDepth(5), slots=8, ladder=True).open()
    rows, answers, waiting = set(), {}, list(range(40))
    for number in range(200):
        for _ in range((1, 0, 0, 5, 0, 0, 0, 0)[number % 8]):
            if waiting:
                place = waiting.pop(0)
                session.submit(batch[place], place)
        answers.update({result.key: result.output for result in session.advance()})
        rows.add(session.rows)
        if not waiting and not len(session):
            break
    assert len(answers) == 40
    assert {1, 8} <= rows
    torch.testing.assert_close(torch.stack([answers[place] for place in range(40)]), expected.outputs, rtol=1e-4,
                               atol=1e-5)


def test_the_rungs_of_a_ladder():
    assert Ladder(64, is_strict=False).rungs == (1, 2, *range(4, 65, 4))
    assert Ladder(150, is_strict=False).rungs[-5:] == (112, 120, 128, 144, 150)
    assert Ladder(100, is_strict=False, is_coarse=True).rungs == (1, 2, 4, 8, 16, 32, 64, 100)
    assert Ladder(13, is_strict=False).rungs == (1, 2, 4, 8, 12, 13)
    assert Ladder(64, is_strict=True).rungs == (64,)
    assert [Ladder(13, is_strict=False).fit(rows) for rows in (1, 3, 8, 9, 13)] == [1, 4, 8, 12, 13]


@pytest.mark.parametrize("width", [10, 99])
def test_an_exported_sum_of_a_row_does_not_round_by_where_the_row_lies(width):
    import onnxruntime

    from frost.runtime.onnx_backend import open_session
    from frost.runtime.onnx_graphs import exported

    graphs = [exported(lambda rows, add=add: (add(rows),), (torch.rand(3, width),), ["rows"], ["sum"])
              for add in (row_sum, lambda rows: rows.sum(dim=-1))]
    sessions = [open_session(onnxruntime, graph) for graph in graphs]
    differ = [0, 0]
    for place in range(16):
        memory = torch.randn(16 * width + 16)[place:][:16 * width].view(16, width)
        memory[:] = torch.randn(width)    # the same row everywhere
        for number, session in enumerate(sessions):
            differ[number] += len(set(session.run(None, {"rows": memory.numpy()})[0].tolist())) - 1
    assert differ[0] == 0
    assert differ[1] > 0    # the control: ONNX Runtime's own sum


def test_thresholds_are_compared_as_in_double_precision():
    random = np.random.default_rng(0)
    values = random.standard_normal(2_000).astype(np.float32)
    exact = np.concatenate([random.standard_normal(1_000), values[:1_000].astype(np.float64), [math.inf, -math.inf]])
    near = as_compared(exact, torch.float32).numpy()
    assert near.dtype == np.float32
    assert ((values[:, None] > near) == (values[:, None].astype(np.float64) > exact)).all()


def test_changed_weights_are_folded_anew():
    model = build(MODELS["conv-ws"], seed=0).eval()
    batch = inputs_of(model)
    engine = Engine(model, AtDepth(3), slots=4)
    before = engine.predict(batch).outputs
    with torch.no_grad():
        model.head.readout.weight.mul_(2.0)
    torch.testing.assert_close(engine.predict(batch).outputs, Engine(model, AtDepth(3), slots=4).predict(batch).outputs)
    assert not torch.allclose(engine.predict(batch).outputs, before)


def test_auto_takes_what_was_found_fastest(tmp_path, monkeypatch):
    monkeypatch.setenv("FROST_CACHE", str(tmp_path))
    model, other = (build(MODELS[name], seed=0).eval() for name in ("conv", "vit"))
    assert Engine(model, AtDepth(2), slots=4, backend="auto").backend == "eager"
    remember_fastest(model, {1: "onnxruntime", 64: "eager"})
    assert Engine(model, AtDepth(2), slots=4, backend="auto").backend == "onnxruntime"
    assert [fastest_backend(model, slots) for slots in (1, 16, 60)] == ["onnxruntime", "onnxruntime", "eager"]
    assert fastest_backend(other, 1) == "eager"
    file = remember_fastest(other, {1: "compile"})
    file.write_text("{damaged")
    assert fastest_backend(other, 1) == "eager"


def test_what_cannot_be_exported_is_named():
    class Odd(nn.Module):
        def forward(self, hidden):
            return torch.linalg.eigvals(hidden[:, :, None] * hidden[:, None, :]).real

    model = frost.Frost(nn.Linear(4, 4), Odd(), channels=4, classes=2, depth=2).expects(torch.rand(4))
    with pytest.raises(ValueError, match="cannot be exported") as refused:
        Engine(model, AtDepth(2), backend="onnxruntime")
    assert "eig" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_onnx_runtime_needs_to_know_the_input():
    model = frost.Frost(nn.Linear(4, 4), nn.Tanh(), channels=4, classes=2, depth=2)
    with pytest.raises(ValueError, match="example=input"):
        Engine(model, AtDepth(2), backend="onnxruntime")
    ours = Engine(model, AtDepth(2), backend="onnxruntime", example=torch.rand(4), slots=3).predict(torch.rand(5, 4))
    assert ours.depth.tolist() == [2] * 5
