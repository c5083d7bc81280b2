"""What computes the steps of an engine: PyTorch as it is, PyTorch compiled, or ONNX Runtime.

A backend runs the two functions of a `Step` at the shapes that the engine gives it. Which one is fastest depends on the
machine, the model and the batch: `frost bench RUN --save` finds out, and `auto` takes what it found.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
from torch import Tensor

from frost.core.inputs import Inputs
from frost.core.precision import Precision, autocast, device_of
from frost.core.trajectory import State
from frost.halting.signals import Memory
from frost.runtime.step import Step, Taken

BackendName = Literal["eager", "compile", "onnxruntime"]
BACKENDS: tuple[BackendName, ...] = ("eager", "compile", "onnxruntime")
MOST_SHAPES = 32    # of a compiled step: a ladder up to 2**20, and engines with other slots


class Backend(ABC):
    """Runs `begin` and `step`."""

    name: ClassVar[BackendName]
    has_own_threads: ClassVar[bool] = False    # which those of PyTorch would get in the way of
    compiles_shapes: ClassVar[bool] = False    # each takes seconds when it first comes
    ignores_shape: ClassVar[bool] = False    # a row's bits are the same in batches of any size, where they are at one

    @abstractmethod
    def begin(self, inputs: Inputs, table: Tensor) -> Taken:
        """Stem and first step of a batch."""

    @abstractmethod
    def step(self, state: State, memory: Memory, steps: Tensor, table: Tensor) -> Taken:
        """One more step of a batch of any depths."""


class Eager(Backend):
    """PyTorch as it is."""

    name = "eager"

    def __init__(self, step: Step, precision: Precision) -> None:
        self._step, self._precision, self._device = step, precision, device_of(step.model)

    def begin(self, inputs: Inputs, table: Tensor) -> Taken:
        """As `Step.begin`."""
        with torch.no_grad(), autocast(self._precision, self._device):
            return self._step.begin(inputs, table)

    def step(self, state: State, memory: Memory, steps: Tensor, table: Tensor) -> Taken:
        """As `Step.step`."""
        with torch.no_grad(), autocast(self._precision, self._device):
            return self._step.step(state, memory, steps, table)


class Compiled(Backend):
    """PyTorch compiled: one graph for each shape, made when it first comes, in some seconds."""

    name = "compile"
    compiles_shapes = True

    def __init__(self, step: Step, precision: Precision) -> None:
        limits = torch._dynamo.config
        limits.recompile_limit = max(limits.recompile_limit, MOST_SHAPES)    # beyond it would run uncompiled
        self._precision, self._device = precision, device_of(step.model)
        self._begin = torch.compile(step.begin, dynamic=False)
        self._step = torch.compile(step.step, dynamic=False)

    def begin(self, inputs: Inputs, table: Tensor) -> Taken:
        """As `Step.begin`."""
        with torch.no_grad(), autocast(self._precision, self._device):
            return self._begin(inputs, table)

    def step(self, state: State, memory: Memory, steps: Tensor, table: Tensor) -> Taken:
        """As `Step.step`."""
        with torch.no_grad(), autocast(self._precision, self._device):
            return self._step(state, memory, steps, table)


def make_backend(name: BackendName, step: Step, precision: Precision) -> Backend:
    """The backend of this name; one whose library is missing, or that cannot do what is asked, is a ValueError."""
    if name == "eager":
        return Eager(step, precision)
    if name == "compile":
        return Compiled(step, precision)
    from frost.runtime.onnx_backend import OnnxRuntime

    return OnnxRuntime(step, precision)
