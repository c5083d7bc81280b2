"""The halting score (§4.3, Eq. 19): linear in the state, or in the state and in what the output says.

The score travels as its logit: in float32 the sigmoid is exactly 1 from a logit of 17 on, and ranks, losses and
thresholds would no longer tell such scores apart. `score_logit` is the logit; `score` always lies in [0, 1].
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from frost.rowwise import row_sum, sum_of_few

Sees = Literal["state", "output"]    # what a score looks at: the state (the paper), or the output as well


class LinearScore(nn.Module):
    """The linear map inside the halting score.

        s_{i,t} = σ(w_sᵀ h_{i,t} + b_s)        (19)

    Paper choice: h is a map or a sequence of tokens, w_s a vector; the map is pooled first, as for the readout.
    """

    sees_output: ClassVar[bool] = False

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, 1)

    def forward(self, pooled: Tensor, seen: Tensor | None = None) -> Tensor:
        """The score's logit, (b, c) → (b,); what is `seen` of the output is not looked at.

        Multiplied and summed row by row: the product of a matrix and a vector rounds a row by its place in the batch.
        """
        return row_sum(pooled * self.linear.weight[0]) + self.linear.bias


class OutputScore(LinearScore):
    """The linear score (19) on the state and on a few numbers that say how sure the output is.

        s_{i,t} = σ(w_sᵀ h_{i,t} + vᵀ φ(y_{i,t}) + b_s)

    φ comes from the head (`class_features`). How far the best class is ahead is not linear in the state, so (19) alone
    cannot see it. No gradient goes through φ: the ranking must not bend the probabilities that it looks at. v starts at
    0, where the score is the paper's.
    """

    sees_output = True

    def __init__(self, channels: int, features: int = 3) -> None:
        super().__init__(channels)
        self.decided = nn.Linear(features, 1, bias=False)    # v; the name stands in stored weights
        nn.init.zeros_(self.decided.weight)

    def forward(self, pooled: Tensor, seen: Tensor | None = None) -> Tensor:
        """The score's logit, (b, c), (b, f) → (b,); number by number, for the same reason as above."""
        assert seen is not None, "a score that sees the output is given its features"
        return super().forward(pooled) + sum_of_few(seen.detach() * self.decided.weight[0])


def class_features(output: Tensor, mask: Tensor | None = None) -> Tensor:
    """φ(y) of class logits: (b, k) → (b, 3); of an answer at each position, (b, …, k) → (b, 6).

        φ(y) = (p_(1) − p_(2),  log p_(1),  Σ_k p_k log p_k),   p = softmax(y)

    With positions: the least of each over those that count, then the mean of each.
    """
    numbers = output_features(output)
    if output.ndim == 2:
        return numbers
    mask = fitting_mask(output, mask)
    return torch.cat([over_positions(numbers, mask, "least"), over_positions(numbers, mask, "mean")], dim=-1)


def output_features(output: Tensor) -> Tensor:
    """Margin, log of the highest probability, entropy with its sign turned; (…, k) → (…, 3).

    Made of row-wise kernels only, whose rounding does not depend on where in a batch a sample lies.
    """
    output = output.to(torch.promote_types(output.dtype, torch.float32))    # double stays
    logs, chances = output.log_softmax(dim=-1), output.softmax(dim=-1)
    first, second = chances.topk(2, dim=-1).values.unbind(dim=-1)
    entropy = row_sum(chances * logs.clamp_min(-1e30))     # 0 · log 0 is 0
    return torch.stack([first - second, logs.amax(dim=-1), entropy], dim=-1)


def over_positions(numbers: Tensor, mask: Tensor | None, how: Literal["least", "mean"]) -> Tensor:
    """The least or the mean over the positions that count, (b, …, f) → (b, f)."""
    rows = numbers.flatten(1, -2)                                                       # (b, n, f)
    counts = None if mask is None else mask.flatten(1)[:, :, None]
    if how == "least":
        return (rows if counts is None else rows.masked_fill(~counts, torch.inf)).amin(dim=1)
    if counts is None:
        return rows.mean(dim=1)
    return rows.masked_fill(~counts, 0.0).sum(dim=1) / counts.sum(dim=1).clamp_min(1)


def fitting_mask(output: Tensor, mask: Tensor | None) -> Tensor | None:
    """The mask, if it is one of the positions that the output has answers for; a pooled output has none."""
    return mask if mask is not None and mask.shape == output.shape[:-1] else None


def make_score(channels: int, sees: Sees, features: int) -> LinearScore:
    """The score that a configuration names; `features` is what its head says of an output."""
    if sees == "output" and not features:
        raise ValueError("score_sees='output' needs a head that gives classes, whose logits say how sure an answer "
                         "is; use score_sees='state'.")
    return OutputScore(channels, features) if sees == "output" else LinearScore(channels)


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
