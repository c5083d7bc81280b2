"""Stopping rules at equal depth, and stopping on images that have shifted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from frost.analysis.intervals import of_mean, of_share
from frost.core.trajectory import IterativeModel
from frost.data.corruptions import KINDS, corrupted
from frost.data.splits import DataSet, Images
from frost.evaluation.calibrating import FRACTIONS
from frost.evaluation.comparison import SIMPLE
from frost.evaluation.datasets import labelled
from frost.evaluation.stopping_rules import PER_STEP, Depths, judge, paired_difference
from frost.evaluation.stopping_rules import depths_of as depths_under
from frost.evaluation.traces import Traces, trace
from frost.halting.policy import label_oracle
from frost.report.progress import progress

RANKS = ("rank", f"rank{PER_STEP}")
RULES = (*RANKS, *SIMPLE, f"confidence{PER_STEP}", f"margin{PER_STEP}", "fixed")
SHARES = (0.25, *FRACTIONS)    # of full depth; a quarter beside the models that were trained at it
HALF = 0.5             # of full depth, where the shift is looked at
SEVERITIES = (1, 3, 5)


def rules(model: IterativeModel, data: DataSet[Images]) -> dict[str, Any]:
    """Every rule at four fractions of full depth: thresholds from validation, numbers from the test images."""
    names = list(dict.fromkeys(name.removesuffix(PER_STEP) for name in RULES))
    then, now = (_traced(model, part, names) for part in (data.validation, data.test))
    rows = [{"policy": name, "fraction": share,
             **with_intervals(name, depths_under(name, then, now, max(1.0, share * now.depth)), now)}
            for name in RULES for share in SHARES]
    versus = []
    for fraction in SHARES:
        wish = max(1.0, fraction * now.depth)
        ours, theirs = (_best(names, then, fraction) for names in (RANKS, [name for name in RULES if name not in RANKS
                                                                          and name != "fixed"]))
        gap = paired_difference(depths_under(ours, then, now, wish), depths_under(theirs, then, now, wish), now)
        versus.append({"fraction": fraction, "policy": ours, "simple": theirs,
                       "difference": {**gap._asdict(), "n": now.inputs}})
    seers = {"agreement": now.settles, "label": label_oracle(now.quality)}
    return {"rows": rows, "versus": versus, "images": now.inputs,
            "oracle": {name: with_intervals(name, depths.numpy(), now) for name, depths in seers.items()}}


def shift(model: IterativeModel, data: DataSet[Images]) -> dict[str, Any]:
    """Depth and accuracy at half depth on corrupted test images, with the old thresholds and with renewed ones.

    One threshold for all steps, as the paper takes it from its sketch, and beside it one for each.
    """
    held_out, plain = (_traced(model, part, ["rank"]) for part in (data.validation, data.test))
    wish = HALF * held_out.depth

    def stopped(calibrated_on: Traces, images: Traces) -> dict[str, Any]:
        return {policy: with_intervals(policy, depths_under(policy, calibrated_on, images, wish), images)
                for policy in RANKS}

    cases = [(kind, severity) for kind in KINDS for severity in SEVERITIES]
    rows, images = [], len(data.test) + len(data.validation)
    with progress("corrupted images", len(cases), per_unit=images) as report:
        for number, (kind, severity) in enumerate(cases, 1):
            test, renewed = (_traced(model, part, ["rank"], kind, severity) for part in (data.test, data.validation))
            rows.append({"kind": kind, "severity": severity, "old": stopped(held_out, test),
                         "renewed": stopped(renewed, test),
                         "full": of_share(int(test.quality[:, -1].sum()), test.inputs)._asdict()})
            report(number, f"{kind} {severity}")
    return {"clean": stopped(held_out, plain), "rows": rows, "wish": wish, "depth": held_out.depth}


def with_intervals(policy: str, depths: Depths, test: Traces) -> dict[str, Any]:
    """Mean depth, accuracy, gain over the fixed-depth line and loss against full depth, each with its interval."""
    found, count = judge(policy, depths.mean() / test.depth, depths, test), test.inputs
    hits = test.quality.numpy()
    return {"mean_depth": of_mean(depths)._asdict(), "accuracy": {**found.accuracy._asdict(), "n": count},
            "gain": {**found.gain._asdict(), "n": count},
            "lost": of_mean(hits[:, -1] - hits[range(count), depths - 1])._asdict()}


def _best(names: Any, then: Traces, fraction: float) -> str:
    """The rule that gains most over fixed depth on the held-out images; not all rules take the depth asked for."""
    return max(names, key=lambda name: judge(name, fraction, depths_under(name, then, then, max(1.0, fraction *
                                                                                             then.depth)),
                                             then).gain.value)


def _traced(model: IterativeModel, images: Images, names: list[str], kind: str | None = None,
            severity: int = 0) -> Traces:
    batches: Iterator[tuple[Tensor, Tensor]] = labelled(images)
    if kind is not None:
        batches = ((corrupted(batch, kind, severity, seed), labels) for seed, (batch, labels) in enumerate(batches))
    return trace(model, batches, names)
