"""Stopping rules at equal mean depth: what Table 2, Table 3 and the comparison of rules rest on.

Thresholds come from validation images, numbers from test images.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor

from frost.core.trajectory import IterativeModel
from frost.data.corruptions import corrupted
from frost.data.splits import DataSet, Images, labelled
from frost.evaluation.calibrating import FRACTIONS
from frost.evaluation.comparison import SIMPLE
from frost.evaluation.stopping_rules import depths_of as depths_under
from frost.evaluation.stopping_rules import judge, paired_difference
from frost.evaluation.traces import Traces, trace
from frost.halting.rule_choice import PER_STEP
from frost.halting.stopping import label_oracle
from frost.paper.measurements.every_unit import with_intervals
from frost.paper.units import Measurement

RANKS = ("rank", f"rank{PER_STEP}")
RULES = (*RANKS, *SIMPLE, f"confidence{PER_STEP}", f"margin{PER_STEP}", "fixed")
SHARES = (0.25, *FRACTIONS)    # of full depth; a quarter beside the models that were trained at it
LOST_AT_HALF = 0.6199 - 0.5772          # Table 2: the accuracy that 52 % of full depth cost in the paper
SHARE_LOST = LOST_AT_HALF / 0.6199      # of the accuracy at full depth


def rules(model: IterativeModel, data: DataSet[Images]) -> dict[str, Any]:
    """Every rule at four fractions of full depth: thresholds from validation, numbers from the test images."""
    names = list(dict.fromkeys(name.removesuffix(PER_STEP) for name in RULES))
    then, now = (traced(model, part, names) for part in (data.validation, data.test))
    rows = [{"policy": name, "fraction": share,
             **with_intervals(name, depths_under(name, then, now, max(1.0, share * now.depth)), now)}
            for name in RULES for share in SHARES]
    seers = {"agreement": now.settles, "label": label_oracle(now.quality)}
    return {"rows": rows, "versus": [_versus(fraction, then, now) for fraction in SHARES], "images": now.inputs,
            "oracle": {name: with_intervals(name, depths.numpy(), now) for name, depths in seers.items()}}


AT_EQUAL_DEPTH = Measurement(name="rules", take=lambda model, data, size: rules(model, data))


def traced(model: IterativeModel, images: Images, names: list[str], kind: str | None = None,
           severity: int = 0) -> Traces:
    """The signals of some rules on images, corrupted or as they are."""
    batches: Iterator[tuple[Tensor, Tensor]] = labelled(images)
    if kind is not None:
        batches = ((corrupted(batch, kind, severity, seed), labels) for seed, (batch, labels) in enumerate(batches))
    return trace(model, batches, names)


def row_of(unit: Mapping[str, Any], policy: str, fraction: float) -> dict[str, Any]:
    """What was measured of a rule at a fraction of full depth."""
    return next(row for row in unit["rules"]["rows"] if row["policy"] == policy and row["fraction"] == fraction)


def chosen_row(unit: Mapping[str, Any], fraction: float) -> dict[str, Any]:
    """The same of the form of the rank score that was right most often on validation."""
    policy = next(row["policy"] for row in unit["rules"]["versus"] if row["fraction"] == fraction)
    return row_of(unit, policy, fraction)


def _versus(fraction: float, then: Traces, now: Traces) -> dict[str, Any]:
    """The better form of the rank score against the best simple rule, both chosen on validation."""
    simple = [name for name in RULES if name not in RANKS and name != "fixed"]
    ours, theirs = (_best(names, then, fraction) for names in (RANKS, simple))
    target = max(1.0, fraction * now.depth)
    gap = paired_difference(depths_under(ours, then, now, target), depths_under(theirs, then, now, target), now)
    return {"fraction": fraction, "policy": ours, "simple": theirs,
            "difference": {**gap._asdict(), "n": now.inputs}}


def _best(names: Iterable[str], then: Traces, fraction: float) -> str:
    """The rule that gains most over fixed depth on the held-out images; not all rules take the depth asked for."""
    target = max(1.0, fraction * then.depth)
    return max(names, key=lambda name: judge(name, fraction, depths_under(name, then, then, target), then).gain.value)
