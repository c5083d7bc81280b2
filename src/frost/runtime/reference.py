"""Run everything, then pick: the slow and obvious way to stop each image where a rule says so.

It saves nothing and is what the executors of `engine` are compared with.
"""

from __future__ import annotations

import torch
from torch import Tensor

from frost.core.trajectory import IterativeModel, Prediction, choose
from frost.halting.policy import Policy, depth_under


def predict_slowly(model: IterativeModel, policy: Policy, images: Tensor) -> Prediction:
    """All T steps of every image, one image at a time, read at the step where the rule stops it."""
    with torch.no_grad():
        answers = [_one(model, policy, image[None]) for image in images]
    outputs, depths, scores, _ = zip(*answers, strict=True)
    return Prediction(torch.cat(outputs), torch.cat(depths), torch.cat(scores))


def _one(model: IterativeModel, policy: Policy, image: Tensor) -> Prediction:
    trajectory = model(image)
    return choose(trajectory, depth_under(policy, trajectory.outputs, trajectory.score_logits, trajectory.states))
