"""§4.4 and beyond: whether thresholds from clean images serve on shifted ones (§6.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from frost.core.trajectory import IterativeModel
from frost.data.corruptions import KINDS
from frost.data.splits import DataSet, Images
from frost.evaluation.stopping_rules import depths_of as depths_under
from frost.evaluation.traces import Traces
from frost.paper.checks import Check, Units, above, below, every, measured, percent, seeds_of
from frost.paper.intervals import Measured, difference, of_share
from frost.paper.measurements.equal_depth import RANKS, traced
from frost.paper.measurements.every_unit import with_intervals
from frost.paper.section import Finding, Section
from frost.paper.sizes import Size
from frost.paper.units import Measurement, Unit, ours
from frost.report.drawing import CYCLE, MARKS, Values, legend_above, panels
from frost.report.progress import progress

HALF = 0.5             # of full depth, where the shift is looked at
SEVERITIES = (1, 3, 5)
STEADY = 0.1           # of a mean depth: how far it may move and be called robust
FORMS = {"rank": "one old threshold", "rank-per-step": "an old threshold for each step"}
CORRUPTIONS = {"hidden": "hidden pixels"}


def shift(model: IterativeModel, data: DataSet[Images]) -> dict[str, Any]:
    """Depth and accuracy at half depth on corrupted test images, with the old thresholds and with renewed ones.

    One threshold for all steps, as the paper takes it from its sketch, and beside it one for each.
    """
    held_out, plain = (traced(model, part, ["rank"]) for part in (data.validation, data.test))
    target = HALF * held_out.depth

    def stopped(calibrated_on: Traces, images: Traces) -> dict[str, Any]:
        return {policy: with_intervals(policy, depths_under(policy, calibrated_on, images, target), images)
                for policy in RANKS}

    cases = [(kind, severity) for kind in KINDS for severity in SEVERITIES]
    rows, images = [], len(data.test) + len(data.validation)
    with progress("corrupted images", len(cases), per_unit=images) as report:
        for number, (kind, severity) in enumerate(cases, 1):
            test, renewed = (traced(model, part, ["rank"], kind, severity) for part in (data.test, data.validation))
            rows.append({"kind": kind, "severity": severity, "old": stopped(held_out, test),
                         "renewed": stopped(renewed, test),
                         "full": of_share(int(test.quality[:, -1].sum()), test.inputs)._asdict()})
            report(number, f"{kind} {severity}")
    return {"clean": stopped(held_out, plain), "rows": rows, "depth": held_out.depth}


SHIFT = Measurement(name="shift", take=lambda model, data, size: shift(model, data),
                    settings=lambda size: {"shifted": list(RANKS)})


def units(size: Size) -> list[Unit]:
    """Our form."""
    return [ours(size, SHIFT)]


class Case(NamedTuple):
    """One kind of corruption at one severity."""

    row: Mapping[str, Any]
    depth: Measured              # under the old threshold
    moved: Measured              # from the depth of clean images
    renewed: Measured            # the same under a renewed threshold

    @classmethod
    def of(cls, row: Mapping[str, Any], clean: Measured) -> Case:
        """Beside the depth of clean images."""
        old, renewed = (measured(row[which]["rank"]["mean_depth"]) for which in ("old", "renewed"))
        return cls(row, old, difference(old, clean), difference(renewed, clean))


def judge(units: Units) -> Finding:
    """Do old thresholds keep the depth under shift, and does a renewed calibration give it back?"""
    found = units["ours"]["shift"]
    clean, target = measured(found["clean"]["rank"]["mean_depth"]), HALF * found["depth"]
    cases = [Case.of(row, clean) for row in found["rows"]]
    hardest, mildest = ([case for case in cases if case.row["severity"] == extreme] for extreme in (
        max(row["severity"] for row in found["rows"]), min(row["severity"] for row in found["rows"])))
    gains = {policy: [measured(case.row["old"][policy]["gain"]) for case in cases] for policy in FORMS}
    won, lost = ({policy: sum(is_so(gain) for gain in some) for policy, some in gains.items()}
                 for is_so in (lambda gain: gain.low > 0, lambda gain: gain.high < 0))
    checks: dict[str, Check] = {
        f"old thresholds keep the mean depth within {100 * STEADY:.0f} % at the smallest severity, for every kind":
            every(_within(case.moved, STEADY * clean.value) for case in mildest),
        "harder images get more steps: at the largest severity more than clean ones, for every kind":
            every(above(case.moved) for case in hardest),
    }
    return Finding(
        {"clean": found["clean"], "rows": found["rows"], "target_depth": target, "depth": found["depth"]}, checks,
        f"Asked for {target:.1f} steps: clean images take {clean.value:.2f}, the least corrupted {_range(mildest)}, "
        f"the most corrupted {_range(hardest)} under the old threshold. "
        + " ".join(f"With {name} {won[policy]} of {len(cases)} cases gain over fixed depth, {lost[policy]} lose."
                   for policy, name in FORMS.items()),
        [units["ours"]], seeds_of(units["ours"]), compared=[_compared(case.row) for case in cases],
        beyond=_beyond(cases, hardest, clean, {FORMS[policy]: won[policy] > lost[policy] for policy in FORMS}))


def _beyond(cases: list[Case], hardest: list[Case], clean: Measured, wins: Mapping[str, bool]) -> dict[str, Check]:
    return {
        "old thresholds keep the mean depth at the largest severity, too":
            every(_within(case.moved, STEADY * clean.value) for case in hardest),
        "a renewed calibration brings the mean depth within 5 % of that of clean images, for every kind and severity":
            every(_within(case.renewed, 0.05 * clean.value) for case in cases),
        **{f"with {name} halting gains over fixed depth in more of the cases than it loses (by 95 % limits)": more
           for name, more in wins.items()},
    }


def _range(cases: list[Case]) -> str:
    depths = [case.depth.value for case in cases]
    return f"{min(depths):.2f} to {max(depths):.2f}"


def _compared(row: Mapping[str, Any]) -> list[str]:
    return [f"{row['kind']} {row['severity']}: mean depth, accuracy, with the old threshold and a renewed one; "
            "with thresholds for each step", "–",
            "; ".join(f"{row[which][policy]['mean_depth']['value']:.2f}, "
                      f"{percent(row[which][policy]['accuracy']['value'])}"
                      for policy in FORMS for which in ("old", "renewed"))]


def _within(gap: Measured, limit: float) -> Check:
    """Whether a difference is small, to either side."""
    return every((below(gap, limit), above(gap, -limit)))


def draw(paper: Values, ours: Values, _: Values) -> Any:
    """Depth and accuracy on corrupted images, old thresholds and renewed ones."""
    figure, (here, there) = panels(2)
    kinds = list(dict.fromkeys(row["kind"] for row in ours["rows"]))
    for index, kind in enumerate(kinds):
        rows = [row for row in ours["rows"] if row["kind"] == kind]
        severity = [0, *(row["severity"] for row in rows)]
        for which, line in (("old", "-"), ("renewed", ":")):
            stops = [ours["clean"]["rank"], *(row[which]["rank"] for row in rows)]
            here.plot(severity, [row["mean_depth"]["value"] for row in stops], line, marker=MARKS[index], ms=4,
                      color=CYCLE[index], label=f"{CORRUPTIONS.get(kind, kind)}, {which} thresholds")
            there.plot(severity, [100 * row["accuracy"]["value"] for row in stops], line, marker=MARKS[index], ms=4,
                       color=CYCLE[index], label=CORRUPTIONS.get(kind, kind) if which == "old" else None)
    here.set(xlabel="severity", ylabel="mean depth (steps)")
    there.set(xlabel="severity", ylabel="accuracy (%)\n(— old, ··· renewed thresholds)")
    legend_above(here)
    legend_above(there, 4)
    return figure


SECTION = Section(
    name="shift", title="§4.4 and beyond: shifted data",
    claim="Thresholds from a quantile sketch of the scores are robust to shifted data, and harder images get more "
          "steps (§4.4, §6.3).",
    paper={"statement": "not measured under shift"}, units=units, judge=judge, draw=draw)
