"""Bring your own recurrence: `frost.iterate(begin, step, read, depth=…)` makes any recurrent model one of ours.

A GRU cell, a solver, a reasoner of two levels, a refiner of flow fields: what repeats one step on a state has
trajectories, stopping rules, a calibration and the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, get_args

import torch
from torch import Tensor, nn

from frost.core.block import version_of
from frost.core.inputs import Inputs, batch_of, leaves
from frost.core.layout import Layout, channel_axis, pool
from frost.core.task import CLASSES, Gives, Judge, Task
from frost.core.trajectory import IterativeModel, State
from frost.halting.score import LinearScore

Structure = tuple[str, tuple[str, ...]]    # kind, and the names of its parts


class ScoreHead(nn.Module):
    """A halting score (19) on the first tensor of a state, pooled; under the name that every model has it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.score = LinearScore(channels)


class Iterated(IterativeModel):
    """A recurrence of the user's behind the three verbs; made by `iterate`."""

    def __init__(self, begin: Callable[[Any], Any], step: Callable[[Any], Any], read: Callable[[Any], Tensor],
                 depth: int, task: Task, channels: int | None, layout: Layout) -> None:
        super().__init__()
        if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
            raise ValueError(f"depth must be at least 1, a whole number, got {depth!r}.")
        for name, part in (("begin", begin), ("step", step), ("read", read)):
            if not callable(part):
                raise ValueError(f"{name} must be a function or a module, got {type(part).__name__}.")
        self.depth, self.layout, self.channels = depth, layout, channels
        self.verbs = (begin, step, read)
        owners = [_owner_of(verb) for verb in self.verbs]
        self.parts = nn.ModuleList(dict.fromkeys(owner for owner in owners if isinstance(owner, nn.Module)))
        self.task = task
        self.has_score = channels is not None
        self.head = None if channels is None else ScoreHead(channels)
        self._structure: Structure = ("tensor", ("",))    # of a state; known from the first one on

    def _begin(self, inputs: Inputs) -> State:
        """The user's first state, for a batch of inputs."""
        given = self.verbs[0](inputs)
        self._structure = _structure_of(given)
        return self._held(given, batch_of(inputs), 0)

    def step(self, state: State) -> State:
        """The user's step."""
        versions = [version_of(part) for part in state.tensors()]
        given = self.verbs[1](self._as_given(state))
        if [version_of(part) for part in state.tensors()] != versions:
            raise ValueError("step must not change its state in place; use h = 0.9 * h instead of h *= 0.9.")
        if _structure_of(given) != self._structure:
            raise ValueError(f"step must give a state like the one it gets, {_shown(self._structure)}; it gave "
                             f"{_shown(_structure_of(given))}.")
        after = self._held(given, state.hidden.shape[0], None if state.step is None else state.step + 1)
        for before, now in zip(state.tensors(), after.tensors(), strict=True):
            if before.shape != now.shape:
                raise ValueError(f"step must keep the shapes of a state, but maps {tuple(before.shape)} to "
                                 f"{tuple(now.shape)}.")
        return after

    def read(self, state: State, isolate_score: bool = False) -> tuple[Tensor, Tensor]:
        """The user's reading, and the score's logit; 0 where there is no score."""
        output = self.verbs[2](self._as_given(state))
        if not isinstance(output, Tensor) or output.ndim < 1 or output.shape[0] != state.hidden.shape[0]:
            raise ValueError(f"read must give one tensor with the batch of {len(state.hidden)} in front, got "
                             f"{tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__}.")
        if self.head is None:
            return output, output.new_zeros(output.shape[0], dtype=torch.float32)
        assert self.channels is not None
        features = pool(state.hidden, channel_axis(state.hidden.shape, self.channels, self.layout))
        return output, self.head.score(features.detach() if isolate_score else features)

    def _held(self, given: Any, count: int, step: int | None) -> State:
        """A state of the user's as one of ours: its first tensor, and the others as context that moves."""
        parts = leaves(given)
        if not parts:
            raise ValueError("a state must hold at least one tensor, got an empty tuple or dict.")
        for part in parts:
            if not isinstance(part, Tensor) or part.ndim < 1 or part.shape[0] != count:
                came = f"shape {tuple(part.shape)}" if isinstance(part, Tensor) else f"a {type(part).__name__}"
                raise ValueError(f"every part of a state must be a tensor with the batch of {count} in front, got "
                                 f"{came}.")
        return State(parts[0], None, None, step, {f"state.{number}": part for number, part in enumerate(parts[1:], 1)})

    def _as_given(self, state: State) -> Any:
        """The state as the user's functions know it."""
        kind, names = self._structure
        parts = [state.hidden, *state.context.values()]
        if kind == "tensor":
            return parts[0]
        return tuple(parts) if kind == "tuple" else dict(zip(names, parts, strict=True))


def iterate(begin: Callable[[Any], Any], step: Callable[[Any], Any], read: Callable[[Any], Tensor], depth: int, *,
            gives: Gives = "classes", loss: Judge | None = None, quality: Judge | None = None,
            channels: int | None = None, layout: Layout = "auto") -> Iterated:
    """Make a recurrence of your own a model whose depth is chosen at inference.

    Each of the three is a module, a method of one, or a plain function; only weights of modules are trained and saved.

    Args:
        begin: inputs → state: a tensor, or a tuple or dict of tensors, each with the batch in front. Signals and the
            score look at its first tensor, of a dict the first by name.
        step: state → state, of the same shapes; it must not count its own steps, since a batch may mix depths.
        read: state → output, the batch in front.
        gives: `classes` if the output holds logits with the classes last, `numbers` if not.
        loss, quality: one number a sample; those of a classifier if it gives classes, else yours.
        channels: of the state's first tensor, for a halting score on it; None is a model without a score, which stops
            by confidence, change or another signal that needs none.
    """
    if gives not in get_args(Gives):
        raise ValueError(f"gives is one of {', '.join(get_args(Gives))}; got '{gives}'.")
    task = (CLASSES if gives == "classes" else Task("numbers", None, None)).with_judges(loss, quality)
    return Iterated(begin, step, read, depth, task, channels, layout)


def _owner_of(verb: Any) -> Any:
    """A module, or the one that a method belongs to."""
    while isinstance(verb, partial):
        verb = verb.func
    return getattr(verb, "__self__", verb)


def _structure_of(given: Any) -> Structure:
    """Tensor, tuple or dict, and the names of a dict's parts."""
    if isinstance(given, Mapping):
        return "dict", tuple(sorted(given))
    return ("tuple", tuple(map(str, range(len(given))))) if isinstance(given, (tuple, list)) else ("tensor", ("",))


def _shown(structure: Structure) -> str:
    kind, names = structure
    return "a tensor" if kind == "tensor" else f"a {kind} of {', '.join(names)}"
