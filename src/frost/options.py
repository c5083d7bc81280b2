"""The options of each verb: names, defaults and help texts."""

from __future__ import annotations

import argparse
from pathlib import Path


def demo_options(words: argparse.ArgumentParser) -> None:
    """Of `frost demo`."""
    words.add_argument("data", nargs="?", choices=("addition", "mazes", "digits"), default="addition",
                       help="what it is about (default: %(default)s)")
    _add_device(words)
    words.add_argument("--out", type=Path, default=Path("runs/demo"), metavar="DIR",
                       help="folder for the run and its picture (default: %(default)s)")


def recipes_options(words: argparse.ArgumentParser) -> None:
    """Of `frost recipes`."""
    words.add_argument("recipe", nargs="?", metavar="RECIPE", help="show every setting of this one, with its help")


def train_options(words: argparse.ArgumentParser) -> None:
    """Of `frost train`."""
    _add_device(words)
    words.add_argument("recipe", metavar="RECIPE", help="such as digits or cifar100-cpu; `frost recipes` lists them")
    words.add_argument("--out", type=Path, required=True, metavar="RUN", help="folder for the run")
    _add_data(words)
    words.add_argument("--from", dest="source", metavar="RUN",
                       help="begin with the weights of another run: a folder, or the name of one that comes with us")
    words.add_argument("--resume", action="store_true",
                       help="go on from the newest checkpoint in RUN; start if there is none")
    words.add_argument("--tensorboard", action="store_true", help="write event files to RUN/tensorboard as well")


def launch_options(words: argparse.ArgumentParser) -> None:
    """Of `frost launch`."""
    words.add_argument("-n", "--processes", type=int, required=True, metavar="N", help="processes on this machine")
    words.add_argument("--retries", type=int, default=3, metavar="N",
                       help="times to go on with --resume after a process has died (default: %(default)s)")
    words.add_argument("command", nargs=argparse.REMAINDER, metavar="train …", help="what each of them runs")


def _add_device(words: argparse.ArgumentParser) -> None:
    words.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"),
                       help="where the model runs (default: auto, a GPU if there is one; untested on GPUs)")


def _add_data(words: argparse.ArgumentParser) -> None:
    words.add_argument("--data", type=Path, metavar="DIR", help="folder with the data set (default: the cache folder)")
    words.add_argument("--download", action="store_true", help="fetch a public data set that is missing")


def evaluate_options(words: argparse.ArgumentParser) -> None:
    """Of `frost evaluate`."""
    _add_device(words)
    words.add_argument("run", metavar="RUN", help="folder of a run, or the name of one that comes with the package")
    _add_data(words)
    words.add_argument("--quantiles", type=float, nargs="+", metavar="Q",
                       help="of the halting score, in [0, 1]; 1 is full depth (default: those of the paper's Table 2)")
    words.add_argument("--policy", nargs="+", metavar="RULE",
                       help="stopping rules to compare at equal mean depth, such as rank confidence; or all")
    words.add_argument("--frontier", nargs="*", metavar="OTHER",
                       help="quality against mean FLOPs, adaptive and at fixed depth, beside that of other runs")
    words.add_argument("--figure", type=Path, default=Path("frontier.png"), metavar="FILE",
                       help="where --frontier is drawn (default: %(default)s)")
    words.add_argument("--split", choices=("test", "validation"), default="test",
                       help="images to measure on (default: %(default)s); choose settings on validation")


def predict_options(words: argparse.ArgumentParser) -> None:
    """Of `frost predict`."""
    _add_device(words)
    words.add_argument("run", metavar="RUN", help="folder of a run, or the name of one that comes with the package")
    words.add_argument("files", type=Path, nargs="*", metavar="FILE", help="PNG, JPEG or WebP images, or folders")
    words.epilog = ("Exit status: 0 if every file has an answer, 1 if some have none, 2 if none has one or the command "
                    "is mistaken; the same with --out, where lines of an earlier run count as well.")
    words.add_argument("--list", type=Path, metavar="FILE", dest="listed",
                       help="a file with one path a line, or a pipe such as /dev/stdin")
    words.add_argument("--out", type=Path, metavar="FILE",
                       help="write answers to a .csv or .jsonl file as they come; if it is there, go on from it")
    budget = words.add_mutually_exclusive_group()
    budget.add_argument("--quantile", type=float, metavar="Q", help="stop each image by the run's rule")
    budget.add_argument("--mean-depth", type=float, metavar="D", help="the same, for D steps an image in the mean")
    budget.add_argument("--accuracy-loss", type=float, metavar="P",
                        help="the same, losing at most P points with 95 %% confidence")
    budget.add_argument("--depth", type=int, metavar="T", help="stop every image after T steps (default: full depth)")
    words.add_argument("--batch", type=int, default=64, metavar="B", help="images at a time (default: %(default)s)")


def calibrate_options(words: argparse.ArgumentParser) -> None:
    """Of `frost calibrate`."""
    _add_device(words)
    words.add_argument("run", metavar="RUN", help="folder of a run")
    _add_data(words)
    words.add_argument("--policy", metavar="RULE",
                       help="the signal to stop by (default: compare rank, confidence, margin and entropy)")


def bench_options(words: argparse.ArgumentParser) -> None:
    """Of `frost bench`."""
    _add_device(words)
    words.add_argument("model", metavar="RUN|MODEL", help="folder or name of a run, or a model such as frost-vit-b16")
    words.add_argument("--batch", type=int, nargs="+", default=[1, 8, 64, 256], metavar="B",
                       help="images that run together (default: 1 8 64 256)")
    words.add_argument("--precision", nargs="+", choices=("float32", "bf16"), default=["float32"],
                       help="default: float32")
    words.add_argument("--executor", nargs="+", choices=("masked", "compact", "refill"),
                       default=["masked", "compact", "refill"], help="default: all three")
    words.add_argument("--mean-depth", type=float, metavar="D",
                       help="default: half of a run's depth, or the paper's for an untrained model")
    words.add_argument("--rounds", type=int, default=2, help="of which the best counts (default: %(default)s)")
    words.add_argument("--seed", type=int, default=0, help="of images, weights and depths (default: %(default)s)")


def reproduce_options(words: argparse.ArgumentParser) -> None:
    """Of `frost reproduce`."""
    _add_device(words)
    words.add_argument("--scale", required=True, choices=("smoke", "cpu", "paper"),
                       help="smoke: digits, minutes; cpu: CIFAR-100, hours; paper: the original settings, for a GPU")
    words.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for report, figures and runs")
    words.add_argument("--data", type=Path, metavar="DIR", help="folder with the data set (default: the cache folder)")
    words.add_argument("--only", nargs="+", metavar="NAME", help="sections, such as halting collapse (default: all)")
    words.add_argument("--plan", action="store_true", help="say what would be done and how long it takes; do nothing")
    words.add_argument("--resume", action="store_true", help="go on with what is in DIR")


def analyze_options(words: argparse.ArgumentParser) -> None:
    """Of `frost analyze`."""
    _add_device(words)
    words.add_argument("run", metavar="RUN", help="folder of a run, or the name of one that comes with the package")
    _add_data(words)


def describe_options(words: argparse.ArgumentParser) -> None:
    """Of `frost describe`."""
    words.add_argument("model", metavar="MODEL|RUN",
                       help="for instance frost-vit-b16, vanilla-resnet50, basic-ssm-vit-32px; or folder or name of a "
                            "run")
