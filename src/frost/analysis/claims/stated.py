"""What the paper says in each section, in a sentence of ours, and its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frost.analysis.published import (
    DIMENSION,
    LOSSES,
    SCALE,
    TABLE_1,
    TABLE_1_DEPTH,
    TABLE_1_STEPS,
    TABLE_2,
    TABLE_2_DEPTH,
    TABLE_3,
)

LOST_AT_HALF = TABLE_2[-1].accuracy - TABLE_2[3].accuracy    # at 52 % of full depth
SHARE_LOST = LOST_AT_HALF / TABLE_2[-1].accuracy             # of the accuracy at full depth


def speedup(backbone: str) -> float:
    """Images per second of FROST ÷ Vanilla's, as printed."""
    return TABLE_3[f"frost-{backbone}"].images_per_second / TABLE_3[f"vanilla-{backbone}"].images_per_second


CLAIMS = {
    "consistency": "Intermediate states of FROST are coarser views of the last one: their similarity to it rises "
                   "smoothly, is higher than in Vanilla and BasicSSM, and varies less between images (Table 1).",
    "dimension": "FROST's latent path has a higher Minkowski dimension, 1.295 against 1.262, than Vanilla's and "
                 "BasicSSM's (§6.1).",
    "lambda": "λ falls, then recovers to 0.59 and stays below 1; it is inversely related to H, passes 1 at H = 0.2, "
              "and a learned H runs beyond 1 (§6.2, Figure 1).",
    "halting": "The quantile of the halting score, which ranks images by their quality, trades depth for accuracy: "
               "half of the depth costs 4.27 of 61.99 points (Table 2).",
    "losses": "Anchoring alone collapses (29.79 %), ranking alone keeps full-depth accuracy (61.68 against 61.96 %) "
              "and loses 11.20 points at quantile 0.25, where its scores differ less (§6.4, Figure 2).",
    "complexity": "At a mean depth of about half, FROST needs less than half of BasicSSM's FLOPs; with ViT-B/16 it "
                  "needs fewer than Vanilla too, and is 1.97 times as fast (Table 3).",
    "collapse": "With the ranking loss Vanilla, Recurrent and BasicSSM collapse and FROST does not, because only "
                "FROST's gradients agree (App. D).",
    "theory": "A FROST step is a contraction: states converge to a fixed point, the error decays as L^t, gradients "
              "are bounded (App. B).",
    "supervision": "Supervising the last step alone is sufficient; intermediate states become useful by themselves "
                   "(§5.1).",
    "rules": "Halting by relative quality needs no auxiliary signal; it is the natural rule (abstract, §4).",
    "extrapolation": "A stationary, contractive step may be iterated without limit: more steps sharpen the same "
                     "representation (§1, App. A).",
    "shift": "Thresholds from a quantile sketch of the scores are robust to shifted data, and harder images get more "
             "steps (§4.4, §6.3).",
}
NUMBERS: dict[str, Mapping[str, Any]] = {
    "consistency": {"steps": list(TABLE_1_STEPS), "depth": TABLE_1_DEPTH,
                    **{name: [{"mean": mean, "deviation": spread} for mean, spread in row]
                       for name, row in TABLE_1.items()}},
    "dimension": DIMENSION,
    "lambda": SCALE,
    "halting": {"depth": TABLE_2_DEPTH, "rows": [row._asdict() for row in TABLE_2], "lost_at_half": LOST_AT_HALF},
    "losses": LOSSES,
    "complexity": {"rows": {name: row._asdict() for name, row in TABLE_3.items()},
                   "speedup": {name: speedup(name) for name in ("resnet50", "vit-b16")}},
    "collapse": {"baselines": "collapse across seeds", "frost": "does not",
                 "conflict": "C ≪ 0 in baselines, C > 0 in FROST"},
    "theory": {"lipschitz": "L ≤ λ < 1", "error": "L^t / (1 − L) · ‖h_1 − h_0‖", "gradient": "L^T"},
    "supervision": {"statement": "sufficient"},
    "rules": {"statement": "no other rule is compared"},
    "extrapolation": {"statement": "theoretically unbounded depth"},
    "shift": {"statement": "not measured under shift"},
}
