"""What a rule could gain: a small classifier that has seen labels of the very kind of images it stops.

For each image and step t < T it predicts how many right answers going on would still win, from the score, the margin,
the entropy, the movement of the state and t. It is fitted on four fifths of the images and asked about the last fifth,
five times, so that no image is judged by a model that has seen it. It is a ceiling to look at, not a rule to ship: its
labels come from the split that is measured.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from frost.evaluation.traces import Traces

FEATURES = ("rank", "margin", "entropy", "residual")
FOLDS = 5


def ceiling_signal(measured: Traces, seed: int = 0) -> Tensor:
    """Larger where less is left to win by going on, (n, t); step T is never asked."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    count, depth = measured.quality.shape
    quality = measured.quality.numpy()
    left = quality[:, -1:] - quality                                             # (n, t): what going on to T wins
    steps = np.broadcast_to(np.arange(1, depth + 1), (count, depth))
    known = [measured.signals[name].numpy() for name in FEATURES if name in measured.signals]
    features = np.nan_to_num(np.stack([*known, steps], axis=-1), neginf=-1e6)      # (n, t, f)
    fold = np.random.default_rng(seed).permutation(count) % FOLDS
    predicted = np.zeros((count, depth))
    for number in range(FOLDS):
        seen, asked = fold != number, fold == number
        model = HistGradientBoostingRegressor(max_iter=150, learning_rate=0.05, max_leaf_nodes=15, min_samples_leaf=200,
                                              random_state=seed)
        model.fit(features[seen, :-1].reshape(-1, features.shape[-1]), left[seen, :-1].ravel())
        answers = model.predict(features[asked, :-1].reshape(-1, features.shape[-1]))
        predicted[asked, :-1] = answers.reshape(-1, depth - 1)
    return torch.from_numpy(-predicted)
