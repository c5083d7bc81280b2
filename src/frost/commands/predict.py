"""`frost predict RUN IMAGE…`: what a run sees in image files, and how many steps it took for each.

Images are decoded by threads while the engine runs, a few batches ahead and no further, so that a million files need no
more memory than a hundred.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from frost.checkpoint import Run, load, weights_hash
from frost.commands import on_ray
from frost.commands.common import RUN_HELP, Reply, add_device, check_between
from frost.data.catalogue import PROBLEMS
from frost.data.filelist import Failure, asked_files, count_files
from frost.evaluation.budget import Budget, is_calibrated, policy_of, shown
from frost.halting.drift import Watch
from frost.halting.stopping import Rule, StoppingRule
from frost.interrupt import Stopped, StopRequest, stop_requests
from frost.report.progress import progress
from frost.report.tables import percent, table
from frost.runtime.answerfile import AnswerFile
from frost.runtime.image_files import Answer, answered
from frost.training.settings import LARGEST_BATCH


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost predict`."""
    add_device(parser)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE", help="PNG, JPEG or WebP images, or folders")
    parser.epilog = ("Exit status: 0 if every file has an answer, 1 if some have none, 2 if none has one or the "
                     "command is mistaken; the same with --out, where lines of an earlier run count as well.")
    parser.add_argument("--list", type=Path, metavar="FILE", dest="listed",
                        help="a file with one path a line, or a pipe such as /dev/stdin")
    parser.add_argument("--out", type=Path, metavar="FILE",
                        help="write answers to a .csv or .jsonl file as they come; if it is there, go on from it")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--quantile", type=float, metavar="Q", help="stop each image by the run's rule")
    budget.add_argument("--mean-depth", type=float, metavar="D", help="the same, for D steps an image in the mean")
    budget.add_argument("--accuracy-loss", type=float, metavar="P",
                        help="the same, losing at most P points with 95 %% confidence")
    budget.add_argument("--depth", type=int, metavar="T", help="stop every image after T steps (default: full depth)")
    parser.add_argument("--batch", type=int, default=64, metavar="B", help="images at a time (default: %(default)s)")
    on_ray.add_arguments(parser)


def run(options: argparse.Namespace) -> Reply:
    """Classify the files."""
    if options.ray is not None:
        return on_ray.run(options)
    if options.actors is not None or options.block is not None:
        raise ValueError("--actors and --block belong to --ray.")
    budget = Budget(options.quantile, options.mean_depth, options.accuracy_loss, options.depth)
    result = predict(options.run, options.files, budget, batch=options.batch, out=options.out, listed=options.listed)
    return Reply(as_json(result), text(result), 1 if result.failed or result.failed_before else 0)


class Predictions(NamedTuple):
    """What a run answered."""

    run: str
    depth: int                    # T
    budget: Budget
    threshold: float | None       # None where no score stops an image, or each step has its own
    rows: list[Answer | Failure]     # in the order of the files; empty if they were written to a file
    images: int                   # answered
    failed: int
    mean_depth: float             # of those answered
    seconds: float
    out: Path | None = None
    before: int = 0               # lines that an earlier run wrote, if this one went on from it
    failed_before: int = 0        # of which these hold no answer
    has_drifted: bool | None = None    # whether scores are unlike the calibration's; None if nothing was compared
    only_step: int | None = None       # after which a mean depth stops every image; None if a signal decides


def predict(run_path: Path | str, files: Sequence[Path], budget: Budget = Budget(), *,  # noqa: B008 - a tuple
            batch: int = 64, out: Path | None = None, listed: Path | None = None) -> Predictions:
    """Classify PNG, JPEG and WebP files; one that cannot be read is a row with an error and stops no other.

    Args:
        run_path: a folder, or the name of a run that comes with the package.
        files: a folder stands for the images in it and in the folders below, in the order of their names.
        batch: images that run together, always that many, whatever is left over.
        out: a .csv or .jsonl file for the answers; if it is there, those that are missing are added.
        listed: a file with one path a line, for more files than a command line takes.
    """
    started = time.monotonic()
    check_between("--batch", batch, 1, LARGEST_BATCH)
    run = _reading_images(run_path)
    policy = policy_of(run, budget)
    rows: list[Answer | Failure] = []
    totals, watch = _Totals(), _watch(run, policy)
    with ExitStack() as stack:
        request = StopRequest()
        count, names = _asked(files, listed, lambda: bool(request))
        answers, before, failed_before = None, 0, 0
        if out is not None:
            answers = stack.enter_context(AnswerFile(out, _origin(run, run_path, policy, batch)))
            names, before, failed_before = answers.skip_done(names, _name)
        request = stack.enter_context(stop_requests())    # until here a signal ends it at once, for nothing can be lost
        report = stack.enter_context(progress("predicting", count, before))
        keep = rows.append if answers is None else lambda row: answers.add(row.to_json())
        for row in answered(run, names, policy, batch, request, watch):
            totals.add(row)
            keep(row)
            report(before + totals.count, "")
        if request:
            raise Stopped(_stopped(before + totals.count, out), request.number)
    failed = failed_before + totals.failed
    if failed and failed == before + totals.count:
        raise ValueError(_none_answered(failed, totals.first_error, out))
    threshold = policy.threshold if isinstance(policy, Rule) else None
    return Predictions(shown(run_path, run), run.model.depth, budget, threshold, rows, totals.images, totals.failed,
                       totals.steps / max(totals.images, 1), time.monotonic() - started, out, before,
                       failed_before, None if watch is None else watch.has_drifted,
                       None if budget.mean_depth is None else _only_step(policy, run.model.depth))


def _only_step(policy: StoppingRule, depth: int) -> int | None:
    """The step after which a rule stops every image, whatever its signal says; None if images may differ."""
    if not isinstance(policy, Rule) or not all(map(math.isinf, policy.thresholds)):
        return None
    return policy.thresholds.index(-math.inf) + 1 if -math.inf in policy.thresholds else depth


def _reading_images(run_path: Path | str) -> Run:
    """The run, if it takes image files."""
    run = load(run_path, device="auto")
    if run.config.get("data") in PROBLEMS:
        raise ValueError(f"{run_path} solves problems that are made by code, and predict reads image files; in Python: "
                         f"frost.Engine(run.model, run.calibration.at_mean_depth(7)).run(problems).")
    return run


def as_json(result: Predictions) -> dict[str, Any]:
    """One object; a row is an answer or has the key `error`."""
    return {"run": result.run, "depth": result.depth, "quantile": result.budget.quantile,
            "budget": result.budget._asdict(), "threshold": result.threshold, "images": result.images,
            "failed": result.failed, "mean_depth": result.mean_depth, "rows": [row.to_json() for row in result.rows],
            "out": None if result.out is None else str(result.out), "before": result.before,
            "failed_before": result.failed_before, "has_drifted": result.has_drifted, "seconds": result.seconds}


def text(result: Predictions) -> str:
    """The same for a person."""
    images = "1 image" if result.images == 1 else f"{result.images:,} images"
    asked = next((f" · {name.replace('_', ' ')} {value:g}" for name, value in result.budget._asdict().items()
                  if value is not None), "")
    head = f"{result.run} · {images}{asked or ' · full depth'} · mean depth {result.mean_depth:.2f} of {result.depth}"
    if result.only_step is not None:
        head += ("\nAt this budget the calibration has nothing better than fixed depth: every image stops after step "
                 f"{result.only_step}.")
    drift = ("\nThe scores of these images are unlike those of the held-out ones that the thresholds come from: "
             "calibrate on images like these." if result.has_drifted else "")
    if result.out is not None:
        rate = (result.images + result.failed) / max(result.seconds, 1e-9)
        more = f"; {result.before:,} were there before" if result.before else ""
        answers = f"answers in {result.out}{more}{drift}"
        return f"{head}\n{result.failed:,} without an answer · {rate:.0f} images/s · {answers}"
    body = [[_printable(row.file), _printable(row.name), percent(row.confidence), str(row.depth), f"{row.score:.3f}"]
            if isinstance(row, Answer) else [_printable(row.file), "no answer", "", "", ""] for row in result.rows]
    errors = [f"no answer: {_printable(row.error)}" for row in result.rows if isinstance(row, Failure)]
    return "\n".join([head, "", table(["file", "class", "confidence", "depth", "score"], body),
                      *(["", *errors] if errors else [])]) + drift


class _Totals:
    """What is printed in the end, without keeping the rows."""

    def __init__(self) -> None:
        self.images = self.failed = self.steps = 0
        self.first_error = ""

    @property
    def count(self) -> int:
        return self.images + self.failed

    def add(self, row: Answer | Failure) -> None:
        if isinstance(row, Answer):
            self.images += 1
            self.steps += row.depth
        else:
            self.first_error = self.first_error or row.error
            self.failed += 1


def _watch(run: Run, policy: StoppingRule) -> Watch | None:
    """Compares the scores with the calibration's, where images stop by them."""
    if run.calibration is None or not isinstance(policy, Rule) or not is_calibrated(run):
        return None
    return Watch(run.calibration, policy) if policy.name in run.calibration.signals and run.model.stationary else None


def _origin(run: Run, run_path: Path | str, policy: StoppingRule, batch: int) -> dict[str, Any]:
    """What answers depend on."""
    return {"run": str(run_path), "weights": weights_hash(run.model), "policy": str(policy), "batch": batch}


def _asked(files: Sequence[Path], listed: Path | None,
           is_over: Callable[[], bool]) -> tuple[int | None, Iterator[str | Failure]]:
    """How many files are asked for, if that can be known, and which; none at all is a mistake."""
    count = count_files(files, listed)
    names = asked_files(files, listed, is_over)
    first = next(names, None)    # of a list that is read once, there is no other way to know
    if first is None:
        raise ValueError("there is nothing to predict; name at least one image file or folder.")
    return count, chain([first], names)


def _stopped(count: int, out: Path | None) -> str:
    kept = "nothing is kept" if out is None else f"{count:,} answers are in {out}; the same command goes on"
    return f"stopped; {kept}."


def _none_answered(failed: int, first_error: str, out: Path | None) -> str:
    if out is not None:
        return f"none of {failed} files gave an answer; {out} says why."
    return first_error if failed == 1 else f"none of {failed} files gave an answer; of the first: {first_error}"


def _name(file: str | Failure) -> str:
    return file.file if isinstance(file, Failure) else file


def _printable(words: object) -> str:
    """Without line breaks and control codes, which the name of a file may hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(words))
