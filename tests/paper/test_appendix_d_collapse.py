"""App. D: what is called a collapse, and what it proves to stand where others fall."""

import pytest

from frost.paper.sections.appendix_d_collapse import Outcome, stands_alone, why_collapsed


@pytest.mark.parametrize(("outcome", "reason"), [
    (Outcome(False, 0.9, 0.5), "not finite"), (Outcome(True, 0.39, 0.5), "accuracy below half"),
    (Outcome(True, 0.9, 0.005), "scores alike"), (Outcome(True, 0.41, 0.5), None)])
def test_a_collapse_has_a_reason(outcome, reason):
    assert why_collapsed(outcome, accuracy_without=0.8) == reason


@pytest.mark.parametrize(("vanilla", "frost", "stands"), [(1.0, 0.0, True), (0.0, 0.0, None), (0.0, 0.2, False),
                                                          (1.0, 0.2, False)])
def test_to_stand_where_none_falls_proves_nothing(vanilla, frost, stands):
    assert stands_alone({"vanilla": vanilla, "recurrent": 0.0, "basic-ssm": 0.0, "frost": frost}) is stands
