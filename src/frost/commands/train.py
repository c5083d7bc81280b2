"""`frost train RECIPE --out RUN`: train a recipe's model, or go on with it."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from frost.commands.common import Reply, add_data, add_device, add_settings
from frost.config import override
from frost.recipes import recipe
from frost.report.tables import percent, table
from frost.training.run import TrainResult, train


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost train`."""
    add_device(parser)
    parser.add_argument("recipe", metavar="RECIPE", help="such as digits or cifar100-cpu; `frost recipes` lists them")
    parser.add_argument("--out", type=Path, required=True, metavar="RUN", help="folder for the run")
    add_data(parser)
    parser.add_argument("--from", dest="source", metavar="RUN",
                        help="begin with the weights of another run: a folder, or the name of one that comes with us")
    parser.add_argument("--resume", action="store_true",
                        help="go on from the newest checkpoint in RUN; start if there is none")
    parser.add_argument("--tensorboard", action="store_true", help="write event files to RUN/tensorboard as well")
    add_settings(parser)


def run(options: argparse.Namespace) -> Reply:
    """Train."""
    config = override(recipe(options.recipe), options.assignments)
    result = train(config, options.out, data_folder=options.data, resume=options.resume, download=options.download,
                   tensorboard=options.tensorboard, source=options.source, command=("frost", *options.words))
    return Reply(result.to_json(), text(result))


def text(result: TrainResult) -> str:
    """What a person wants to know after a training, and what to type next."""
    origin, out = result.origin, result.out
    rows = [[str(t), percent(value)] for t, value in enumerate(origin["validation_accuracy"], 1)]
    verb = "had ended before, and nothing was done" if result.was_there else "has ended"
    return "\n".join([
        f"{out} {verb}: recipe {origin['recipe']}, seed {origin['seed']}, {origin['steps']} steps in "
        f"{origin['seconds'] / 60:.1f} minutes.", "",
        table(["step t", "validation accuracy"], rows), "",
        f"Next: {shlex.join(['frost', 'evaluate', str(out)])}   (add --data DIR unless it is digits)"])
