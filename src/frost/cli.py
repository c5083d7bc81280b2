"""The command line: parses, calls a workflow, prints; no logic.

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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from frost import options
from frost.config import suggest
from frost.core.pages import keep_pages
from frost.workflows.progress import say


class Answer(NamedTuple):
    """What a verb has to say."""

    as_json: dict[str, Any]    # the object for --json
    as_text: str               # the same for a person
    status: int = 0


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


class Verb(NamedTuple):
    """A word of the command line."""

    summary: str
    action: Callable[[argparse.Namespace], Answer]
    add_options: Callable[[argparse.ArgumentParser], None] | None
    takes_settings: bool = True


def parser() -> argparse.ArgumentParser:
    """All verbs and their options."""
    top = OneLineParser(prog="frost", description="Adaptive depth for any shape-preserving block.")
    top.add_argument("--version", action="store_true", help="print the version")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", parser_class=OneLineParser)
    for name, verb in VERBS.items():
        sentence = f"{verb.summary[0].upper()}{verb.summary[1:]}."
        words = verbs.add_parser(name, help=verb.summary, description=sentence)
        if verb.add_options is not None:
            verb.add_options(words)
        if verb.takes_settings:
            words.add_argument("--set", action="extend", nargs="+", default=[], metavar="PATH=VALUE",
                               dest="assignments",
                               help="change a setting, for instance model.depth=12 train.seed=1; those of a run: "
                                    "frost recipes RECIPE")
        words.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    return top


def _demo(arguments: argparse.Namespace) -> Answer:
    from frost.config import override
    from frost.recipes import recipe
    from frost.workflows.demo import run_demo, text

    result = run_demo(override(recipe(arguments.data), arguments.assignments), arguments.out)
    return Answer(result.to_json(), text(result))


def _train(arguments: argparse.Namespace) -> Answer:
    from frost.config import override
    from frost.recipes import recipe
    from frost.workflows.train import text, train

    config = override(recipe(arguments.recipe), arguments.assignments)
    result = train(config, arguments.out, data_folder=arguments.data, resume=arguments.resume,
                   download=arguments.download, tensorboard=arguments.tensorboard, source=arguments.source,
                   command=("frost", *arguments.words))
    return Answer(result.to_json(), text(result))


def _launch(arguments: argparse.Namespace) -> Answer:
    from frost.workflows.launch import launch

    result = launch(arguments.processes, arguments.command, arguments.retries)
    if result.status:
        raise SystemExit(result.status)
    return Answer(result._asdict(), f"All processes have ended well; restarts: {result.restarts}.")


def _recipes(arguments: argparse.Namespace) -> Answer:
    from frost.workflows.recipes import as_json, as_text, recipe_json, recipe_text

    if arguments.recipe is None:
        return Answer(as_json(), as_text())
    return Answer(recipe_json(arguments.recipe), recipe_text(arguments.recipe))


def _evaluate(arguments: argparse.Namespace) -> Answer:
    from frost.workflows.evaluate import as_json, evaluate_run, text

    result = evaluate_run(arguments.run, arguments.data, arguments.quantiles, arguments.split, arguments.download,
                          arguments.policy, arguments.frontier,
                          None if arguments.frontier is None else arguments.figure)
    return Answer(as_json(result), text(result))


def _predict(arguments: argparse.Namespace) -> Answer:
    from frost.workflows.budget import Budget
    from frost.workflows.predict import as_json, predict, text

    budget = Budget(arguments.quantile, arguments.mean_depth, arguments.accuracy_loss, arguments.depth)
    result = predict(arguments.run, arguments.files, budget, batch=arguments.batch, out=arguments.out,
                     listed=arguments.listed)
    return Answer(as_json(result), text(result), 1 if result.failed or result.failed_before else 0)


def _calibrate(arguments: argparse.Namespace) -> Answer:
    from frost.workflows.calibrate import as_json, calibrate_run, text

    result = calibrate_run(arguments.run, arguments.data, arguments.policy, arguments.download)
    return Answer(as_json(result), text(result))


def _bench(arguments: argparse.Namespace) -> Answer:
    from frost.workflows.bench import as_json, bench, text

    result = bench(arguments.model, arguments.batch, arguments.precision, arguments.mean_depth, arguments.executor,
                   arguments.rounds, arguments.seed)
    return Answer(as_json(result), text(result))


def _reproduce(arguments: argparse.Namespace) -> Answer:
    from frost.workflows import reproduce as kit
    from frost.workflows.kit.scales import scale_of

    scale = scale_of(arguments.scale)
    if arguments.plan:
        what = kit.plan(scale, arguments.out, arguments.data, arguments.only)
        return Answer(kit.plan_json(what), kit.plan_text(what))
    result = kit.reproduce(scale, arguments.out, arguments.data, arguments.only, arguments.resume,
                           ("frost", *arguments.words))
    return Answer(result.results, kit.text(result))


def _analyze(arguments: argparse.Namespace) -> Answer:
    from frost.workflows.analyze import analyze, as_json, text

    result = analyze(arguments.run, arguments.data, arguments.download)
    return Answer(as_json(result), text(result))


def _describe(arguments: argparse.Namespace) -> Answer:
    from frost.workflows.describe import as_json, as_text, describe, describe_run, is_run, run_json, run_text

    if is_run(arguments.model):
        facts = describe_run(arguments.model, arguments.assignments)
        return Answer(run_json(facts), run_text(facts))
    ours, paper, config = describe(arguments.model, arguments.assignments)
    return Answer(as_json(arguments.model, ours, paper), as_text(arguments.model, ours, paper, config))


VERBS = {
    "demo": Verb("the whole story on data that comes with the package", _demo, options.demo_options),
    "recipes": Verb("named runs, one line each; or every setting of one", _recipes, options.recipes_options, False),
    "train": Verb("train a recipe's model, or go on with it", _train, options.train_options),
    "launch": Verb("train with several processes, and go on when one of them dies", _launch, options.launch_options,
                   False),
    "calibrate": Verb("gather a stopping rule's scores on held-out images, and keep them in the run", _calibrate,
                      options.calibrate_options, False),
    "evaluate": Verb("accuracy and depth of a run at several quantiles, and after each step", _evaluate,
                     options.evaluate_options, False),
    "predict": Verb("the class of each image, and the steps it took", _predict, options.predict_options, False),
    "bench": Verb("images per second beside the full-depth loop, and what is realised of the ideal", _bench,
                  options.bench_options, False),
    "analyze": Verb("similarity of states, dimension of paths and contraction of a run's step", _analyze,
                    options.analyze_options, False),
    "reproduce": Verb("every table and figure of the paper, beside the paper's numbers", _reproduce,
                      options.reproduce_options, False),
    "describe": Verb("parameters and FLOPs of a model or a run, once per image and per step", _describe,
                     options.describe_options),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `frost` and `python -m frost`."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")    # a terminal without Greek letters still gets the numbers
    if words and not words[0].startswith("-") and words[0] not in VERBS:
        return _complain(f"there is no verb '{words[0]}'. {suggest(words[0], VERBS)}", 2)
    arguments = parser().parse_args(words)
    arguments.words = words
    if arguments.version:
        from importlib.metadata import version
        return _printed(f"frost {version('frost-ssm')}")
    if arguments.verb is None:
        parser().print_help()
        return 0
    keep_pages()
    if getattr(arguments, "device", None):
        os.environ["FROST_DEVICE"] = arguments.device    # what `auto` means from here on, also in processes of ours
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: say(f"frost: {message}.")
        status = _carried_out(VERBS[arguments.verb], arguments)
    if argv is None and status > 128:
        signal.signal(status - 128, signal.SIG_IGN)    # the same wish again must not change how the process ends
    return status


def _carried_out(verb: Verb, arguments: argparse.Namespace) -> int:
    """Call the workflow, print its answer, and turn what may go wrong into an exit status."""
    try:
        answer = verb.action(arguments)
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
        if type(error).__name__ in ("PeerLost", "EndedElsewhere"):    # by name: most verbs do without torch
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
