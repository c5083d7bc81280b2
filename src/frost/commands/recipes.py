"""`frost recipes [RECIPE]`: the named runs, one line each; or every setting of one, with its value and help."""

from __future__ import annotations

import argparse
from typing import Any

from frost.commands.common import Reply
from frost.config import settings_of, to_dict
from frost.recipes import RECIPES, recipe
from frost.report.tables import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost recipes`."""
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="show every setting of this one, with its help")


def run(options: argparse.Namespace) -> Reply:
    """List the recipes, or the settings of one."""
    if options.recipe is None:
        return Reply(as_json(), as_text())
    return Reply(recipe_json(options.recipe), recipe_text(options.recipe))


def as_json() -> dict[str, Any]:
    """Each recipe's name, data set, model, depth, epochs and description."""
    rows = []
    for name, make in RECIPES.items():
        config = make()
        rows.append({"recipe": name, "data": config.data, "backbone": config.model.backbone,
                     "depth": config.model.depth, "epochs": config.train.epochs, "seed": config.train.seed,
                     "description": _description(name), "config": to_dict(config)})
    return {"recipes": rows}


def as_text() -> str:
    """The same as a table, with the first sentence of each description."""
    rows = [[row["recipe"], row["data"], row["backbone"], str(row["depth"]), str(row["epochs"]),
             _summary(row["recipe"])] for row in as_json()["recipes"]]
    return "\n".join([table(["recipe", "data", "backbone", "T", "epochs", ""], rows), "",
                      "frost train RECIPE --out RUN [--data DIR]; --set model.architecture=vanilla, recurrent or "
                      "basic-ssm trains a baseline instead. `frost recipes RECIPE` shows every setting."])


def recipe_json(name: str) -> dict[str, Any]:
    """Every setting of a recipe: path, type, value, default and help."""
    settings = [setting._asdict() for setting in settings_of(recipe(name))]
    return {"recipe": name, "description": _description(name), "settings": settings}


def recipe_text(name: str) -> str:
    """The same as a table; a default stands beside a value that differs from it."""
    rows = [("setting", "value", "default", "")]
    for path, kind, value, default, help in settings_of(recipe(name)):
        choices = f" ({kind})" if "," in kind else ""
        rows.append((path, _shown(value), _shown(default) if value != default else "", help + choices))
    first, second, third = (max(len(row[column]) for row in rows) for column in range(3))
    lines = [f"{path:{first}}  {value:{second}}  {default:{third}}  {help}".rstrip() for path, value, default, help
             in rows]
    return "\n".join([f"{name} · {_summary(name)}", "", *lines, "",
                      f"frost train {name} --out RUN --set model.depth=12 changes a setting. Those of runtime decide "
                      "no result, at most its rounding, and may differ when a run is resumed."])


def _shown(value: Any) -> str:
    """A value as `--set` takes it; nothing for a setting that has no default."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _description(name: str) -> str:
    return " ".join((RECIPES[name].__doc__ or "").split())


def _summary(name: str) -> str:
    """The first sentence of a description."""
    return _description(name).split(". ")[0].rstrip(".")
