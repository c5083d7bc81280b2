"""The line that every stopping rule has to beat: stopping all inputs at the same depth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def fixed_depth_line(per_step: NDArray[Any], mean_depth: float | NDArray[Any]) -> NDArray[np.float64]:
    """What each row of qualities per step has at its mean depth, (r, t) and a number or (r,) → (r,).

        line = (1 − w) q_b + w q_{b+1},    b = ⌊mean depth⌋,  w = mean depth − b

    Between two steps a share w of the inputs takes one step more, whoever they are.
    """
    depth = per_step.shape[1]
    means = np.broadcast_to(np.asarray(mean_depth, dtype=np.float64), per_step.shape[:1])
    below = np.clip(np.floor(means).astype(int), 1, depth)
    above = np.minimum(below + 1, depth)
    share, rows = means - below, np.arange(len(per_step))
    line: NDArray[np.float64] = (1 - share) * per_step[rows, below - 1] + share * per_step[rows, above - 1]
    return line
