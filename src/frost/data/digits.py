"""scikit-learn's handwritten digits: 1,797 images of 8×8 pixels that come inside that package, no download."""

from __future__ import annotations

import numpy as np

from frost.data.splits import DataSet, Split, stratified, take

TEST_SHARE, VALIDATION_SHARE = 0.3, 0.1


def load_digits() -> DataSet[Split]:
    """Three tenths to report on, a tenth to calibrate on, the rest to train on; stratified, always the same."""
    from sklearn.datasets import load_digits as bundled  # here, because importing it takes a second

    bunch = bundled()
    images = (bunch.images / 16.0).astype(np.float32)[:, None]   # grey levels 0…16 → (n, 1, 8, 8)
    labels = bunch.target.astype(np.int64)
    test, validation, train = (take(images, labels, part)
                               for part in stratified(labels, (TEST_SHARE, VALIDATION_SHARE)))
    return DataSet("digits", train, validation, test, tuple("0123456789"))
