"""Stopping rules by budget: made once, kept, and lowered along the calibration when the queue grows.

A rule takes up to a third of a second to fit, so one that is not known yet is made outside of the engine's thread. The
rules for lower budgets are made in advance.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any, Literal, NamedTuple, get_args

from frost.halting.budget import Budget, mean_depth_of, rule_of
from frost.halting.calibration import Calibration, NotCalibrated, OutOfReach
from frost.halting.stopping import AtDepth, StoppingRule

UnderLoad = Literal["shed", "shallower"]
KEPT = 512     # rules that are remembered
LEVELS = 16    # lower budgets that are made in advance
DIGITS = 3     # of a budget: nobody can tell 4.0001 from 4


class Grant(NamedTuple):
    """What an input may spend."""

    budget: Budget
    rule: StoppingRule
    limit: int              # most steps
    mean_depth: float       # of the rule, on held-out inputs
    is_reduced: bool = False


class Budgets:
    """The rules of one model.

    Args:
        calibration: None leaves fixed depths.
        depth: T.
        under_load: `shallower` lowers budgets when the queue grows, `shed` only refuses what finds it full.
        floor: the lowest mean depth that `shallower` goes to.
    """

    def __init__(self, calibration: Calibration | None, depth: int, under_load: UnderLoad = "shed",
                 floor: float | None = None) -> None:
        if under_load not in get_args(UnderLoad):
            raise ValueError(f"under_load is one of {', '.join(get_args(UnderLoad))}; got '{under_load}'.")
        if (under_load == "shallower") != (floor is not None):
            raise ValueError("a floor, the lowest mean depth to answer with, belongs to under_load='shallower', and "
                             f"that needs one; got under_load='{under_load}' and floor={floor}.")
        if floor is not None and not 1 <= floor <= depth:
            raise ValueError(f"floor must be a mean depth between 1 and {depth}, got {floor:g}.")
        self.calibration, self.depth, self.floor = calibration, depth, floor
        self._known: OrderedDict[Budget, Grant] = OrderedDict()
        self._lower = self._made_in_advance(floor) if floor is not None else []

    def known(self, budget: Budget) -> Grant | None:
        """The rule of a budget that has been asked for before."""
        grant = self._known.pop(rounded(budget), None)
        if grant is not None:
            self._known[grant.budget] = grant    # the last that is forgotten; two threads may be here
        return grant

    def make(self, budget: Budget) -> Grant:
        """The rule of a budget; slow where it is not known. What is no budget of this model is a ValueError."""
        budget = rounded(budget)
        grant = self._known.get(budget)
        if grant is None:
            grant = self._granted(budget)
            self._known[budget] = grant
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return grant

    def lowered(self, grant: Grant, pressure: float) -> Grant:
        """What is left of a grant under load.

        The mean depth falls linearly from the one granted at pressure 0 to the floor at pressure 1; of the rules made
        in advance the deepest that keeps to it is taken.
        """
        if self.floor is None or pressure <= 0 or grant.mean_depth <= self.floor:
            return grant
        target = grant.mean_depth - min(pressure, 1.0) * (grant.mean_depth - self.floor)
        fitting = [lower for lower in self._lower if lower.mean_depth <= target + 1e-9]
        found = fitting[-1] if fitting else self._lower[0]
        if found.mean_depth >= grant.mean_depth:
            return grant
        return found._replace(limit=min(found.limit, grant.limit))

    def _granted(self, budget: Budget) -> Grant:
        rule = rule_of(budget, self.calibration, self.depth)
        limit = rule.depth if isinstance(rule, AtDepth) else self.depth
        return Grant(budget, rule, limit, mean_depth_of(rule, self.calibration, self.depth))

    def _made_in_advance(self, floor: float) -> list[Grant]:
        """Rules from the floor to full depth, by their mean depth; whole steps for all without a calibration."""
        grants = []
        for level in range(LEVELS):
            try:
                target = round(floor + (self.depth - floor) * level / LEVELS, 2)
                grants.append(self._granted(Budget(mean_depth=target)))
            except (NotCalibrated, OutOfReach):
                continue
        if not grants:
            grants = [self._granted(Budget(depth=step)) for step in range(max(1, round(floor)), self.depth + 1)]
        grants = [grant._replace(is_reduced=True) for grant in grants]
        return sorted(grants, key=lambda grant: grant.mean_depth)


def rounded(budget: Budget) -> Budget:
    """A budget without digits that mean nothing, so that there are not endlessly many; bad values stay."""
    short: dict[str, Any] = {name: round(value, DIGITS) for name, value in budget.named().items()
                             if isinstance(value, float) and math.isfinite(value)}
    return budget._replace(**short)
