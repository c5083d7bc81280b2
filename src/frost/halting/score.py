"""The linear halting score (§4.3, Eq. 19).

The score travels as its logit: in float32 the sigmoid is exactly 1 from a logit of 17 on, and ranks, losses and
thresholds would no longer tell such scores apart. `score_logit` is the logit; `score` always lies in [0, 1].
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class LinearScore(nn.Module):
    """The linear map inside the halting score.

        s_{i,t} = σ(w_sᵀ h_{i,t} + b_s)        (19)

    Paper choice: h is a map or a sequence of tokens, w_s a vector; the map is pooled first, as for the readout.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, 1)

    def forward(self, pooled: Tensor) -> Tensor:
        """The score's logit, (b, c) → (b,)."""
        return self.linear(pooled).squeeze(-1)


def score_of(score_logit: Tensor) -> Tensor:
    """s = σ(z), the halting score in [0, 1] (19)."""
    return torch.sigmoid(score_logit)


def threshold_of(threshold_logit: float) -> float:
    """The threshold as a score in [0, 1] by (19), in double precision; −∞ gives 0 and +∞ gives 1."""
    if math.isnan(threshold_logit):
        return math.nan
    if threshold_logit >= 0:
        return 1.0 / (1.0 + math.exp(-threshold_logit))
    return math.exp(threshold_logit) / (1.0 + math.exp(threshold_logit))
