"""`frost serve RUN…`: runs behind HTTP, each input with a budget and a deadline of its own."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from frost.checkpoint import pretrained
from frost.commands.common import RUN_HELP, Reply
from frost.directory import explained
from frost.halting.budget import Budget
from frost.serving.limits import SHORTEST_KEY

LOCAL = ("127.0.0.1", "::1", "localhost")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost serve`."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help=f"{RUN_HELP}; NAME=RUN names it otherwise")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (default: %(default)s)")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--quantile", type=float, metavar="Q", help="stop each input by the run's rule, unless its "
                        "request says otherwise")
    budget.add_argument("--mean-depth", type=float, metavar="D", help="the same, for D steps an input in the mean")
    budget.add_argument("--accuracy-loss", type=float, metavar="P",
                        help="the same, losing at most P points with 95 %% confidence")
    budget.add_argument("--depth", type=int, metavar="T", help="stop every input after T steps (default: full depth)")
    parser.add_argument("--slots", type=int, default=64, help="inputs that run together (default: %(default)s)")
    parser.add_argument("--backend", choices=("auto", "eager", "compile", "onnxruntime"), default="auto",
                        help="what computes the steps (default: what frost bench RUN --save found fastest, else eager)")
    parser.add_argument("--strict", action="store_true", help="one shape: an answer's bits do not depend on the load")
    parser.add_argument("--key-file", type=Path, metavar="FILE", help="a key a line; requests have to bring one")
    parser.add_argument("--max-queue", type=int, metavar="STEPS",
                        help="most steps at full depth that may wait (default: four times what the slots hold)")
    parser.add_argument("--under-load", choices=("shed", "shallower"), default="shed",
                        help="what a growing queue does: nothing until it is full, or fewer steps (default: shed)")
    parser.add_argument("--floor", type=float, metavar="D", help="the lowest mean depth that shallower goes to")
    parser.add_argument("--log", choices=("text", "json"), default="text", help="form of the log, on standard error")


def run(options: argparse.Namespace) -> Reply:
    """Serve until a signal comes."""
    try:
        from frost.serving.served import EngineOptions, named_runs, open_run
        from frost.serving.server import bound, serve
        from frost.serving.service import Service
    except ModuleNotFoundError as error:
        raise ValueError(f"frost serve needs the extra 'serve' ({error.name} is missing); from a clone: "
                         "pip install -e '.[serve]'") from None
    from frost.serving.log import Log

    engine = EngineOptions(
        slots=options.slots, max_queue=options.max_queue, under_load=options.under_load, floor=options.floor,
        budget=Budget(options.quantile, options.mean_depth, options.accuracy_loss, options.depth),
        backend=options.backend, ladder=not options.strict, own_process=os.name == "posix")
    keys = frozenset() if options.key_file is None else keys_in(options.key_file)
    log = Log(options.log)
    paths = named_runs(options.runs, pretrained)
    with bound(options.host, options.port) as listening:    # before the runs are read: that takes longer
        if not keys and options.host not in LOCAL:
            log("open to the network", "warning", host=options.host, advice="--key-file FILE asks for keys")
        served = [open_run(name, path, engine) for name, path in paths.items()]
        service = Service(served, keys=keys, log=log, reopen=lambda name: open_run(name, paths[name], engine))
        status = serve(service, listening)
    answered = {name: one.engine.counts.answered for name, one in service.runs.items()}
    return Reply({"answered": answered}, "\n".join(f"{name}: {count:,} answers" for name, count in answered.items()),
                 status)


def keys_in(file: Path) -> frozenset[bytes]:
    """The keys of a file, one a line; empty lines and those that begin with # are none."""
    with explained(file):
        lines = [line.strip() for line in file.read_bytes().splitlines()]
    keys = frozenset(line for line in lines if line and not line.startswith(b"#"))
    if not keys or min(map(len, keys)) < SHORTEST_KEY:
        raise ValueError(f"{file} must hold at least one key, each of {SHORTEST_KEY} characters or more, one a line.")
    return keys
