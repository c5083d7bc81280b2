"""Batch–time ranking and the easy and hard sets (§4.2, §5.2, Eq. 18).

Ranks and sets only: the losses that use them are in `training.losses`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from frost.config import check_fields, setting

RankBy = Literal["loss", "gain", "wins"]    # ℓ_{i,t};  ℓ_{i,t} − ℓ_{i,T};  right at T less right at t


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltingConfig:
    """How the halting score is supervised."""

    objective: Literal["rank", "act", "ponder"] = setting(
        "rank", "what teaches the score: ranks (the paper), ACT or PonderNet")
    ponder_weight: float = setting(0.01, "ACT: price of a step; PonderNet: weight of the prior", least=0)
    rank_by: RankBy = setting("loss", "what is ranked: the loss (the paper), the gain that is left, answers to be won")
    refit: int = setting(0, "training inputs on which the score alone is taught in the end; 0 is none", least=0)
    fraction: float = setting(0.25, "share of the ranked pairs that is easy, and that is hard", above=0, most=0.5,
                              formerly=("easy_fraction", "hard_fraction"))
    margin: float = setting(0.2, "δ in (22)", least=0)
    relative_weight: float = setting(0.7, "α_rel in (24)", least=0)
    anchoring_weight: float = setting(0.3, "α_abs in (24)", least=0)
    reduce: Literal["mean", "sum"] = setting("mean", "over steps; the paper prints a sum, which swamps the task")
    calibrate: Literal["held-out", "last-epoch"] = setting(
        "held-out", "on held-out inputs with frozen weights, or on scores of the last epoch (§4.4)")
    stop_gradient: bool = setting(False, "keep the score's gradient out of the backbone, as §4.3 says and §5.3 denies")

    def __post_init__(self) -> None:
        check_fields(self)
        if self.refit and self.objective != "rank":
            raise ValueError(f"refit teaches ranks and is for objective 'rank', got '{self.objective}'; set refit to "
                             "0.")
        if self.calibrate == "last-epoch" and (self.refit or self.objective != "rank"):
            reason = "refit, which teaches the score after that" if self.refit else f"objective '{self.objective}'"
            raise ValueError(f"calibrate must be held-out with {reason}; got last-epoch.")


def batch_time_ranks(losses: Tensor) -> Tensor:
    """Rank of each loss in the batch–time set, 1 for the smallest, (b, t) → (b, t).

        L = {ℓ_{i,t} | i = 1…B, t = 1…T},   r_{i,t} ∈ {1, …, BT}        (18)

    Equal losses are ranked in the order of the batch, so that ranks are a permutation.
    """
    order = torch.argsort(losses.flatten(), stable=True)
    ranks = torch.empty_like(order)
    ranks[order] = torch.arange(1, order.numel() + 1, device=order.device)
    return ranks.view_as(losses)


def difficulty(losses: Tensor, rank_by: RankBy, quality: Tensor | None = None) -> Tensor:
    """What is ranked by (18), small for pairs that should stop, (b, t) → (b, t) or (b, t − 1).

    `loss` is the paper's ℓ_{i,t}. `gain` is what is left to win by going on, ℓ_{i,t} − ℓ_{i,T}: settled images stop,
    right or hopeless. `wins` is what an accuracy counts, whether the answer is right at T less whether it is at t; it
    needs the `quality`, (b, t). The last step leaves nothing to win for anybody and is not ranked.
    """
    if rank_by == "loss":
        return losses
    if losses.shape[1] < 2:
        raise ValueError(f"halting.rank_by='{rank_by}' compares a step with the last one and needs a depth of at "
                         "least 2.")
    if rank_by == "gain":
        return losses[:, :-1] - losses[:, -1:]
    assert quality is not None, "wins are counted in right answers"
    right = quality.to(losses.dtype)
    return right[:, -1:] - right[:, :-1]


def easy_and_hard(losses: Tensor, config: HaltingConfig, quality: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The easy set E and the hard set H, by the ranks of (18), as masks over pairs: (b, t) → two bool (b, t).

    Paper choice: E and H hold (image, step) pairs, the lowest and the highest ranks of the batch–time set, where the
    text of §5.2 has whole images. Wins are differences of quality, 1, 0 or −1 of right and wrong: there the hard pairs
    are all that going on would set right, the easy ones all others.
    """
    ranked = difficulty(losses.detach(), config.rank_by, quality)
    if config.rank_by == "wins":
        return _over_steps(ranked <= 0, losses, ranked.shape[1]), _over_steps(ranked > 0, losses, ranked.shape[1])
    ranks = batch_time_ranks(ranked)
    total = ranks.numel()
    members = max(1, int(config.fraction * total))
    easy, hard = ranks <= members, ranks > total - members
    if total < 2:
        easy, hard = torch.zeros_like(easy), torch.zeros_like(hard)
    return _over_steps(easy, losses, ranked.shape[1]), _over_steps(hard, losses, ranked.shape[1])


def _over_steps(members: Tensor, losses: Tensor, ranked_steps: int) -> Tensor:
    """Leave steps that are not ranked out of the set."""
    mask = torch.zeros(losses.shape, dtype=torch.bool, device=losses.device)
    mask[:, :ranked_steps] = members
    return mask
