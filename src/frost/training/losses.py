"""The training objective (§5): task, relative ranking and anchoring losses (Eqs. 21–24); ACT and PonderNet beside them.

Works on logits of the halting score. Which pairs are easy or hard is decided in `halting.ranking`.

ACT and PonderNet are two older ways to teach a network when to stop, as baselines. Both read σ(z_t) as a chance to halt
at step t and weigh the losses of all steps by the chance to stop there. Ours, against Graves: the losses are weighed,
not the outputs, so that the output of the step where an image stops is an answer by itself, which is what an engine
reads.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from frost.core.task import CLASSES, Task
from frost.core.trajectory import Trajectory
from frost.data.augment import Mixed
from frost.halting.ranking import HaltingConfig, easy_and_hard
from frost.halting.score import score_of
from frost.training.settings import Supervision

ENOUGH = 0.99    # ACT stops when the chances add up to this


PRIOR = 0.25     # PonderNet: chance to halt at each step before anything is seen, which means four steps

class Objective(NamedTuple):
    """The loss and its parts, and what they were computed from."""

    total: Tensor
    task: Tensor
    relative: Tensor
    anchoring: Tensor
    easy: Tensor      # E, bool (b, t)
    hard: Tensor      # H, bool (b, t)
    pondering: Tensor   # price of ACT or PonderNet; 0 where ranks teach the score


def step_losses(outputs: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """ℓ_{i,t} of (18) and (21) for a classifier, the cross-entropy at every step: (b, t, k), (b,) → (b, t)."""
    return CLASSES.losses(outputs, labels, label_smoothing)


def step_weights(depth: int, supervision: Supervision) -> Tensor:
    """How much the loss of each step counts, (t,), in sum 1.

        last   w_t = 1 at t = T, else 0: the paper (21)
        all    w_t = t / Σ_s s: every step answers for itself, later ones more
    """
    if supervision == "last":
        return torch.cat([torch.zeros(depth - 1), torch.ones(1)])
    steps = torch.arange(1, depth + 1, dtype=torch.float64)
    return steps / steps.sum()


def task_loss(losses: Tensor, supervision: Supervision = "last") -> Tensor:
    """The loss of the task, (b, t) → scalar: that of the last step, or a mean over the steps.

        L_task = (1/B) Σ_i ℓ_{i,T}        (21)
        L_task = (1/B) Σ_i Σ_t w_t ℓ_{i,t}     with every step supervised; the paper has none of that
    """
    if supervision == "last":
        return losses[:, -1].mean()
    return losses.mean(dim=0) @ step_weights(losses.shape[1], supervision).to(losses)


def relative_loss(score_logits: Tensor, easy: Tensor, hard: Tensor, margin: float,
                  reduce: Literal["mean", "sum"] = "mean") -> Tensor:
    """A margin between the scores of easy and hard pairs, (b, t) → scalar.

        L_rel = Σ_t 1/(|E||H|) Σ_{(i,j) ∈ E×H} max(0, s_{j,t} − s_{i,t} + δ)        (22)

    Pairs of the same step are compared, with E and H those of that step; a step without both adds nothing. Paper
    choice: a mean over the steps; the printed sum lets the ranking swamp the task (`reduce="sum"` is T times the mean).
    """
    scores = score_of(score_logits)
    gap = scores[None, :, :] - scores[:, None, :]             # (i, j, t): s_j − s_i
    pairs = easy[:, None, :] & hard[None, :, :]               # (i, j, t)
    hinge = (gap + margin).clamp_min(0) * pairs
    per_step = hinge.sum(dim=(0, 1)) / pairs.sum(dim=(0, 1)).clamp_min(1)
    return per_step.mean() * (score_logits.shape[1] if reduce == "sum" else 1)


def anchoring_loss(score_logits: Tensor, easy: Tensor, hard: Tensor,
                   reduce: Literal["mean", "sum"] = "mean") -> Tensor:
    """Pull the scores of easy pairs to 1 and those of hard pairs to 0, (b, t) → scalar.

        L_abs = −Σ_t [ 1/|E| Σ_{i∈E} log s_{i,t} + 1/|H| Σ_{j∈H} log(1 − s_{j,t}) ]        (23)

    Paper choice: printed without the minus sign, as a likelihood to maximise; we minimise its negative, over E and H of
    each step, as a mean over steps. −log σ(z) = softplus(−z) stays finite for any logit.
    """
    for_easy = (F.softplus(-score_logits) * easy).sum(dim=0) / easy.sum(dim=0).clamp_min(1)
    for_hard = (F.softplus(score_logits) * hard).sum(dim=0) / hard.sum(dim=0).clamp_min(1)
    per_step = for_easy + for_hard
    return per_step.sum() if reduce == "sum" else per_step.mean()


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


def objective(trajectory: Trajectory, targets: Tensor, halting: HaltingConfig, *, task: Task = CLASSES,
              label_smoothing: float = 0.0, supervision: Supervision = "last",
              mixed: Mixed | None = None) -> Objective:
    """Everything that is minimised.

        L = L_task + α_rel L_rel + α_abs L_abs        (24)

    With `halting.objective` act or ponder, `pondering_loss` takes the place of all three. E and H use
    the plain loss, without smoothing. Losses and quality are the task's. A batch of `mixed` images is not ranked, since
    it would be the mixing that is ranked: E and H are empty and only the task's loss is minimised, each image against
    both of its labels.
    """
    if halting.stop_gradient and not trajectory.is_isolated:
        raise ValueError("halting.stop_gradient needs a trajectory whose score is isolated: "
                         "model(images, isolate_score=True).")
    losses = task.losses(trajectory.outputs, targets, label_smoothing)
    if mixed is None:
        plain = losses if label_smoothing == 0.0 else task.losses(trajectory.outputs, targets)
        quality = task.qualities(trajectory.outputs.detach(), targets) if halting.rank_by == "wins" else None
        easy, hard = easy_and_hard(plain, halting, quality)
    else:
        theirs = task.losses(trajectory.outputs, mixed.partners, label_smoothing)
        losses = mixed.share * losses + (1 - mixed.share) * theirs
        easy = hard = torch.zeros_like(losses, dtype=torch.bool)
    nothing = losses.new_zeros(())
    if halting.objective != "rank":
        weighed, price = pondering_loss(halting.objective, losses, trajectory.score_logits)
        return Objective(weighed + halting.ponder_weight * price, weighed, nothing, nothing, easy, hard, price)
    found = task_loss(losses, supervision)
    relative = relative_loss(trajectory.score_logits, easy, hard, halting.margin, halting.reduce)
    anchoring = anchoring_loss(trajectory.score_logits, easy, hard, halting.reduce)
    total = found + halting.relative_weight * relative + halting.anchoring_weight * anchoring
    return Objective(total, found, relative, anchoring, easy, hard, nothing)


def is_finite(loss: Objective) -> bool:
    """Whether training may go on."""
    return bool(torch.isfinite(loss.total))
