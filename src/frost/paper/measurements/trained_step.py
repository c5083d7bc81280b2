"""How a trained model's step behaves beside the bounds of App. B: measured once, for Figure 1 and for App. B.

The bounds themselves are in `contraction_and_jacobian`.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from frost.core.model import Frost
from frost.core.precision import device_of
from frost.core.trajectory import IterativeModel, State
from frost.core.weight_cache import one_unrolling
from frost.data.splits import Images
from frost.paper.measurements.contraction_and_jacobian import (
    StateMap,
    error_bound,
    expansion,
    jacobian_norm,
    worst_pair,
)
from frost.paper.units import Measurement

ASCENTS = 25           # of the search for the pair that is pulled apart the most
POWER = 25             # iterations for a largest singular value
FAR = 8                # times T: how long a state may take to come to rest
RESTED = 1e-3          # of its first move: what a state at rest may still move; 0.9 to the power of 8T for T = 8
SCALES = (0.1, 0.3, 0.6, 1.0)    # λ at which the spectrum of a step is looked at


def theory(model: IterativeModel, test: Images, probes: int) -> dict[str, Any]:
    """Contraction, error and gradient of one trained model, on a few test images, in double precision."""
    with frozen_twin(model, test, probes) as (twin, images):
        return contraction_of(twin, images)


CONTRACTION = Measurement(name="theory", take=lambda model, data, size: theory(model, data.test, size.probes),
                          settings=lambda size: {"probes": size.probes})


@contextmanager
def frozen_twin(model: IterativeModel, test: Images, count: int) -> Iterator[tuple[IterativeModel, Tensor]]:
    """A copy in double precision that no gradient changes, and the first test images.

    The weights rest while the block runs: what depends on them alone is not computed for each of a thousand steps.
    """
    twin = copy.deepcopy(model).double().eval().requires_grad_(False)
    images = test.batch(torch.arange(min(count, len(test)))).double().to(device_of(twin))
    with one_unrolling():
        yield twin, images


def contraction_of(twin: IterativeModel, images: Tensor) -> dict[str, Any]:
    """The same of a model in double precision whose weights take no gradient."""
    with torch.no_grad():
        start = twin.begin(images)
        path = path_of(twin, start, FAR * twin.depth)
    step = step_of(twin, start)
    bound = twin.lipschitz if isinstance(twin, Frost) else None
    last = path[twin.depth]
    pair = worst_pair(step, last, ascents=ASCENTS)
    moves = [(after - before).flatten(1).norm(dim=1) for before, after in itertools.pairwise(path)]
    rows = range(len(images))
    at_end = _spectrum(twin, start, last)
    return {"lipschitz": bound, "worst_expansion": pair.ratio,
            "expansion_between_images": _between_images(twin, start, last),
            "jacobian_at_end": at_end["largest"], "mean_square_at_end": at_end["mean_square"],
            "jacobian_of_all_steps": [_jacobian(twin, start, row, start.hidden, twin.depth) for row in rows],
            "jacobian_from_first": [_jacobian(twin, start, row, path[1], twin.depth - 1) for row in rows],
            "gradient_bound": None if bound is None else bound**twin.depth,
            "move_ratio": [float((later / earlier.clamp_min(1e-300)).mean()) for earlier, later in
                           itertools.pairwise(moves)],
            "last_move": float((moves[-1] / moves[0].clamp_min(1e-300)).max()),
            "rests": bool((moves[-1] <= RESTED * moves[0]).all()),
            "scale": float(twin.scale.value) if isinstance(twin, Frost) else None,
            **_errors(path, moves[0], bound, twin.depth), "by_scale": _by_scale(twin, start, last)}


def _spectrum(model: IterativeModel, start: State, hidden: Tensor) -> dict[str, list[float]]:
    """The largest singular value and the mean square of all, of the Jacobian of a step at these states."""
    maps = [(step_of(model, _row(start, row)), hidden[row : row + 1]) for row in range(len(hidden))]
    return {"largest": [jacobian_norm(step, state, iterations=POWER) for step, state in maps],
            "mean_square": [_mean_square(step, state) for step, state in maps]}


def _by_scale(model: IterativeModel, start: State, hidden: Tensor) -> list[dict[str, Any]]:
    """The same at the same states under other λ, all else as trained; of the paper's own form only."""
    if not isinstance(model, Frost) or model.scale.form != "exp":
        return []
    kept, rows = model.scale.raw.clone(), []
    with torch.no_grad():
        for scale in SCALES:
            model.scale.raw.fill_(math.log(scale))
            rows.append({"scale": scale, **_spectrum(model, start, hidden)})
        model.scale.raw.copy_(kept)
    return rows


def _mean_square(step: StateMap, hidden: Tensor, probes: int = 8) -> float:
    """The mean square of all singular values of the Jacobian, by random directions: E‖Jv‖² / ‖v‖²."""
    generator = torch.Generator().manual_seed(0)
    total = 0.0
    for _ in range(probes):
        vector = torch.randn(hidden.shape, generator=generator, dtype=hidden.dtype)
        _, moved = torch.autograd.functional.jvp(step, hidden, vector, strict=False)
        total += float(moved.square().sum() / vector.square().sum())
    return total / probes


def _errors(path: list[Tensor], first: Tensor, bound: float | None, depth: int) -> dict[str, Any]:
    """‖h_t − h*‖ ÷ ‖h_1 − h_0‖ for t = 1…T, with the state after many steps for h*, beside L^t / (1 − L)."""
    limit = path[-1]
    errors = [float(((path[t] - limit).flatten(1).norm(dim=1) / first).max()) for t in range(1, depth + 1)]
    allowed = None if bound is None else [error_bound(bound, 1.0, t) for t in range(1, depth + 1)]
    return {"errors": [error if math.isfinite(error) else None for error in errors], "error_bound": allowed}


def _between_images(model: IterativeModel, start: State, last: Tensor) -> list[float]:
    """How much one step pulls apart two states of different images under the same drive."""
    if len(last) < 2:
        return []
    step = step_of(model, start)
    with torch.no_grad():
        return expansion(step, last, last.roll(1, dims=0)).tolist()


def _jacobian(model: IterativeModel, start: State, row: int, hidden: Tensor, depth: int) -> float:
    """‖∂h_T / ∂h_0‖ for one image (36)–(39), or from a later state, after `depth` steps from it."""
    one = step_of(model, _row(start, row))

    def all_steps(hidden: Tensor) -> Tensor:
        for _ in range(depth):
            hidden = one(hidden)
        return hidden

    return jacobian_norm(all_steps, hidden.narrow(0, row, 1), iterations=POWER)


def _row(state: State, row: int) -> State:
    return state.mapped(lambda part: part.narrow(0, row, 1))._replace(step=None)


def step_of(model: IterativeModel, start: State) -> StateMap:
    """h → Φ(h) under the drive of these images."""
    return lambda hidden: model.step(start._replace(hidden=hidden, step=None)).hidden


def path_of(model: IterativeModel, start: State, steps: int) -> list[Tensor]:
    """h_0, h_1, …"""
    path, state = [start.hidden], start
    for _ in range(steps):
        state = model.step(state)
        path.append(state.hidden)
    return path
