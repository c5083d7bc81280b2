"""`begin` and `step` of a model as ONNX graphs whose batch is a free dimension.

    begin   inputs, table                         → state, memory, answers
    step    state, memory, steps, table           → what moves of state and memory, answers

A loop inside a graph is slow or refused by most runtimes; a step that carries no index needs none: the host loops.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from frost.core.block import FAILURES
from frost.core.inputs import Inputs, Signature, leaves
from frost.core.trajectory import State
from frost.halting.signals import Memory
from frost.runtime.step import Step, Taken

EXTRA = "the extra 'onnx' is missing: pip install -e '.[onnx]' in a clone of frost"
ANSWERS = ("output", "score_logit", "values", "stops", "is_bad")
TRIED = 3    # rows of the example that graphs are made with; no batch is likely to have a meaning at this size


class Layout(NamedTuple):
    """The names of what goes in and out, and what a step changes."""

    inputs: tuple[str, ...]
    state: tuple[str, ...]      # names of the state's tensors, in the order of `State.tensors()`
    memory: tuple[str, ...]
    moving: tuple[str, ...]     # of both, those that a step changes
    like: State                 # a state of this structure
    signature: Signature


class Graphs(NamedTuple):
    """Two graphs, and the names of what they take and give."""

    begin: bytes
    step: bytes
    layout: Layout


def export_graphs(step: Step, signature: Signature) -> Graphs:
    """The graphs of a model and its rules; what cannot be expressed is a ValueError that names the operation."""
    inputs = _example(signature)
    with torch.no_grad():
        table = step.rules.default.thresholds.expand(TRIED, -1, -1).contiguous()
        first = step.begin(inputs, table)
        state = first.state._replace(step=None)
        steps = torch.full((TRIED,), 2, dtype=torch.long)
        second = step.step(state, first.memory, steps, table)
        layout = _layout_of(state, first.memory, second, inputs, signature)

        def begin(*given: Tensor) -> tuple[Tensor, ...]:
            *parts, rows = given
            taken = step.begin(_as(signature, parts), rows)
            return (*taken.state.tensors(), *taken.memory, *_answers(taken))

        def one_more(*given: Tensor) -> tuple[Tensor, ...]:
            hidden, rest = given[:len(layout.state)], given[len(layout.state):]
            taken = step.step(state.holding(list(hidden)), rest[:-2], rest[-2], rest[-1])
            after = dict(zip((*layout.state, *layout.memory), (*taken.state.tensors(), *taken.memory), strict=True))
            return (*(after[name] for name in layout.moving), *_answers(taken))

        held = (*state.tensors(), *first.memory)
        return Graphs(
            exported(begin, (*leaves(inputs), table), (*layout.inputs, "table"),
                      (*layout.state, *layout.memory, *ANSWERS)),
            exported(one_more, (*(part.contiguous() for part in held), steps, table),
                      (*layout.state, *layout.memory, "steps", "table"),
                      (*(f"next.{name}" for name in layout.moving), *ANSWERS)), layout)


def _example(signature: Signature) -> Inputs:
    """Inputs that differ from row to row; zeros of what is not floating point."""
    random = torch.Generator().manual_seed(0)
    made = [torch.rand(TRIED, *part.shape, generator=random).to(part.dtype) if part.dtype.is_floating_point else
            torch.ones(TRIED, *part.shape, dtype=part.dtype) if part.dtype == torch.bool else
            torch.zeros(TRIED, *part.shape, dtype=part.dtype) for part in signature.parts]
    return _as(signature, made)


def _as(signature: Signature, parts: Sequence[Tensor]) -> Inputs:
    if signature.kind == "tensor":
        return parts[0]
    return tuple(parts) if signature.kind == "tuple" else {
        part.name: tensor for part, tensor in zip(signature.parts, parts, strict=True)}


def _answers(taken: Taken) -> tuple[Tensor, ...]:
    return taken.output, taken.score_logit, taken.values, taken.stops, taken.is_bad


def _layout_of(state: State, memory: Memory, second: Taken, inputs: Inputs, signature: Signature) -> Layout:
    own = [("hidden", state.hidden), ("drive", state.drive), ("feedthrough", state.feedthrough)]
    names = [name for name, part in own if part is not None] + [f"context.{name}" for name in state.context]
    remembered = tuple(f"memory.{number}" for number in range(len(memory)))
    after = second.state.tensors()
    moving = tuple(name for name, before, now in zip(names, state.tensors(), after, strict=True) if before is not now)
    given = tuple(f"input.{part.name}" if part.name else "input" for part in signature.parts)
    return Layout(given, tuple(names), remembered, (*moving, *remembered), state, signature)


class _Module(nn.Module):
    """A function as a module, which is what the exporter takes."""

    def __init__(self, function: Callable[..., tuple[Tensor, ...]]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        """The function."""
        return self._function(*given)


def exported(function: Callable[..., tuple[Tensor, ...]], given: tuple[Tensor, ...], names: Sequence[str],
             outputs: Sequence[str]) -> bytes:
    """A function of tensors, a row an input each, as a graph whose batch is free."""
    try:
        import onnxscript  # noqa: F401 - what torch exports with
    except ImportError as error:
        raise ValueError(f"exporting a graph needs onnx and onnxscript; {EXTRA}.") from error
    rows = torch.export.Dim("rows", min=1, max=2**20)
    try:
        with _quiet():
            program = torch.onnx.export(_Module(function).eval(), given, input_names=list(names),
                                        output_names=list(outputs), dynamo=True, verbose=False, optimize=True,
                                        dynamic_shapes=(tuple({0: rows} for _ in given),))
    except (*FAILURES, torch.onnx.OnnxExporterError) as error:
        raise ValueError(f"this model cannot be exported: {_reason(error)}.") from error
    assert program is not None
    graph: bytes = program.model_proto.SerializeToString()
    return graph


def _reason(error: BaseException) -> str:
    """The innermost cause in a line; it names the operation."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300].rstrip(".")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's remarks on libraries that are not installed."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(level)


