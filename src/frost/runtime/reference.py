"""Run everything, then pick: the slow and obvious way to stop each input where a rule says so.

It saves nothing and is what the executors of `engine` are compared with.
"""

from __future__ import annotations

import torch

from frost.core.inputs import Inputs, batch_of, taken
from frost.core.trajectory import IterativeModel, Prediction, choose
from frost.halting.stopping import StoppingRule, depth_under


def predict_slowly(model: IterativeModel, rule: StoppingRule, inputs: Inputs) -> Prediction:
    """All T steps of every input, one at a time, read at the step where the rule stops it."""
    with torch.no_grad():
        answers = [_one(model, rule, taken(inputs, slice(row, row + 1))) for row in range(batch_of(inputs))]
    outputs, depths, scores, _ = zip(*answers, strict=True)
    return Prediction(torch.cat(outputs), torch.cat(depths), torch.cat(scores))


def _one(model: IterativeModel, rule: StoppingRule, inputs: Inputs) -> Prediction:
    trajectory = model(inputs)
    return choose(trajectory, depth_under(rule, trajectory.outputs, trajectory.score_logits, trajectory.states,
                                          trajectory.mask))
