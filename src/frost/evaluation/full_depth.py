"""Full depth as a user would run it: begin, T steps, one reading, in one piece, by each backend.

What adaptive depth is measured against. The model is folded, as an engine's is; compiled, or as one unrolled graph.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from frost.core.precision import Precision, autocast, device_of
from frost.core.trajectory import IterativeModel
from frost.runtime.backend import BackendName
from frost.runtime.folded import folded

Run = Callable[[Tensor], None]


class Unrolled(nn.Module):
    """A model at a fixed depth, without a look at anything on the way."""

    def __init__(self, model: IterativeModel, depth: int) -> None:
        super().__init__()
        self.model, self.depth = model, depth

    def forward(self, images: Tensor) -> Tensor:
        """y_T."""
        state = self.model.begin(images)
        for _ in range(self.depth):
            state = self.model.step(state)
        return self.model.read(state)[0]


def at_full_depth(model: IterativeModel, backend: BackendName, precision: Precision = "float32",
                  depth: int | None = None) -> Run:
    """A function that runs a batch to its last step and reads it.

    Args:
        depth: steps to take; None is T.
    """
    whole = Unrolled(folded(model), model.depth if depth is None else depth).eval()
    if backend == "onnxruntime":
        return _as_graph(whole, model)
    device, module = device_of(model), torch.compile(whole, dynamic=False) if backend == "compile" else whole

    def run(images: Tensor) -> None:
        with torch.no_grad(), autocast(precision, device):
            module(images.to(device))

    return run


def _as_graph(whole: Unrolled, model: IterativeModel) -> Run:
    import onnxruntime

    from frost.runtime.onnx_backend import open_session
    from frost.runtime.onnx_graphs import exported

    assert model.signature is not None
    with torch.no_grad():
        graph = exported(lambda images: (whole(images),), (model.signature.zeros(3),), ["images"], ["output"])
    session = open_session(onnxruntime, graph)

    def run(images: Tensor) -> None:
        session.run(None, {"images": images.numpy()})

    return run
