"""What is read from a state: C, D and the halting score.

The head is the same for FROST and for every baseline, so that they differ in their dynamics only.
"""

from __future__ import annotations

from torch import Tensor, nn

from frost.halting.score import Sees, make_score


class Head(nn.Module):
    """C, D and s on pooled features.

    Paper choice: D has no bias, so that D_λ = D holds exactly (17); it maps pooled x to the classes.
    """

    def __init__(self, channels: int, classes: int, score_sees: Sees = "state") -> None:
        super().__init__()
        if classes < 2:
            raise ValueError(f"classes must be at least 2, got {classes}.")
        self.readout = nn.Linear(channels, classes)
        self.feedthrough = nn.Linear(channels, classes, bias=False)
        self.score = make_score(channels, score_sees)

    def score_logit(self, features: Tensor, output: Tensor, isolate: bool = False) -> Tensor:
        """The logit of the score (19), (b, c), (b, k) → (b,); isolated, its gradients do not reach the state."""
        return self.score(features.detach() if isolate else features, output)
