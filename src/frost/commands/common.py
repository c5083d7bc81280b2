"""What the verbs share: their answer, and the options that several of them have."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

RUN_HELP = "folder of a run, the name of one that comes with the package, or hf://user/name@revision"


class Reply(NamedTuple):
    """What a verb has to say."""

    as_json: dict[str, Any]    # the object for --json
    as_text: str               # the same for a person
    status: int = 0


def add_device(parser: argparse.ArgumentParser) -> None:
    """--device."""
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"),
                        help="where the model runs (default: auto, a GPU if there is one; untested on GPUs)")


def add_data(parser: argparse.ArgumentParser, can_download: bool = True) -> None:
    """--data and --download."""
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder with the data set (default: the cache folder)")
    if can_download:
        parser.add_argument("--download", action="store_true", help="fetch a public data set that is missing")


def add_settings(parser: argparse.ArgumentParser) -> None:
    """--set."""
    parser.add_argument("--set", action="extend", nargs="+", default=[], metavar="PATH=VALUE", dest="assignments",
                        help="change a setting, for instance model.depth=12 train.seed=1 (frost recipes RECIPE)")


def check_between(option: str, number: int, least: int, most: int) -> None:
    """Refuse a number outside its limits, naming the option, before anything is allocated."""
    if not least <= number <= most:
        raise ValueError(f"{option} must be at least {least} and at most {most:,}, got {number}.")
