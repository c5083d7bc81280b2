"""Stopping rules at equal depth, and stopping on images that have shifted."""

from __future__ import annotations

from typing import Any

from frost.analysis.intervals import of_share
from frost.analysis.rules import PER_STEP, compare, judge, oracles, paired_difference
from frost.analysis.rules import depths_of as depths_under
from frost.analysis.traces import Traces, trace
from frost.core.trajectory import IterativeModel
from frost.data.corruptions import KINDS, corrupted
from frost.data.splits import DataSet, Images
from frost.workflows.calibrate import FRACTIONS
from frost.workflows.compare import SIMPLE
from frost.workflows.dataset import batches_of

RANKS = ("rank", f"rank{PER_STEP}")
RULES = (*RANKS, *SIMPLE, f"confidence{PER_STEP}", f"margin{PER_STEP}", "fixed")
SHARES = (0.25, *FRACTIONS)    # of full depth; a quarter beside the models that were trained at it
HALF = 0.5             # of full depth, where the shift is looked at
SEVERITIES = (1, 3, 5)


def rules(model: IterativeModel, data: DataSet[Images]) -> dict[str, Any]:
    """Every rule at three fractions of full depth: thresholds from validation, numbers from the test images."""
    names = list(dict.fromkeys(name.removesuffix(PER_STEP) for name in RULES))
    then, now = (_traced(model, part, names) for part in (data.validation, data.test))
    rows = [{"policy": row.policy, "fraction": row.fraction, "mean_depth": row.mean_depth,
             "accuracy": {**row.accuracy._asdict(), "n": len(now.labels)},
             "gain": {**row.gain._asdict(), "n": len(now.labels)}} for row in compare(RULES, then, now, SHARES)]
    versus = []
    for fraction in SHARES:
        wish = max(1.0, fraction * now.depth)
        ours, theirs = (_best(names, then, fraction) for names in (RANKS, [name for name in RULES if name not in RANKS
                                                                          and name != "fixed"]))
        gap = paired_difference(depths_under(ours, then, now, wish), depths_under(theirs, then, now, wish), now)
        versus.append({"fraction": fraction, "policy": ours, "simple": theirs,
                       "difference": {**gap._asdict(), "n": len(now.labels)}})
    return {"rows": rows, "versus": versus, "oracle": oracles(now)._asdict(), "images": len(now.labels)}


def shift(model: IterativeModel, data: DataSet[Images], policy: str = "rank") -> dict[str, Any]:
    """Depth and accuracy at half depth on corrupted test images, with the old threshold and with a renewed one.

    One threshold for all steps, as the paper takes it from its sketch.
    """
    base = policy.removesuffix(PER_STEP)
    held_out = _traced(model, data.validation, [base])
    wish = HALF * held_out.depth
    clean = _row(policy, held_out, _traced(model, data.test, [base]), wish)
    rows = []
    for kind in KINDS:
        for severity in SEVERITIES:
            test = _traced(model, data.test, [base], kind, severity)
            renewed = _traced(model, data.validation, [base], kind, severity)
            rows.append({"kind": kind, "severity": severity, "old": _row(policy, held_out, test, wish),
                         "renewed": _row(policy, renewed, test, wish),
                         "full": of_share(int(test.hits[:, -1].sum()), len(test.labels))._asdict()})
    return {"policy": policy, "clean": clean, "rows": rows, "wish": wish, "depth": held_out.depth}


def _row(policy: str, held_out: Traces, test: Traces, wish: float) -> dict[str, Any]:
    found = judge(policy, HALF, depths_under(policy, held_out, test, wish), test)
    count = len(test.labels)
    return {"mean_depth": found.mean_depth, "accuracy": {**found.accuracy._asdict(), "n": count},
            "gain": {**found.gain._asdict(), "n": count}}


def _best(names: Any, then: Traces, fraction: float) -> str:
    """The rule that is right most often on the held-out images themselves."""
    return max(names, key=lambda name: judge(name, fraction, depths_under(name, then, then, max(1.0, fraction *
                                                                                             then.depth)),
                                             then).accuracy.value)


def _traced(model: IterativeModel, images: Images, names: list[str], kind: str | None = None,
            severity: int = 0) -> Traces:
    batches = batches_of(images)
    if kind is not None:
        batches = (corrupted(batch, kind, severity, seed) for seed, batch in enumerate(batches))
    return trace(model, batches, images.labels, names)
