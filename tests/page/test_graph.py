import json
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import nn

import frost
from frost.halting.signals import SIGNALS, along
from frost.page.build import scripts
from frost.page.graph import OPERATORS, program_of
from frost.zoo.registry import ModelConfig, build

ENGINE = ("operators.js", "products.js", "signals.js", "engine.js")
RUN = """
const engine = localEngine(given.program, new Uint8Array(Buffer.from(given.weights, "base64")), given.signals);
const found = given.inputs.map((input) => {
  engine.begin(Float32Array.from(input));
  return Array.from({ length: given.depth }, () => {
    const { step, output, score, signals } = engine.step();
    return { step, output: [...output], score, signals: given.signals.map((name) => String(signals[name])) };
  });
});
console.log(JSON.stringify(found));
"""
SMALL = ModelConfig(depth=4, image_size=8, image_channels=2, classes=4, channels=16, heads=2, patch=2, bottleneck=8)


@cache
def small(**changes):
    """A small model of the zoo, and its program; made once."""
    model = build(replace(SMALL, **changes), seed=1)
    return model, program_of(model)


def carried_out(node, encoded, model, program, inputs, depth=None):
    """What the page's engine gives: outputs (b, t, …), logits of scores (b, t), and every signal by name (b, t)."""
    given = {"program": program.described, "weights": encoded(program.weights), "signals": list(SIGNALS),
             "depth": depth or model.depth, "inputs": inputs.flatten(1).tolist()}
    found = node(ENGINE, RUN, given)
    outputs = torch.tensor([[reading["output"] for reading in row] for row in found])
    scores = torch.tensor([[reading["score"] for reading in row] for row in found])
    signals = {name: torch.tensor([[float(reading["signals"][place].replace("Infinity", "inf")) for reading in row]
                                   for row in found]) for place, name in enumerate(SIGNALS)}
    return outputs, scores, signals


def check_equal(node, encoded, model, program, depth=None):
    """The page's engine and the model agree to rounding, at every step and in every signal."""
    inputs = torch.rand(2, *model.signature.parts[0].shape)
    with torch.no_grad():
        trajectory = model.eval()(inputs, depth)
    outputs, scores, signals = carried_out(node, encoded, model, program, inputs, depth)
    torch.testing.assert_close(outputs.view_as(trajectory.outputs), trajectory.outputs, rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(scores, trajectory.score_logits, rtol=2e-5, atol=2e-5)
    for name, signal in SIGNALS.items():
        expected = along(signal, trajectory.outputs, trajectory.score_logits, trajectory.states)
        torch.testing.assert_close(signals[name], expected, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [
    {"backbone": "resnet", "patch": 4}, {"backbone": "resnet", "update": "contractive"},
    {"backbone": "resnet", "bottleneck": 0, "dilation": 2, "update": "gated", "patch": 4, "stem": "deep"},
    {"backbone": "resnet-ws", "leaky": True, "score_sees": "output", "patch": 4, "stem": "light"},
    {"backbone": "vit", "score_sees": "output"}, {"backbone": "vit", "update": "theorem"},
    {"backbone": "line", "update": "gated"}, {"backbone": "grid", "score_sees": "output"},
], ids=lambda changes: "-".join(map(str, changes.values())))
def test_javascript_computes_what_python_computes_for_every_backbone(node, encoded, changes):
    check_equal(node, encoded, *small(**changes))


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["vanilla", "basic-ssm-folded"])
def test_javascript_computes_what_python_computes_for_every_baseline(node, encoded, architecture):
    check_equal(node, encoded, *small(backbone="resnet", architecture=architecture, depth=3))


def test_one_graph_stands_for_all_steps_where_the_weights_are_shared():
    assert len(small(backbone="line", update="gated")[1].described["steps"]) == 1


def test_vanilla_has_a_graph_for_each_step():
    assert len(small(backbone="resnet", architecture="vanilla", depth=3)[1].described["steps"]) == 2


def test_a_model_of_one_step_needs_no_graph_for_more():
    assert small(backbone="line", depth=1)[1].described["steps"] == []


def test_what_depends_on_weights_alone_is_stored_as_a_constant():
    program = small(backbone="resnet-ws")[1].described
    kernels = [node for node in program["begin"]["nodes"] if node[0] == "convolution"]
    assert all(node[3][1].startswith("#") for node in kernels)
    assert len(kernels) == 2    # the stem's and B: A(0) is a constant as well


def test_weights_are_stored_once_for_both_graphs():
    model, program = small(backbone="vit", score_sees="output")
    weights = sum(part.numel() for part in model.parameters())
    assert len(program.weights) < 4 * weights * 1.3


def test_an_operation_that_cannot_be_expressed_is_named():
    class Summed(nn.Module):
        def forward(self, hidden):
            return hidden.cumsum(dim=-1) / 10

    model = frost.Frost(nn.Linear(4, 8), Summed(), channels=8, classes=3, depth=2).expects(torch.zeros(4))
    with pytest.raises(ValueError, match=r"cannot express the operation aten\.cumsum"):
        program_of(model)


def test_a_model_of_the_users_own_with_known_operations_is_expressed(node, encoded):
    torch.manual_seed(0)
    block = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))
    model = frost.Frost(nn.Linear(4, 8), block, channels=8, classes=3, depth=5).expects(torch.zeros(4))
    check_equal(node, encoded, model, program_of(model))


def test_a_model_whose_inputs_are_unknown_is_refused():
    model = frost.Frost(nn.Linear(4, 8), nn.Linear(8, 8), channels=8, classes=3, depth=2)
    with pytest.raises(ValueError, match="expects"):
        program_of(model)


def test_javascript_has_every_operator_that_a_graph_may_name(node):
    known = node(("operators.js", "products.js"), "console.log(JSON.stringify(Object.keys(OPERATORS)));", None)
    assert set(OPERATORS.values()) == set(known)


def test_scripts_hold_no_address():
    assert "http" not in scripts(*ENGINE).replace("http://www.w3.org/2000/svg", "")


def test_erf_is_exact_to_float32(node):
    points = torch.linspace(-7, 7, 2001, dtype=torch.float64)
    found = node(("operators.js",), "console.log(JSON.stringify(given.map(erf)));", json.loads(str(points.tolist())))
    assert (torch.tensor(found, dtype=torch.float64) - torch.erf(points)).abs().max() < 1e-12
