"""Steps in ONNX Runtime: a third of the time of eager PyTorch where a step is small.

The graphs are made when the engine is, in some seconds. Tensors go in and out without being copied. CPU only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from frost.core.inputs import Inputs, leaves
from frost.core.precision import Precision, device_of
from frost.core.trajectory import State
from frost.halting.signals import Memory
from frost.runtime.backend import Backend
from frost.runtime.onnx_graphs import ANSWERS, EXTRA, export_graphs
from frost.runtime.step import Step, Taken


class OnnxRuntime(Backend):
    """Two sessions of ONNX Runtime."""

    name = "onnxruntime"
    has_own_threads = True

    def __init__(self, step: Step, precision: Precision) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise ValueError(f"backend 'onnxruntime' needs ONNX Runtime; {EXTRA}.") from error
        if precision != "float32" or device_of(step.model).type != "cpu":
            raise ValueError("backend 'onnxruntime' computes in float32 on the CPU here; use 'eager' or 'compile' for "
                             "bf16 or a GPU.")
        if step.model.signature is None:
            raise ValueError("backend 'onnxruntime' makes its graphs for one kind of input, and the model does not "
                             "know what one looks like; pass Engine(…, example=input).")
        graphs = export_graphs(step, step.model.signature)
        self._layout = graphs.layout
        self._begin, self._step = (open_session(onnxruntime, graph) for graph in (graphs.begin, graphs.step))
        self._begin_takes, self._step_takes = ({part.name for part in session.get_inputs()}
                                               for session in (self._begin, self._step))

    def begin(self, inputs: Inputs, table: Tensor) -> Taken:
        """As `Step.begin`."""
        ours = self._layout
        given = dict(zip((*ours.inputs, "table"), (*leaves(inputs), table), strict=True))
        found = self._run(self._begin, self._begin_takes, given)
        count = len(ours.state)
        state = ours.like.holding(found[:count])
        memory = tuple(found[count:count + len(ours.memory)])
        return Taken(state._replace(step=1), memory, *found[count + len(ours.memory):])

    def step(self, state: State, memory: Memory, steps: Tensor, table: Tensor) -> Taken:
        """As `Step.step`."""
        ours = self._layout
        held = dict(zip((*ours.state, *ours.memory), (*state.tensors(), *memory), strict=True))
        found = self._run(self._step, self._step_takes, {**held, "steps": steps, "table": table})
        held.update(zip(ours.moving, found, strict=False))
        answers = found[len(found) - len(ANSWERS):]
        return Taken(state.holding([held[name] for name in ours.state]), tuple(held[name] for name in ours.memory),
                     *answers)

    def _run(self, session: Any, takes: set[str], given: dict[str, Tensor]) -> list[Tensor]:
        found = session.run(None, {name: part.numpy() for name, part in given.items() if name in takes})
        return [torch.from_numpy(part) for part in found]


_pool: list[int] = []    # threads of the pool that all sessions of this process share, once it is made


def open_session(onnxruntime: Any, graph: bytes | str) -> Any:
    """A session on the CPU with as many threads as PyTorch has.

    Sessions share one pool: the idle threads of a pool of its own would go on waiting, busily, on the core that the
    other session needs.
    """
    threads = torch.get_num_threads()
    if not _pool:
        try:
            onnxruntime.set_global_thread_pool_sizes(threads, 1)
            _pool.append(threads)
        except Exception:    # of no class of its own: somebody else has opened a session, whose pool stays as it is
            _pool.append(0)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if threads == _pool[0]:
        options.use_per_session_threads = False
    else:
        options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
