"""`frost recipes`: the named runs, one line each."""

from __future__ import annotations

import argparse
from typing import Any

from frost.commands.common import Reply
from frost.config import to_dict
from frost.recipes import RECIPES
from frost.report.tables import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost recipes`: none."""


def run(options: argparse.Namespace) -> Reply:
    """List the recipes."""
    return Reply(as_json(), as_text())


def as_json() -> dict[str, Any]:
    """Each recipe's name, data set, model, depth, epochs and description."""
    rows = []
    for name, make in RECIPES.items():
        config = make()
        rows.append({"recipe": name, "data": config.data, "backbone": config.model.backbone,
                     "depth": config.model.depth, "epochs": config.train.epochs, "seed": config.train.seed,
                     "description": " ".join((make.__doc__ or "").split()), "config": to_dict(config)})
    return {"recipes": rows}


def as_text() -> str:
    """The same as a table, with the first sentence of each description."""
    rows = [[row["recipe"], row["data"], row["backbone"], str(row["depth"]), str(row["epochs"]),
             row["description"].split(". ")[0].rstrip(".")] for row in as_json()["recipes"]]
    return "\n".join([table(["recipe", "data", "backbone", "T", "epochs", ""], rows), "",
                      "frost train RECIPE --out RUN [--data DIR]; --set model.architecture=vanilla, recurrent or "
                      "basic-ssm trains a baseline instead."])
