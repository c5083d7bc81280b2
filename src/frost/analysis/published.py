"""Numbers printed in the paper, to stand beside ours. Accuracies and quantiles lie in [0, 1], FLOPs are single."""

from __future__ import annotations

from typing import NamedTuple


class PublishedRow(NamedTuple):
    """One line of Table 2: CIFAR-100, T = 16."""

    quantile: float
    mean_depth: float
    accuracy: float


TABLE_2_DEPTH = 16
TABLE_2 = tuple(PublishedRow(*row) for row in (
    (0.125, 4.37, 0.4539), (0.25, 6.06, 0.5240), (0.375, 7.26, 0.5578), (0.5, 8.30, 0.5772),
    (0.625, 9.43, 0.5947), (0.75, 10.77, 0.6070), (0.875, 12.49, 0.6177), (1.0, 16.00, 0.6199)))


class PublishedComplexity(NamedTuple):
    """One line of Table 3, at the mean depth under quantile 0.5."""

    mean_depth: float
    parameters: float
    flops: float


TABLE_3 = {
    "vanilla-resnet50": PublishedComplexity(16.0, 1.24e6, 8.37e9),
    "recurrent-resnet50": PublishedComplexity(16.0, 0.11e6, 8.37e9),
    "basic-ssm-resnet50": PublishedComplexity(16.0, 1.49e6, 82.77e9),
    "frost-resnet50": PublishedComplexity(7.56, 1.49e6, 39.11e9),
    "vanilla-vit-b16": PublishedComplexity(12.0, 85.80e6, 35.13e9),
    "recurrent-vit-b16": PublishedComplexity(12.0, 7.83e6, 35.13e9),
    "basic-ssm-vit-b16": PublishedComplexity(12.0, 20.81e6, 65.45e9),
    "frost-vit-b16": PublishedComplexity(4.53, 20.81e6, 24.71e9),
}
