"""The sentences of the paper's abstract and conclusions, and the sections that decide each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from frost.paper.section import UNTESTED, Judged, Verdict


class Claim(NamedTuple):
    """One sentence of the paper, in our words."""

    where: str
    claim: str
    sections: tuple[str, ...]


CLAIMS = (
    Claim("abstract", "Early stopping is ill-posed in models whose intermediate states share no representation; FROST "
          "enforces one that is self-similar, of which its states are different resolutions.",
          ("consistency", "dimension")),
    Claim("abstract", "The dynamics contract and converge stably over iterations.", ("theory",)),
    Claim("abstract", "Halting admits a ranking by intrinsic quality, without extrinsic objectives.",
          ("halting", "losses")),
    Claim("abstract", "This is verified on ImageNet-100.", ()),
    Claim("abstract", "Adaptive efficiency emerges from the aligned geometry.", ("halting", "complexity")),
    Claim("conclusion", "The fractal bias leads to the predicted convergence.", ("theory", "lambda")),
    Claim("conclusion", "Depth can be varied at inference.", ("halting", "supervision")),
    Claim("conclusion", "Adaptive computation depends on the geometry of the states: without it training collapses.",
          ("collapse", "consistency")),
)
NOT_RUN = "ImageNet-100 is not on our machines; its recipes are written and were not run."
CRITERION = "holds if all its sections hold, does not hold if none holds even in part, else in part; " \
            "sections that cannot be tested are left out"


def judged(sections: Mapping[str, Judged]) -> list[dict[str, Any]]:
    """Each claim with a verdict from those of its sections."""
    rows = []
    for where, claim, names in CLAIMS:
        if not all(name in sections for name in names):
            continue    # with --only
        found = {name: sections[name].verdict for name in names}
        rows.append({"where": where, "claim": claim, "sections": found, "verdict": _combined(list(found.values())),
                     "figures": [sections[name].finding for name in found] or [NOT_RUN]})
    return rows


def _combined(verdicts: list[Verdict]) -> Verdict:
    known = [verdict for verdict in verdicts if verdict != UNTESTED]
    if not known:
        return UNTESTED
    if all(verdict == "holds" for verdict in known):
        return "holds"
    return "does not hold here" if all(verdict == "does not hold here" for verdict in known) else "holds in part"
