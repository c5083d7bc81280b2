"""What the benchmarks of the shipped run share: their options, and the run with its data."""

from __future__ import annotations

import argparse
from pathlib import Path

from frost.checkpoint import Run, load
from frost.data.splits import DataSet, Images
from frost.evaluation.datasets import data_of


def opened(sentence: str) -> tuple[argparse.Namespace, Run, DataSet[Images]]:
    """The options --data, --run and --seed, and what they name."""
    parser = argparse.ArgumentParser(description=sentence)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--run", default="cifar100-cpu")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    run = load(options.run)
    return options, run, data_of(run, options.data, download=False)
