"""Batch–time ranking and the easy and hard sets (§4.2, §5.2, Eq. 18).

Ranks and sets only: the losses that use them are in `training.objective`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

RankBy = Literal["loss", "gain", "wins"]    # ℓ_{i,t};  ℓ_{i,t} − ℓ_{i,T};  right at T less right at t


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltingConfig:
    """How the halting score is supervised."""

    RETIRED: ClassVar[dict[str, object]] = {"refit_by": "wins", "refit_pairs": "step", "refit_epochs": 6}

    objective: Literal["rank", "act", "ponder"] = "rank"   # what teaches the score: ranks (the paper), ACT, PonderNet
    ponder_weight: float = 0.01                        # ACT: price of a step; PonderNet: weight of the prior
    ponder_prior: float = 0.25                         # PonderNet: chance to halt at each step before anything is seen
    rank_by: RankBy = "loss"                           # the paper's; what is left to win; right answers to be won
    refit: int = 0                                     # training inputs on which the score alone is taught in the end
    ranks: Literal["gathered", "local"] = "gathered"   # over the images of all processes, or of each by itself
    pairs: Literal["step", "all", "samples"] = "step"  # easy against hard of the same step; of all steps; whole images
    easy_fraction: float = 0.25                        # share of the ranked pairs that is called easy
    hard_fraction: float = 0.25
    margin: float = 0.2                                # δ in (22)
    relative_weight: float = 0.7                       # α_rel in (24)
    anchoring_weight: float = 0.3                      # α_abs in (24)
    reduce: Literal["mean", "sum"] = "mean"            # over steps; the paper prints a sum, which swamps the task
    calibrate: Literal["held-out", "last-epoch"] = "held-out"   # frozen weights; or streamed while training, as §4.4
    stop_gradient: bool = False                        # true isolates the backbone, as §4.3 says and §5.3 denies

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            if get_origin(hint) is Literal and getattr(self, name) not in get_args(hint):
                raise ValueError(f"{name} is one of {', '.join(get_args(hint))}; got '{getattr(self, name)}'.")
        for name in ("easy_fraction", "hard_fraction"):
            if not 0.0 < getattr(self, name) <= 0.5:
                raise ValueError(f"{name} must lie in (0, 0.5], got {getattr(self, name)}; the sets may not overlap.")
        if not 0.0 < self.ponder_prior < 1.0:
            raise ValueError(f"ponder_prior must lie in (0, 1), got {self.ponder_prior}; 0.25 means four steps.")
        if self.pairs == "samples" and self.rank_by == "wins":
            raise ValueError("pairs 'samples' ranks whole images, and wins belong to pairs of image and step; set "
                             "pairs to 'step' or 'all'.")
        if self.refit and self.objective != "rank":
            raise ValueError(f"refit teaches ranks and is for objective 'rank', got '{self.objective}'; set refit to "
                             "0.")
        for name in ("refit", "margin", "relative_weight", "anchoring_weight", "ponder_weight"):
            if getattr(self, name) < 0.0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}.")


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

    Paper choice: E and H hold (image, step) pairs, the lowest and the highest ranks of the batch–time set. With
    `pairs="samples"`, the literal text of §5.2, images are ranked by their mean rank and belong to their set at every
    step. Wins are differences of quality, 1, 0 or −1 of right and wrong: there the hard pairs are all
    that going on would set right, the easy ones all others.
    """
    ranked = difficulty(losses.detach(), config.rank_by, quality)
    if config.rank_by == "wins":
        return _over_steps(ranked <= 0, losses, ranked.shape[1]), _over_steps(ranked > 0, losses, ranked.shape[1])
    ranks = batch_time_ranks(ranked)
    if config.pairs == "samples":
        ranks = batch_time_ranks(ranks.double().mean(dim=1, keepdim=True))
    total = ranks.numel()
    easy = ranks <= max(1, int(config.easy_fraction * total))
    hard = ranks > total - max(1, int(config.hard_fraction * total))
    if total < 2:
        easy, hard = torch.zeros_like(easy), torch.zeros_like(hard)
    return _over_steps(easy, losses, ranked.shape[1]), _over_steps(hard, losses, ranked.shape[1])


def _over_steps(members: Tensor, losses: Tensor, ranked_steps: int) -> Tensor:
    """Spread whole images over the ranked steps, and leave unranked steps out of the set."""
    mask = torch.zeros(losses.shape, dtype=torch.bool, device=losses.device)
    mask[:, :ranked_steps] = members
    return mask
