"""The same bits in every row of a batch: linear maps and elementwise functions whose rounding ignores a row's place.

Kernels share a batch out among threads and vector lanes, and a row may round by the share that it falls into. What is
computed here is computed for each row by itself where no gradients are wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LANES = 64    # elements; a multiple of what a vectorised loop takes at a time on any processor that we know


def flat_rows(values: Tensor) -> Tensor:
    """Everything of a sample in one row, (b, …) → (b, n); a number a sample is a row of one."""
    return values.flatten(1) if values.ndim > 1 else values[:, None]    # no len(): a batch may be a symbol


def row_linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A linear map of the last axis; one product for each sample of (b, c) where no gradients are wanted.

    The product of a matrix of few rows with another is shared out among threads by rows. One small product for each row
    gives a sample the same bits in any place of a batch.
    """
    if torch.is_grad_enabled() or rows.ndim != 2 or torch.compiler.is_exporting():    # another runtime, other kernels
        return F.linear(rows, weight, bias)
    products = torch.bmm(rows[:, None, :], weight.t().expand(rows.shape[0], -1, -1))[:, 0]
    return products if bias is None else products + bias


def sample_linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A linear map at each position, (b, n, c) → (b, n, k); one product for each sample of a batch."""
    if torch.is_grad_enabled() or torch.compiler.is_exporting():
        return F.linear(rows, weight, bias)
    products = torch.bmm(rows, weight.t().expand(rows.shape[0], -1, -1))
    return products if bias is None else products + bias


def row_sum(numbers: Tensor) -> Tensor:
    """The sum over the last axis.

    In an exported graph a product with ones: ONNX Runtime's own sum rounds by where in memory a row begins.
    """
    if not torch.compiler.is_exporting():
        return numbers.sum(dim=-1)
    return F.linear(numbers, numbers.new_ones(1, numbers.shape[-1]))[..., 0]


def sum_of_few(numbers: Tensor) -> Tensor:
    """The sum over a last axis of a few numbers, number by number: (b, f) → (b,)."""
    return row_sum(numbers) if torch.compiler.is_exporting() else reduce(add, numbers.unbind(dim=-1))


class RowLinear(nn.Linear):
    """A linear map of vectors or of positions that treats each sample by itself where no gradients are wanted."""

    def forward(self, rows: Tensor) -> Tensor:
        """(b, c) → (b, k), or (b, n, c) → (b, n, k)."""
        linear = sample_linear if rows.ndim == 3 else row_linear
        return linear(rows, self.weight, self.bias)


def elementwise_by_row(function: Callable[[Tensor], Tensor], numbers: Tensor) -> Tensor:
    """An elementwise function of (b,) whose rounding does not depend on a sample's place in the batch.

    A vectorised loop computes the last few elements of a tensor by other instructions, which round differently. Here
    every sample fills a row of its own, so that none is among the last few.
    """
    return function(numbers[:, None].repeat(1, LANES))[:, 0]
