"""The training objective (§5): task, relative ranking and anchoring losses (Eqs. 21–24).

Works on logits of the halting score. Which pairs are easy or hard is decided in `halting.ranking`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from frost.core.task import CLASSES, Task
from frost.core.trajectory import Trajectory
from frost.data.augment import Mixed
from frost.halting.ranking import HaltingConfig, batch_time_ranks, easy_and_hard
from frost.halting.score import score_of
from frost.training.pondering import pondering_loss


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


def task_loss(losses: Tensor) -> Tensor:
    """The mean loss of the last step, (b, t) → scalar.

    L_task = (1/B) Σ_i ℓ_{i,T}        (21)
    """
    return losses[:, -1].mean()


def deep_loss(losses: Tensor, growth: float = 0.0, is_ranked: bool = False, quality: Tensor | None = None) -> Tensor:
    """The loss of all steps, (b, t) → scalar: a mean in which step t weighs t^growth.

        Σ_{i,t} w_{i,t} ℓ_{i,t} / Σ_{i,t} w_{i,t},   w_{i,t} = (t/T)^g · m_{i,t}
        m_{i,t} = 1, or with `is_ranked`  min(1, max(0, t + 1 − u_i T)),   u_i = min(1, (r_i − ½) / R)

    r_i is the rank of ℓ_{i,T} in the batch; R is B or, where the `quality` (b, t) is given, the right answers at T.
    The paper has no such loss. With growth 0 every step counts alike and the dynamics settle as soon as they can; the
    larger it is, the more is left for late steps. Ranked, an image counts from step u_i T on: early steps answer for
    easy images alone, and hard ones may take their time. That is what makes images differ in the depth they need, which
    is all that adaptive depth can win by. With R = B, images that are only just won lie in the middle and are asked for
    halfway; with R the number of right ones they come last, and the hardest B − R are asked for at T alone.
    """
    depth = losses.shape[1]
    steps = torch.arange(1, depth + 1, device=losses.device, dtype=losses.dtype)
    weights = ((steps / depth) ** growth).expand_as(losses)
    if is_ranked:
        among = len(losses) if quality is None else quality[:, -1].sum().clamp_min(1)
        ranks = batch_time_ranks(losses[:, -1:].detach()).to(losses.dtype)                          # r, (b, 1)
        share = ((ranks - 0.5) / among).clamp_max(1)                                                # u
        weights = weights * (steps + 1 - share * depth).clamp(0, 1)
    return (losses * weights).sum() / weights.sum()


def relative_loss(score_logits: Tensor, easy: Tensor, hard: Tensor, margin: float,
                  across: Literal["step", "all"] = "step", reduce: Literal["mean", "sum"] = "mean") -> Tensor:
    """A margin between the scores of easy and hard pairs, (b, t) → scalar.

        L_rel = Σ_t 1/(|E||H|) Σ_{(i,j) ∈ E×H} max(0, s_{j,t} − s_{i,t} + δ)        (22)

    `across="step"` compares pairs of the same step, with E and H those of that step; a step without both adds nothing.
    `across="all"` compares every easy pair with every hard one, whatever their steps. Paper choice: a mean over the
    steps; the printed sum lets the ranking swamp the task (`reduce="sum"` is T times the mean).
    """
    scores = score_of(score_logits)
    if across == "all":
        scores, easy, hard = scores.reshape(-1, 1), easy.reshape(-1, 1), hard.reshape(-1, 1)
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


def objective(trajectory: Trajectory, targets: Tensor, halting: HaltingConfig, *, task: Task = CLASSES,
              label_smoothing: float = 0.0, deep_supervision: float = 0.0, growth: float = 0.0, is_ranked: bool = False,
              among: Literal["all", "right"] = "all", mixed: Mixed | None = None) -> Objective:
    """Everything that is minimised.

        L = L_task + α_rel L_rel + α_abs L_abs        (24)

    With `halting.objective` act or ponder, the losses of `training.pondering` take the place of all three.
    `deep_supervision` adds that weight times `deep_loss`; the paper has none. E and H use the plain loss, without
    smoothing. Losses and quality are the task's. A batch of `mixed` images is not ranked, since it would be the mixing
    that is ranked: E and H are empty and only the task and the loss of all steps are minimised, each image against both
    of its labels.
    """
    if halting.stop_gradient and not trajectory.is_isolated:
        raise ValueError("halting.stop_gradient needs a trajectory whose score is isolated: "
                         "model(images, isolate_score=True).")
    losses = task.losses(trajectory.outputs, targets, label_smoothing)
    needs_quality = halting.rank_by == "wins" or (is_ranked and among == "right")
    quality = task.qualities(trajectory.outputs.detach(), targets) if needs_quality and mixed is None else None
    if mixed is None:
        plain = losses if label_smoothing == 0.0 else task.losses(trajectory.outputs, targets)
        easy, hard = easy_and_hard(plain, halting, quality)
    else:
        theirs = task.losses(trajectory.outputs, mixed.partners, label_smoothing)
        losses = mixed.share * losses + (1 - mixed.share) * theirs
        easy = hard = torch.zeros_like(losses, dtype=torch.bool)
        is_ranked = False
    nothing = losses.new_zeros(())
    deep = deep_loss(losses, growth, is_ranked, quality if among == "right" else None) if deep_supervision else nothing
    if halting.objective != "rank":
        weighed, price = pondering_loss(halting.objective, losses, trajectory.score_logits, halting.ponder_prior)
        total = weighed + halting.ponder_weight * price + deep_supervision * deep
        return Objective(total, weighed, nothing, nothing, easy, hard, price)
    across: Literal["step", "all"] = "all" if halting.pairs == "all" else "step"
    last = task_loss(losses)
    relative = relative_loss(trajectory.score_logits, easy, hard, halting.margin, across, halting.reduce)
    anchoring = anchoring_loss(trajectory.score_logits, easy, hard, halting.reduce)
    total = last + halting.relative_weight * relative + halting.anchoring_weight * anchoring
    total = total + deep_supervision * deep
    return Objective(total, last, relative, anchoring, easy, hard, nothing)


def is_finite(loss: Objective) -> bool:
    """Whether training may go on."""
    return bool(torch.isfinite(loss.total))
