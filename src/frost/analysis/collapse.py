"""Whether a training with the ranking loss collapsed (App. D).

Paper choice: the paper says "failed to converge" and gives no measure. A training has collapsed if it is not finite, if
its accuracy is below half of the same model's without the ranking loss, or if its scores no longer differ.
"""

from __future__ import annotations

from typing import NamedTuple

LEAST_SHARE = 0.5         # of the accuracy without the ranking loss
LEAST_DEVIATION = 0.01    # of the scores over images and steps


class Outcome(NamedTuple):
    """How one training ended."""

    is_finite: bool
    accuracy: float           # at full depth
    score_deviation: float    # over all pairs of image and step


def why_collapsed(outcome: Outcome, accuracy_without: float) -> str | None:
    """The first reason that applies, in words; None if it did not collapse."""
    if not outcome.is_finite:
        return "not finite"
    if outcome.accuracy < LEAST_SHARE * accuracy_without:
        return "accuracy below half"
    if outcome.score_deviation < LEAST_DEVIATION:
        return "scores alike"
    return None
