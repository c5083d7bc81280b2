"""Two older ways to teach a network when to stop, as baselines: ACT and PonderNet.

Both read σ(z_t) as a chance to halt at step t and weigh the losses of all steps by the chance to stop there. Ours,
against Graves: the losses are weighed, not the outputs, so that the output of the step where an image stops is an
answer by itself, which is what an engine reads.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

ENOUGH = 0.99    # ACT stops when the chances add up to this
PRIOR = 0.25     # PonderNet: chance to halt at each step before anything is seen, which means four steps


class Pondering(NamedTuple):
    """What is minimised in place of the task and ranking losses."""

    task: Tensor       # losses of all steps, weighed by the chance to stop there
    price: Tensor      # of the steps taken (ACT), or of leaving the prior (PonderNet)


def act_weights(score_logits: Tensor) -> tuple[Tensor, Tensor]:
    """The weight of each step (b, t), and the price N + R of each image (b,) (Graves 2016, §2.1).

    N is the first step at which the chances add up to nearly 1, or T; R is what was left before it.
    """
    chances = torch.sigmoid(score_logits)
    total = chances.cumsum(dim=1)
    is_before = total < ENOUGH
    is_before[:, -1] = False                                  # step T takes what is left
    taken = is_before.sum(dim=1)                              # N − 1
    steps = torch.arange(score_logits.shape[1], device=score_logits.device)
    left = 1 - (chances * is_before).sum(dim=1)               # R
    weights = chances * is_before + left[:, None] * (steps == taken[:, None])
    return weights, taken + 1 + left


def ponder_weights(score_logits: Tensor) -> Tensor:
    """The chance to halt exactly at each step, (b, t): λ_t Π_{s<t} (1 − λ_s), and at T whatever is left."""
    goes_on = -F.softplus(score_logits)                       # log(1 − λ_t)
    passed = F.pad(goes_on.cumsum(dim=1)[:, :-1], (1, 0))     # log Π_{s<t} (1 − λ_s)
    chances = (F.logsigmoid(score_logits) + passed).exp()
    return torch.cat([chances[:, :-1], passed[:, -1:].exp()], dim=1)


def prior_weights(steps: int, chance: float, like: Tensor) -> Tensor:
    """A geometric distribution cut off at T, (t,)."""
    passed = (1 - chance) ** torch.arange(steps, device=like.device, dtype=like.dtype)
    weights = chance * passed
    weights[-1] = passed[-1]
    return weights


def pondering_loss(kind: Literal["act", "ponder"], losses: Tensor, score_logits: Tensor) -> Pondering:
    """The weighed task loss and the price, from the losses and the score of every step, (b, t) each."""
    if kind == "act":
        weights, price = act_weights(score_logits)
        return Pondering((weights * losses).sum(dim=1).mean(), price.mean())
    weights = ponder_weights(score_logits)
    against = prior_weights(losses.shape[1], PRIOR, losses)
    divergence = (weights * (weights.clamp_min(1e-12).log() - against.log())).sum(dim=1)
    return Pondering((weights * losses).sum(dim=1).mean(), divergence.mean())
