"""`frost reproduce`: every table and figure of the paper, beside the paper's numbers."""

from __future__ import annotations

from collections import Counter
from typing import Any

from frost.paper.report import FIGURES, REPORT, RESULTS
from frost.paper.reproduction import TRIED_STEPS, Plan, Reproduction
from frost.report.tables import table


def plan_json(what: Plan) -> dict[str, Any]:
    """One object."""
    return {**what._asdict(), "out": str(what.out)}


def plan_text(what: Plan) -> str:
    """The same for a person."""
    counts = Counter(what.units.values())
    return "\n".join([
        f"{what.out} · size {what.size} · sections: {', '.join(what.sections)}", "",
        table(["unit", "state"], [[name, state] for name, state in what.units.items()]), "",
        f"{counts['done']} done, {counts['to train']} to train at about {what.seconds_a_training:.0f} s each, "
        f"{counts['to measure']} to measure: about {what.seconds / 60:.0f} minutes on this machine, by "
        f"{TRIED_STEPS} timed steps. Nothing was written."])


def text(result: Reproduction) -> str:
    """What holds, in a table."""
    sections = result.results["sections"]
    rows = [[name, section["verdict"], ", ".join(map(str, section["seeds"]))] for name, section in sections.items()]
    return "\n".join([
        f"{result.out} · size {result.results['size']} · {result.results['data']['name']} · "
        f"{result.results['timing']['seconds'] / 60:.1f} minutes of work", "",
        table(["section", "verdict", "seeds"], rows), "",
        *(f"{name}: {section['finding']}" for name, section in sections.items()), "",
        f"Written: {result.out / REPORT}, {RESULTS}, {FIGURES}/."])
