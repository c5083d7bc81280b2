"""Progress with and without a known end, and with nobody who listens."""

import io
import sys

import pytest

from frost.report import progress as module
from frost.report.progress import progress, say


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("total", "words"), [(3, "counting: 2/3  "), (None, "counting: 2  ")])
def test_lines_have_the_total_if_there_is_one(total, words, monkeypatch, capsys):
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.0)
    with progress("counting", total) as report:
        report(2, "so far")
    told = capsys.readouterr().err
    assert told.startswith(words)
    assert told.endswith("so far\n")
    assert ("left" in told) == (total is not None)


@pytest.mark.parametrize(("total", "words"), [(3, "2/3"), (None, "2")])
def test_a_bar_has_the_total_if_there_is_one(total, words, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("counting", total) as report:
        report(2, "so far")
    assert f" {words} " in terminal.getvalue()
    assert "None" not in terminal.getvalue()


def test_a_bar_cuts_nothing_at_eighty_columns(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    text = "loss 1.234 · accuracy 67.17 % · 0.0012 learning rate · validation 65.02 % after step 8"
    with progress("evaluating as trained", 8000) as report:
        report(4000, text)
    shown = terminal.getvalue()
    assert "evaluating as trained" in shown
    assert "4000/8000" in shown
    assert "…" not in shown
    assert all(word in shown for word in text.split())


def test_what_nobody_hears_goes_nowhere_else(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    say("hello")
    assert capsys.readouterr().out == ""
