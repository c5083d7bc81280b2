"""A model as graphs of plain operations, which `assets/operators.js` carries out at batch 1.

    begin   inputs → y_1, the score's logit, the state after the first step
    step    state → y_t, the score's logit, the next state; one graph a step where the weights are not shared

PyTorch exports both to its core operators. What depends on weights alone is computed here and stored as a constant.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn

from frost.core.block import FAILURES
from frost.core.trajectory import IterativeModel, State, evaluating

LARGEST_WHOLE = 2**24    # numbers travel as float32, which holds whole numbers up to here
OPERATORS = {            # of PyTorch, without overloads: what `operators.js` calls them
    **{name: name for name in (
        "relu", "exp", "neg", "abs", "rsqrt", "log1p", "sigmoid", "isnan", "logical_not", "gelu", "add", "sub", "mul",
        "div", "pow", "eq", "maximum", "minimum", "clamp", "where", "full_like", "sum", "mean", "amax", "amin", "any",
        "topk", "expand", "permute", "select", "slice", "cat", "bmm", "mm", "addmm", "convolution")},
    **dict.fromkeys(("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "clone", "alias"), "reshape"),
    "_softmax": "softmax", "_log_softmax": "log_softmax", "split_with_sizes": "split",
    "native_group_norm": "group_norm", "native_layer_norm": "layer_norm",
    "_native_batch_norm_legit_no_training": "batch_norm",
}
CHECKS = ("_assert_tensor_metadata", "_assert_scalar", "sym_constrain_range")    # nothing to compute


class Program(NamedTuple):
    """A model's graphs, and the constants that they share."""

    described: dict[str, Any]    # constants, begin, steps, input: plain values for JSON
    weights: bytes               # float32, little-endian, one constant behind the other


class _Begin(nn.Module):
    def __init__(self, model: IterativeModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """y_1, the score's logit, and the state."""
        return _read(self.model, self.model.step(self.model.begin(inputs)))


class _Step(nn.Module):
    def __init__(self, model: IterativeModel, like: State) -> None:
        super().__init__()
        self.model, self.like = model, like

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """y_t, the score's logit, and the next state."""
        return _read(self.model, self.model.step(self.like.holding(list(tensors))))


def _read(model: IterativeModel, state: State) -> tuple[Tensor, ...]:
    output, score_logit = model.read(state)
    return (output, score_logit, *state.tensors())


def program_of(model: IterativeModel) -> Program:
    """The graphs of a model that states what one input looks like; what cannot be expressed is a ValueError."""
    if model.signature is None or model.signature.kind != "tensor":
        raise ValueError("a page needs a model whose input is one tensor of a known shape; call "
                         "model.expects(example) first.")
    example = model.signature.zeros(1)
    constants = _Constants()
    with evaluating(model):
        begin = _graph(_Begin(model), (example,), constants)
        state, steps = model.step(model.begin(example)), []
        for _ in range(min(1, model.depth - 1) if model.stationary else model.depth - 1):
            shown = state._replace(step=None) if model.stationary else state
            steps.append(_graph(_Step(model, shown), tuple(state.tensors()), constants))
            state = model.step(state)
    return Program({"input": list(example.shape), "constants": constants.described, "begin": begin, "steps": steps},
                   constants.weights())


class _Constants:
    """Tensors by content: what two graphs share is kept once, and a tensor of equal numbers as one of them."""

    def __init__(self) -> None:
        self.described: list[list[Any]] = []
        self._parts: list[bytes] = []
        self._known: dict[tuple[Any, ...], int] = {}
        self._length = 0

    def reference(self, tensor: Tensor) -> str:
        """The name under which a graph refers to a tensor."""
        if not tensor.is_floating_point() and tensor.numel() and tensor.abs().max() > LARGEST_WHOLE:
            raise ValueError(f"a page holds whole numbers up to {LARGEST_WHOLE:,}, and the model has a constant of "
                             f"{int(tensor.abs().max()):,}.")
        values = tensor.detach().to(torch.float32).cpu().contiguous().numpy().astype("<f4")
        flat, shape = values.reshape(-1), list(values.shape)
        is_uniform = flat.size > 0 and flat.tobytes() == flat[:1].tobytes() * flat.size
        content = flat[:1].tobytes() if is_uniform else flat.tobytes()
        key = (tuple(shape), is_uniform, content)
        if key not in self._known:
            self._known[key] = len(self.described)
            self.described.append([shape, -1, _plain(float(flat[0]))] if is_uniform else [shape, self._place(content)])
        return f"#{self._known[key]}"

    def _place(self, content: bytes) -> int:
        """Where in the file of all constants these numbers begin; a second shape of the same numbers shares them."""
        key = ("place", content)
        if key not in self._known:
            self._known[key] = self._length
            self._parts.append(content)
            self._length += len(content) // 4
        return self._known[key]

    def weights(self) -> bytes:
        """All numbers."""
        return b"".join(self._parts)


def _graph(module: nn.Module, example: tuple[Tensor, ...], constants: _Constants) -> dict[str, Any]:
    """The nodes of an exported module that depend on its inputs, in order, and its outputs."""
    try:
        with warnings.catch_warnings(action="ignore"):    # of the exporter, about its own parts
            exported = torch.export.export(module, example).run_decompositions()
    except FAILURES as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ValueError(f"a page cannot express this model, which PyTorch cannot export: {reason}") from error
    known = _Known(exported)
    graph = exported.graph
    results: list[Any] = list(graph.output_node().args[0])
    needed = _needed([node for node in results if isinstance(node, fx.Node)], known)
    names: dict[fx.Node, int] = {node: place for place, node in enumerate(known.inputs)}
    nodes = []
    for node in graph.nodes:
        if node.op != "call_function" or node in known.values or node not in needed or _is_item(node):
            continue
        name = OPERATORS.get(_name_of(node))
        if name is None:
            raise ValueError(f"a page cannot express the operation {node.target} of this model; it knows "
                             f"{', '.join(sorted(OPERATORS))}.")
        outs, shapes = _outputs_of(node, needed, names)
        nodes.append([name, outs, shapes, [_argument(part, names, known, constants) for part in _positional(node)]])
    return {"nodes": nodes, "outputs": [_argument(node, names, known, constants) for node in results]}


class _Known:
    """The inputs of a graph, and every node that follows from weights alone, with its value."""

    def __init__(self, exported: torch.export.ExportedProgram) -> None:
        signature = exported.graph_signature
        stored = {**signature.inputs_to_parameters, **signature.inputs_to_buffers,
                  **signature.inputs_to_lifted_tensor_constants}
        self.inputs: list[fx.Node] = []
        self.values: dict[fx.Node, Any] = {}
        for node in exported.graph.nodes:
            if node.op == "placeholder" and node.name in stored:
                name = stored[node.name]
                self.values[node] = exported.state_dict[name] if name in exported.state_dict else \
                    exported.constants[name]
            elif node.op == "placeholder":
                self.inputs.append(node)
            elif node.op == "call_function" and all(part in self.values for part in node.all_input_nodes) \
                    and _name_of(node) not in CHECKS:
                args, kwargs = fx.map_arg((node.args, node.kwargs), lambda part: self.values[part])
                self.values[node] = node.target(*args, **kwargs)


def _needed(results: Iterable[fx.Node], known: _Known) -> set[fx.Node]:
    """What the results are made of, constants and what only they need left out."""
    needed: set[fx.Node] = set()
    waiting = list(results)
    while waiting:
        node = waiting.pop()
        if node not in needed and node not in known.values:
            needed.add(node)
            waiting.extend(node.all_input_nodes)
    return needed


def _outputs_of(node: fx.Node, needed: set[fx.Node], names: dict[fx.Node, int]) -> tuple[list[int], list[list[int]]]:
    """Names for what a node gives, −1 where nobody needs it, and the shapes."""
    value = node.meta["val"]
    if isinstance(value, Tensor):
        names[node] = len(names)
        return [names[node]], [list(value.shape)]
    outs = [-1] * len(value)
    for user in node.users:
        if _is_item(user) and user in needed:
            place: Any = user.args[1]
            names[user] = outs[place] = len(names) if outs[place] < 0 else outs[place]
    return outs, [list(part.shape) for part in value]


def _argument(part: Any, names: dict[fx.Node, int], known: _Known, constants: _Constants) -> Any:
    """An argument as JSON has it: "$3" is a value of the graph, "#3" a constant."""
    if isinstance(part, fx.Node):
        return constants.reference(known.values[part]) if part in known.values else f"${names[part]}"
    if isinstance(part, (list, tuple)):
        return [_argument(each, names, known, constants) for each in part]
    return _plain(part)


def _positional(node: fx.Node) -> list[Any]:
    """All arguments in the order of the operator's own, defaults filled in; types and devices mean nothing here."""
    named = dict(node.kwargs)
    schema = node.target._schema.arguments    # type: ignore[union-attr]
    given = [node.args[place] if place < len(node.args) else named.get(argument.name, argument.default_value)
             for place, argument in enumerate(schema)]
    return [None if isinstance(part, (torch.dtype, torch.device, torch.layout, torch.memory_format)) else part
            for part in given]


def _plain(part: Any) -> Any:
    """A number that JSON can hold."""
    if isinstance(part, float) and not math.isfinite(part):
        return "NaN" if math.isnan(part) else "Infinity" if part > 0 else "-Infinity"
    return part


def _name_of(node: fx.Node) -> str:
    """An operator's name without its overload."""
    target: Any = node.target
    name: str = getattr(target, "_schema", target).name if hasattr(target, "_schema") else str(target)
    return name.removeprefix("aten::")


def _is_item(node: fx.Node) -> bool:
    """Whether a node picks one of several outputs."""
    function: Callable[..., Any] | str = node.target
    return getattr(function, "__name__", "") == "getitem"
