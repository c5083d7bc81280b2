"""What is read from a state: C, D and the halting score.

The head is the same for FROST and for every baseline, so that they differ in their dynamics only.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from frost.halting.score import Sees, make_score


class RowLinear(nn.Linear):
    """A linear map that treats each row by itself where no gradients are wanted.

    The product of a matrix of few rows with another is shared out among threads by rows, and a row rounds by the share
    that it falls into. One small product for each row gives an image the same bits in any place of a batch.
    """

    def forward(self, rows: Tensor) -> Tensor:
        """(b, c) → (b, k)."""
        if torch.is_grad_enabled() or rows.ndim != 2:
            return super().forward(rows)
        products = torch.bmm(rows[:, None, :], self.weight.t().expand(len(rows), -1, -1))[:, 0]
        return products if self.bias is None else products + self.bias


class Head(nn.Module):
    """C, D and s on pooled features.

    Paper choice: D has no bias, so that D_λ = D holds exactly (17); it maps pooled x to the classes.
    """

    def __init__(self, channels: int, classes: int, score_sees: Sees = "state") -> None:
        super().__init__()
        if classes < 2:
            raise ValueError(f"classes must be at least 2, got {classes}.")
        self.readout = RowLinear(channels, classes)
        self.feedthrough = RowLinear(channels, classes, bias=False)
        self.score = make_score(channels, score_sees)

    def score_logit(self, features: Tensor, output: Tensor, isolate: bool = False) -> Tensor:
        """The logit of the score (19), (b, c), (b, k) → (b,); isolated, its gradients do not reach the state."""
        return self.score(features.detach() if isolate else features, output)
