"""The processes of one training: which one this is, what they share, how they agree.

Each process holds all weights and computes its part of every batch. Gradients are summed once, as one tensor, when the
backward pass has ended: a weight that every refinement step shares has its gradient only then, so there is nothing to
send while the pass runs, and DistributedDataParallel would wait like us. A sum, not a mean: the loss is that of the
whole batch, and each process differentiates its own images in it.

`torchrun` or `frost launch` set the environment that `process_group` reads; without it a training is one process.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

Answer = TypeVar("Answer")
CPU = torch.device("cpu")


class PeerLost(RuntimeError):
    """Another process of this training has died or no longer answers."""

    status = 75    # of the process: try again (EX_TEMPFAIL), with --resume


class AbortedByRank0(RuntimeError):
    """Rank 0 has met a mistake and reports it; the other processes end without a word."""

    status = 2


@dataclass(frozen=True, slots=True)
class World:
    """One process among those of a training."""

    rank: int = 0
    size: int = 1
    device: torch.device = CPU    # where tensors are when they are sent

    @property
    def is_rank0(self) -> bool:
        """Whether this process writes files and speaks to people."""
        return self.rank == 0

    def part(self, count: int) -> slice:
        """Which of `count` images, in order, are this process's; sizes differ by one at most."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def agree(self, number: int) -> int:
        """The largest number that any process brought."""
        if self.size == 1:
            return number
        shared = torch.tensor(number, device=self.device)
        with _explained():
            dist.all_reduce(shared, dist.ReduceOp.MAX)
        return int(shared)

    def gathered(self, mine: Tensor, count: int, part: slice) -> Tensor:
        """The rows of all processes in order, (n, …) → (count, …); gradients flow into one's own rows only."""
        if self.size == 1:
            return mine
        everything = mine.new_zeros(count, *mine.shape[1:])
        everything[part] = mine.detach()
        self._sum(everything)
        return torch.cat([everything[:part.start], mine, everything[part.stop:]])

    def gathered_at(self, rows: Tensor, mine: Tensor, count: int) -> Tensor:
        """Rows that the processes have computed, each in its place, (n, …) → (count, …); no gradients."""
        everything = mine.new_zeros(count, *mine.shape[1:], device=self.device)
        everything[rows.to(self.device)] = mine.detach().to(self.device)
        self._sum(everything)
        return everything.to(mine.device)

    def summed(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The sum of each tensor over the processes; one message for all."""
        if self.size == 1 or not tensors:
            return list(tensors)
        flat = torch.cat([tensor.detach().flatten() for tensor in tensors])
        self._sum(flat)
        parts = flat.split([tensor.numel() for tensor in tensors])
        return [part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True)]

    def sum_gradients(self, model: nn.Module) -> None:
        """Add up the gradients of all processes, and average what the model keeps of its batches (BatchNorm)."""
        if self.size == 1:
            return
        parameters = [part for part in model.parameters() if part.requires_grad]
        kept = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        ours = [torch.zeros_like(part) if part.grad is None else part.grad for part in parameters]
        total = self.summed([*ours, *kept])
        for parameter, gradient in zip(parameters, total, strict=False):
            parameter.grad = gradient
        with torch.no_grad():
            for buffer, value in zip(kept, total[len(parameters):], strict=True):
                buffer.copy_(value / self.size)

    def on_rank0(self, work: Callable[[], Answer]) -> Answer:
        """Let rank 0 do something and send its answer to all; a mistake there ends every process."""
        if self.size == 1:
            return work()
        message: list[Any] = [False, None]    # whether it went well, and the answer
        failure: Exception | None = None
        if self.is_rank0:
            try:
                message = [True, work()]
            except Exception as error:
                failure = error
        with _explained():
            dist.broadcast_object_list(message)
        if failure is not None:
            raise failure
        is_well, answer = message
        if not is_well:
            raise AbortedByRank0
        return answer

    def tensors_of_rank0(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of rank 0, for all."""
        if self.size == 1:
            return tensors
        shapes = self.on_rank0(lambda: {name: (tuple(part.shape), part.dtype) for name, part in tensors.items()})
        received: dict[str, Tensor] = {}
        for name, (shape, dtype) in shapes.items():
            tensor = (tensors[name].to(self.device).contiguous() if self.is_rank0 else
                      torch.empty(shape, dtype=dtype, device=self.device))
            with _explained():
                dist.broadcast(tensor, 0)
            received[name] = tensor.cpu()
        return received

    def _sum(self, tensor: Tensor) -> None:
        with _explained():
            dist.all_reduce(tensor)


SINGLE = World()


@contextmanager
def process_group(device: torch.device, timeout: float) -> Iterator[World]:
    """The processes that the environment names; the group ends with the block.

    Args:
        timeout: seconds that a process waits for another before it gives up.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size <= 1:
        yield SINGLE
        return
    # What torch.distributed.nn imports late (an optimiser's first step does it) keeps the group that exists then as a
    # default argument for ever: its threads would outlive the block and now and then abort the process as it leaves.
    importlib.import_module("torch.distributed.nn.functional")
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    with _explained():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=timeout))
    try:
        yield World(dist.get_rank(), dist.get_world_size(), device)
    finally:
        dist.destroy_process_group()


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise PeerLost(f"another process of this training has died, or has not answered in time ({reason}); run the "
                       "same command with --resume.") from error
