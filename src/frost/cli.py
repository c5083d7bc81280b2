"""The command line: parses, calls a command, prints; no logic.

Results go to stdout, progress to stderr. A user's mistake is one line and exit status 2; set FROST_TRACEBACK=1 to see
where it came from. Results that cannot be printed are one line and exit status 1.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
import warnings
from collections.abc import Collection, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from frost.config import suggest
from frost.core.malloc import keep_pages
from frost.report.progress import say


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and leave with status 2."""
        self.exit(2, f"{self.prog}: {message} (try: {self.prog} --help)\n")

    def print_help(self, file: Any = None) -> None:
        """Print the help, and leave with status 1 if that cannot be done."""
        if file is not None:
            super().print_help(file)
        elif status := _printed(self.format_help().rstrip("\n")):
            self.exit(status)

    def parse_known_args(self, *given: Any, **named: Any) -> Any:
        """Files may stand behind options, too; argparse before Python 3.13 takes an open list of words once only."""
        found, rest = super().parse_known_args(*given, **named)
        if hasattr(found, "files"):
            found.files += [Path(word) for word in rest if not word.startswith("-")]
            rest = [word for word in rest if word.startswith("-")]
        return found, rest


VERBS = {    # in the order of the help; each is a file of `frost.commands`, imported when it is asked for
    "demo": "the whole story on data that comes with the package",
    "recipes": "named runs, one line each; or every setting of one",
    "train": "train a recipe's model, or go on with it",
    "launch": "train with several processes, and go on when one of them dies",
    "calibrate": "gather a stopping rule's scores on held-out images, and keep them in the run",
    "evaluate": "accuracy and depth of a run at several quantiles, and after each step",
    "predict": "the class of each image, and the steps it took",
    "serve": "runs behind HTTP, each request with a budget and a deadline of its own",
    "push": "share a run on the Hugging Face hub, with a card of its quality at each depth",
    "export": "the run as a folder of ONNX graphs and hosts that needs no PyTorch; or check one",
    "page": "the run as one HTML file that computes in a browser, without a server or a network",
    "bench": "images per second beside the full-depth loop, and the efficiency: measured speed-up ÷ ideal",
    "analyze": "similarity of states, dimension of paths and contraction of a run's step",
    "reproduce": "every table and figure of the paper, beside the paper's numbers",
    "describe": "parameters and FLOPs of a model or a run, once per image and per step",
}


def parser(wanted: Collection[str] = tuple(VERBS)) -> argparse.ArgumentParser:
    """All verbs, and the options of those wanted."""
    top = OneLineParser(prog="frost", description="Adaptive depth for any shape-preserving block.")
    top.add_argument("--version", action="store_true", help="print the version")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", parser_class=OneLineParser)
    for name, summary in VERBS.items():
        words = verbs.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name in wanted:
            command(name).add_arguments(words)
        words.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    return top


def command(verb: str) -> Any:
    """The module that carries out a verb."""
    return import_module(f"frost.commands.{verb}")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `frost` and `python -m frost`."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")    # a terminal without Greek letters still gets the numbers
    if words and not words[0].startswith("-") and words[0] not in VERBS:
        return _complain(f"there is no verb '{words[0]}'. {suggest(words[0], VERBS)}", 2)
    arguments = parser(words[:1]).parse_args(words)
    arguments.words = words
    if arguments.version:
        from importlib.metadata import version
        return _printed(f"frost {version('frost-ssm')}")
    if arguments.verb is None:
        parser(()).print_help()
        return 0
    keep_pages()
    if getattr(arguments, "device", None):
        os.environ["FROST_DEVICE"] = arguments.device    # what `auto` means from here on, also in processes of ours
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: say(f"frost: {message}.")
        status = _carried_out(arguments)
    if argv is None and status > 128:
        signal.signal(status - 128, signal.SIG_IGN)    # the same request again must not change how the process ends
    return status


def _carried_out(arguments: argparse.Namespace) -> int:
    """Call the command, print its answer, and turn what may go wrong into an exit status."""
    try:
        answer = command(arguments.verb).run(arguments)
        words = json.dumps(answer.as_json, allow_nan=False) if arguments.json else answer.as_text
    except KeyboardInterrupt as stop:
        return _complain(str(stop) or "interrupted.", getattr(stop, "status", 130), of_all=True)
    except (ValueError, OSError, FloatingPointError) as error:
        if os.environ.get("FROST_TRACEBACK"):
            raise
        return _complain(_sentence(error), 2, of_all=isinstance(error, FloatingPointError))
    except Exception as error:
        if os.environ.get("FROST_TRACEBACK"):
            raise
        if type(error).__name__ in ("PeerLost", "AbortedByRank0"):    # by name: most verbs do without torch
            return _complain(str(error), getattr(error, "status", 1), of_all=not str(error))
        first = (str(error).splitlines() or [""])[0]
        return _complain(f"{type(error).__name__}: {first} (FROST_TRACEBACK=1 shows where)", 1)
    if _rank() > 0:
        return 0    # the first process speaks for all
    return _printed(words) or answer.status


def _printed(words: str) -> int:
    """Print a result; the exit status says whether it could be."""
    try:
        print(words, flush=True)
    except OSError as error:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - keeps the interpreter's last flush quiet
        if not isinstance(error, BrokenPipeError):
            return _complain(f"the result could not be printed: {error.strerror}; send it somewhere else.", 1)
    return 0


def _sentence(error: Exception) -> str:
    """What went wrong; of a system's error, with the file's name and what to do, instead of a number."""
    if not isinstance(error, OSError) or error.strerror is None or error.filename is None:
        return str(error)
    from frost.directory import FORBIDDEN, FULL, advice

    return f"{error.filename}: {error.strerror}." + (f" {advice(error)}" if error.errno in FULL + FORBIDDEN else "")


def _rank() -> int:
    """Which of several processes this is, by the environment that torchrun and `frost launch` set."""
    rank = os.environ.get("RANK", "0")
    return int(rank) if rank.isdecimal() else 0


def _complain(sentence: str, status: int, of_all: bool = False) -> int:
    """Say what is wrong; what all processes would say alike, the first one says."""
    rank = _rank()
    if of_all and rank > 0:
        return status
    say(f"frost: {f'process {rank}: ' if rank else ''}{sentence}")
    return status
