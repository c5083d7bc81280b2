"""The page put together: facts, graphs, weights, style and scripts in one file that asks for nothing else.

The scripts know engines by two verbs (`assets/engine.js`). Who serves the page with an engine of its own gives `html`
no program, and a last script that makes this engine.
"""

from __future__ import annotations

import base64
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

from frost.checkpoint import Run
from frost.config import from_dict
from frost.page.budgets import budgets_of, rule_of
from frost.page.examples import Example, examples_of, view_of
from frost.page.graph import Program, program_of
from frost.zoo.registry import ModelConfig

SCRIPTS = ("operators.js", "products.js", "signals.js", "engine.js", "resample.js", "pictures.js", "problems.js",
           "sums.js", "chart.js", "page.js")
START = "start.js"                    # makes the engine and the page
LIKELY_LOSS = 0.02                    # of quality: the slider starts at the smallest budget that loses less
Place = Literal["page", "server"]     # where a page's inputs are computed
LEADS: dict[Place, str] = {
    "page": "Everything is computed here, in this page; nothing is sent anywhere.",
    "server": "Everything is computed by the server of this page; nothing is sent to another."}
FEET: dict[Place, str] = {
    "page": "in this browser; all are computed, so that the budget can be moved afterwards. Made by frost page.",
    "server": "with the way to the server and back; all are computed, so that the budget can be moved afterwards."}
MARGINS = {"digits": 0.0, "mnist": 1 / 7}    # around a drawn digit, as a share of the picture; others are not moved


class Page(NamedTuple):
    """A page, and what is inside."""

    html: str
    facts: dict[str, Any]
    examples: list[Example]
    program: Program


def page_of(run: Run, name: str, own: Path | None = None) -> Page:
    """The page of a run of the zoo; what it cannot express, or a missing calibration, is a ValueError.

    Args:
        name: what to call the run.
        own: a folder of pictures, which become the examples.
    """
    facts, examples = facts_of(run, name, own)
    program = program_of(run.model)
    return Page(html(facts, program), facts, examples, program)


def facts_of(run: Run, name: str, own: Path | None = None, place: Place = "page",
             ) -> tuple[dict[str, Any], list[Example]]:
    """What a page shows of a run of the zoo, without the model, and its examples; the same refusals."""
    if not isinstance(run.config.get("model"), dict):
        raise ValueError(f"{run.path} holds a model of your own, and a page is for models of the zoo.")
    config = from_dict(ModelConfig, run.config["model"], "model")
    budgets = budgets_of(run)
    first = _first(budgets)
    view = view_of(config, run.config.get("data"))
    examples = examples_of(run, config, view, rule_of(budgets[first]), own)
    facts = {"name": name, "view": view, "depth": run.model.depth, "shape": list(config.input_shape),
             "classes": [label.replace("_", " ") for label in run.class_names(config.classes)],
             "budgets": budgets, "start": first,
             "signals": sorted({budget["signal"] for budget in budgets}),
             "margin": MARGINS.get(str(run.config.get("data"))),
             "examples": [example.to_json() for example in examples], **_words(name, config, view, run, place)}
    return facts, examples


def html(facts: dict[str, Any], program: Program | None, start: str | None = None) -> str:
    """The file: with a program it computes by itself, else the script `start` says what computes.

    Only a page without a program may talk to a server, and only to the one that it came from.
    """
    parts = {"title": _escaped(f"frost · {facts['name']}"), "style": _asset("page.css"), "facts": _json(facts),
             "connects": "; connect-src 'self'" if program is None else "",
             "program": _json({} if program is None else program.described),
             "weights": "" if program is None else base64.b64encode(program.weights).decode("ascii"),
             "scripts": "\n".join([*map(_script, SCRIPTS), start or _script(START)])}
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("page.html"))


def scripts(*names: str) -> str:
    """Some of the page's scripts, one behind the other."""
    return "\n".join(map(_script, names))


def _first(budgets: list[dict[str, Any]]) -> int:
    """Where the slider starts: the smallest budget that loses little quality; in the middle if that is not known."""
    best = budgets[-1]["quality"]
    if best is None:
        return len(budgets) // 2
    return next(place for place, budget in enumerate(budgets) if budget["quality"][0] >= best[0] - LIKELY_LOSS)


def _words(name: str, config: ModelConfig, view: str, run: Run, place: Place) -> dict[str, str]:
    """Sentences of the page."""
    things = {"picture": "picture", "maze": "maze", "sum": "sum"}.get(view, "problem")
    sizes = " × ".join(map(str, config.input_shape[1:]))
    weights = sum(part.numel() for part in run.model.parameters())
    start = "One small block, applied again and again" if run.model.stationary else "A network read after every block"
    return {
        "takes": f"{things}s of {sizes} {'pixels' if view == 'picture' else 'cells'}",
        "good": "right" if view == "picture" else "solved",
        "lead": f"{start}: an easy {things} is answered after few steps, a hard one "
                f"gets up to {config.depth}. {LEADS[place]}",
        "foot": f"{name}: {weights:,} weights, at most {config.depth} steps. All {config.depth} steps of this {things} "
                f"took {{ms}} ms {FEET[place]}"}


def _json(values: Any) -> str:
    """JSON that may stand in a script element."""
    return json.dumps(values, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _script(name: str) -> str:
    return _asset(name).replace('"use strict";\n', "", 1)


def _asset(name: str) -> str:
    return resources.files("frost.page").joinpath("assets", name).read_text(encoding="utf-8")
