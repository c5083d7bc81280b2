"""`frost calibrate RUN`: gather what stopping rules look at on held-out images, and keep it in the run."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from frost import directory, hub
from frost.checkpoint import CHECKPOINTS, load, pretrained, recalibrate
from frost.commands.common import Reply, add_data, add_device
from frost.evaluation.calibrating import FRACTIONS, candidates, check_policy, check_trained_for, gather, trained_by
from frost.evaluation.datasets import data_of
from frost.halting.calibration import Calibration, OutOfReach
from frost.halting.rule_choice import thresholds_of
from frost.halting.threshold_fit import stops_at
from frost.report.tables import percent, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost calibrate`."""
    add_device(parser)
    parser.add_argument("run", metavar="RUN", help="folder of a run")
    add_data(parser)
    parser.add_argument("--policy", metavar="RULE",
                        help="the signal to stop by (default: compare rank, confidence, margin and entropy)")


def run(options: argparse.Namespace) -> Reply:
    """Calibrate a run."""
    result = calibrate_run(options.run, options.data, options.policy, options.download)
    return Reply(as_json(result), text(result))


class Calibrated(NamedTuple):
    """A run with a new calibration."""

    run: str
    calibration: Calibration
    seconds: float


def calibrate_run(run_path: Path | str, data_folder: Path | None = None, policy: str | None = None,
                  download: bool = False) -> Calibrated:
    """Calibrate a run anew on the validation images of its data set; for one signal, or the best at each budget."""
    started = time.monotonic()
    if policy is not None:
        check_policy(policy)
    run = load(run_path, with_calibration=False, device="auto")
    if run.path.parent.name == CHECKPOINTS:
        raise ValueError(f"{run_path} is still being trained; a training that ends calibrates its run: go on with "
                         "--resume.")
    if run.path in pretrained().values() or hub.is_address(run_path):
        origin = "is on the hub" if hub.is_address(run_path) else "comes with the package"
        raise ValueError(f"{run_path} {origin} and stays as it is; copy {run.path} to a folder of your own to "
                         "calibrate it.")
    if policy is not None:
        check_trained_for(run, policy)
    directory.check_writable(run.path)
    with directory.alone_with(run.path, f"another process is calibrating {run.path}; wait for it, then try again."):
        held_out = data_of(run, data_folder, download).validation
        calibration = gather(run.model, held_out, [policy] if policy else candidates(run.model, trained_by(run)))
        recalibrate(run.path, calibration)
    return Calibrated(str(run.path), calibration, time.monotonic() - started)


def as_json(result: Calibrated) -> dict[str, Any]:
    """What the calibration answers at some depths."""
    ours = result.calibration
    return {"run": result.run, "policy": ours.rule, "images": ours.inputs, "depth": ours.depth,
            "dropped": ours.dropped, "choices": [choice._asdict() for choice in ours.choices], "rows": _rows(ours),
            "weights_hash": ours.weights_hash, "seconds": result.seconds}


def text(result: Calibrated) -> str:
    """The same for a person."""
    ours = result.calibration
    rows = [[f"{row['fraction']:.2f}", f"{row['mean_depth']:.2f}", row["form"], percent(row["accuracy"])]
            for row in _rows(ours)]
    won = [[f"{choice.mean_depth:.2f}", choice.form, f"{100 * choice.gain:+.2f}"] for choice in ours.choices]
    head = f"{result.run} · {ours.inputs:,} held-out images · depth {ours.depth} · signals {', '.join(ours.signals)}"
    return "\n".join([head, "", table(["of T", "mean depth", "rule", "accuracy"], rows), "",
                      *([table(["budget", "rule that won", "gain"], won), "",
                         "gain: points above fixed depth, each half of the images judged by thresholds of the other."]
                        if won else ["Too few images to compare rules; this is the only one."]),
                      f"Measured in {result.seconds:.1f} s."])


def _rows(ours: Calibration) -> list[dict[str, Any]]:
    """What the calibration answers at shares of full depth, on the very inputs that it was made from."""
    rows = []
    for fraction in (*FRACTIONS, 1.0):
        budget = max(1.0, fraction * ours.depth)
        assert ours.quality is not None
        try:
            form, rule = ours.choice_at(budget)
            depths = ours.depths_of(rule)
        except OutOfReach:    # a signal in whole steps: the nearest that there is
            form = ours.rule
            depths = stops_at(ours.values, thresholds_of(form, ours.signals, ours.quality, budget)[1].thresholds)
        right = float(ours.quality[np.arange(len(depths)), depths - 1].mean())
        rows.append({"fraction": fraction, "mean_depth": float(depths.mean()), "form": form,
                     "accuracy": right})
    return rows
