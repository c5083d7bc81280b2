"""`frost page RUN`: the run as one HTML file that computes in a browser, without a server or a network."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

from frost import directory
from frost.checkpoint import load
from frost.commands.common import RUN_HELP, Reply
from frost.evaluation.budget import shown
from frost.page.build import Page, page_of

OFTEN_SENT = 3_000_000    # bytes: what mails and small servers take without complaint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost page`."""
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--out", type=Path, default=Path("page.html"), metavar="FILE",
                        help="the file to write (default: %(default)s)")
    parser.add_argument("--examples", type=Path, metavar="DIR",
                        help="a folder of your own pictures to put inside, instead of those that frost draws")


def run(options: argparse.Namespace) -> Reply:
    """Write the page."""
    if options.out.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--out takes a name that ends in .html, got {options.out}.")
    directory.check_writable(options.out.absolute().parent)
    opened = load(options.run)
    name = shown(options.run, opened)
    page = page_of(opened, Path(name).name, options.examples)
    content = page.html.encode()
    with directory.explained(options.out):
        directory.replace_file(options.out, content)
    if len(content) > OFTEN_SENT:
        warnings.warn(f"the page has {len(content) / 1e6:.1f} MB, since it holds all weights; a smaller model makes a "
                      "smaller one", stacklevel=2)
    return Reply(_as_json(name, options.out, page, len(content)), _as_text(name, options.out, page, len(content)))


def _as_json(name: str, out: Path, page: Page, size: int) -> dict[str, object]:
    return {"run": name, "out": str(out), "bytes": size, "depth": page.facts["depth"], "view": page.facts["view"],
            "examples": [example.name for example in page.examples],
            "budgets": [budget["mean_depth"] for budget in page.facts["budgets"]]}


def _as_text(name: str, out: Path, page: Page, size: int) -> str:
    return (f"{name} · {out} · {size / 1e6:.2f} MB · {len(page.examples)} examples · {len(page.facts['budgets'])} "
            "budgets\n\nOpen it in any browser; it needs no server and no network.")
