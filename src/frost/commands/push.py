"""`frost push RUN user/name`: share a run on the Hugging Face hub, with a card of what it gives at each budget."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

from frost import directory, hub
from frost.checkpoint import CHECKPOINTS, CONFIG, calibration_in, load, locate, verify
from frost.commands.common import RUN_HELP, Reply
from frost.evaluation.model_card import Origin, model_card
from frost.halting.calibration import Calibration
from frost.training.runfolder import ORIGIN


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost push`."""
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("repository", metavar="USER/NAME", help="repository on the hub; made if there is none")
    parser.add_argument("--private", action="store_true", help="only you can see it")
    parser.add_argument("--branch", metavar="NAME", help="push to this branch, made if there is none (default: main)")
    parser.add_argument("--card", type=Path, metavar="FILE",
                        help="a card of your own, instead of the one that is made from the run's calibration")
    parser.add_argument("--dry-run", action="store_true", help="verify the run and print the card; send nothing")


def run(options: argparse.Namespace) -> Reply:
    """Share a run."""
    result = push_run(options.run, options.repository, options.private, options.branch, options.card, options.dry_run)
    return Reply(as_json(result), text(result))


class Pushed(NamedTuple):
    """A run on the hub, or what would be there."""

    run: str
    repository: str
    branch: str | None
    files: dict[str, int]     # bytes by name
    card: str
    sent: hub.Sent | None     # None if it was a dry run


def push_run(run_path: Path | str, repository: str, private: bool = False, branch: str | None = None,
             card: Path | None = None, dry_run: bool = False) -> Pushed:
    """Verify a run, write its card, and put both on the hub in one commit."""
    hub.check_repository(repository)
    path = locate(run_path)
    if path.parent.name == CHECKPOINTS:
        raise ValueError(f"{run_path} is still being trained; go on with --resume, and push it when it has ended.")
    manifest = verify(path)
    names = hub.check_files([*manifest["files"]], path / directory.MANIFEST)
    origin = origin_of(path, manifest)
    if card is not None and not card.is_file():
        raise ValueError(f"{card} is no file; --card names a card in Markdown (--dry-run prints one to begin with).")
    words = model_card(origin, repository, branch) if card is None else card.read_text(encoding="utf-8")
    files = {name: (path / name).stat().st_size for name in names}
    sent = None if dry_run else hub.send(path, names, words, repository, branch, private)
    return Pushed(str(run_path), repository, branch, files, words, sent)


def origin_of(path: Path, manifest: dict[str, Any]) -> Origin:
    """What a verified run says of itself; a model of the zoo is built and filled, which shows that it can be."""
    config, name = directory.read_json(path / CONFIG), calibration_in(manifest)
    training = directory.read_json(path / ORIGIN) if ORIGIN in manifest["files"] else {}
    if isinstance(config.get("model"), dict):
        stored = load(path)
        return Origin(stored.config, stored.calibration, training)
    calibration = None if name is None else Calibration.from_dict(directory.read_json(path / name))
    return Origin(config, calibration, training)


def as_json(result: Pushed) -> dict[str, Any]:
    """One object; `commit` and `url` are None if nothing was sent."""
    sent = result.sent
    return {"run": result.run, "repository": result.repository, "branch": result.branch, "files": result.files,
            "card": result.card, "commit": None if sent is None else sent.commit,
            "url": None if sent is None else sent.url}


def text(result: Pushed) -> str:
    """The same for a person; of a dry run the card alone, so that it can be sent to a file."""
    if result.sent is None:
        return result.card.rstrip("\n")
    size = sum(result.files.values()) / 1e6
    address = f"hf://{result.repository}@{result.sent.commit}"
    return (f"{result.run} · {len(result.files)} files and a card · {size:.1f} MB · {result.sent.url}\n"
            f'Load it: frost.load("{address}")')
