"""The command line as a user meets it; in this process where that is the same, in real ones where it is not."""

import errno
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import pytest
from PIL import Image

from frost.checkpoint import load, pretrained, save
from frost.cli import main

QUICK = ["--set", "train.epochs=1", "model.depth=3", "model.channels=16"]


class Done(NamedTuple):
    status: int
    stdout: str
    stderr: str


@pytest.fixture
def frost(capsys, monkeypatch, tmp_path):
    """Run the command in an empty folder, in this process: status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Done:
        try:
            status = main(words)
        except SystemExit as leaving:
            status = int(leaving.code or 0)
        return Done(status, *capsys.readouterr())

    return run


def process(*words: str, **options) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-m", "frost", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, **options)


def assert_one_line_mistake(done: Done, *parts: str) -> None:
    assert done.status == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("frost")
    for part in parts:
        assert part in done.stderr


def test_describe_prints_the_agreed_keys(frost):
    done = frost("describe", "vanilla-vit-b16", "--json")
    ours = json.loads(done.stdout)
    keys = {"parameters", "parameters_without_head", "flops_once", "flops_per_step", "depth", "flops_full_depth"}
    assert keys <= set(ours)
    assert ours["parameters_without_head"] == pytest.approx(85.80e6, abs=1e4)
    assert ours["paper"]["parameters"] == 85.80e6
    assert ours["paper"]["flops_full_depth"] == 35.13e9


def test_describe_shows_the_papers_figures_beside_the_papers_models_only(frost):
    assert json.loads(frost("describe", "frost-vit-b16", "--json", "--set", "update=gated").stdout)["paper"]
    assert json.loads(frost("describe", "frost-vit-b16", "--json", "--set", "channels=384").stdout)["paper"] is None


def test_describe_counts_a_control_that_starts_folded(frost):
    done = frost("describe", "basic-ssm-folded-vit-8px", "--json")
    assert json.loads(done.stdout)["depth"] == 8


def test_describe_prints_a_table_with_the_papers_figure(frost):
    done = frost("describe", "recurrent-vit-b16")
    assert done.status == 0
    assert re.search(r"parameters without the head +7\.83 M +7\.83 M", done.stdout)
    assert "\x1b" not in done.stdout


def test_describe_takes_fields_with_and_without_the_group(frost):
    short, long = (frost("describe", "frost-vit-8px", "--json", "--set", text) for text in ("depth=3", "model.depth=3"))
    assert json.loads(short.stdout) == json.loads(long.stdout)
    assert json.loads(short.stdout)["depth"] == 3


def test_describe_takes_the_name_of_a_run(frost):
    ours = json.loads(frost("describe", "cifar100-cpu", "--json").stdout)
    assert (ours["run"], ours["recipe"], ours["data"], ours["depth"]) == ("cifar100-cpu", "cifar100-cpu",
                                                                         "cifar100", 3)
    assert ours["flops_full_depth"] == ours["flops_once"] + 3 * ours["flops_per_step"]
    assert ours["calibration"]["policy"] == "rank"
    assert ours["calibration"]["images"] == 5000
    assert len(ours["validation_accuracy"]) == 3


def test_describe_takes_the_folder_of_a_run(frost, mine, tmp_path):
    done = frost("describe", mine)
    assert done.stdout.startswith("mine · 1×8×8 images · 10 classes · depth 8, update residual")
    assert "recipe digits on digits, 680 steps, seed 0" in done.stdout
    assert "Calibrated on 179 held-out images, to stop by" in done.stdout
    assert re.search(r"validation accuracy at full depth +98\.32 %", done.stdout)
    (tmp_path / "frost-vit-8px").mkdir()    # a folder that happens to have a model's name
    assert "vit-8px · 1×8×8" in frost("describe", "frost-vit-8px").stdout


def test_describe_says_how_to_calibrate_a_run_and_what_nobody_wrote_down(frost, tmp_path):
    run = load("digits")
    save(tmp_path / "my run", run.model, {"model": run.config["model"]})
    done = frost("describe", "my run")
    assert "Not calibrated; to do so: frost calibrate 'my run'" in done.stdout
    assert json.loads(frost("describe", "my run", "--json").stdout)["validation_accuracy"] is None


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_a_long_description_hears_signals(number, status):
    words = process("describe", "vanilla-vit-8px", "--set", "model.depth=65536")
    time.sleep(6)
    assert words.poll() is None
    words.send_signal(number)
    _, errors = words.communicate(timeout=5)
    assert words.returncode == status
    assert "Traceback" not in errors


MISTAKES = {
    "unknown verb": (["describ", "x"], ["no verb 'describ'", "Did you mean 'describe'?"]),
    "unknown model": (["describe", "frost-vit-b61"], ["Did you mean 'frost-vit-b16'?"]),
    "unknown field": (["describe", "frost-vit-b16", "--set", "model.hurt=0.2"], ["Did you mean 'hurst'?"]),
    "unknown group": (["demo", "--set", "trian.epochs=3"], ["Did you mean 'train'?"]),
    "depth 0": (["demo", "--set", "model.depth=0"], ["depth must be at least 1"]),
    "H above 1": (["describe", "frost-vit-b16", "--set", "model.hurst=1.5"],
                  ["hurst must be at least 0 and at most 1"]),
    "H below 0": (["demo", "--set", "model.hurst=-0.5"], ["hurst must be at least 0 and at most 1"]),
    "wrong channels": (["demo", "--set", "model.image_channels=3"], ["model.image_channels is 3, but addition has 2"]),
    "too few classes": (["demo", "digits", "--set", "model.classes=5"], ["model.classes is 5, but digits has 10"]),
    "no model": (["describe"], ["required: MODEL|RUN"]),
    "absurd depth": (["describe", "frost-vit-b16", "--set", f"model.depth={10**14}"], ["at most 65,536"]),
    "absurd batch": (["demo", "--set", "train.batch=65537"], ["batch must be at least 1 and at most 65,536"]),
    "negative seed of a bench": (["bench", "frost-vit-8px", "--seed", "-5"], ["--seed must be at least 0", "got -5"]),
    "huge seed of a bench": (["bench", "frost-vit-8px", "--seed", str(2**70)], ["--seed must be"]),
    "no rounds": (["bench", "frost-vit-8px", "--rounds", "0"], ["--rounds must be at least 1"]),
    "absurd batch of a bench": (["bench", "frost-vit-8px", "--batch", "1", "65537"],
                                ["--batch must be at least 1 and at most 65,536"]),
    "settings for a run": (["describe", "digits", "--set", "model.depth=3"], ["--set changes a named model"]),
    "neither model nor run": (["describe", "digit"], ["no model or run 'digit'", "Did you mean 'digits'?"]),
    "unknown option": (["evaluate", "digits", "--epochs", "3"], ["unrecognized arguments: --epochs 3"]),
    "unknown demo": (["demo", "sums"], ["invalid choice: 'sums'"]),
    "negative seed": (["demo", "--set", "train.seed=-1"], ["seed must be at least 0"]),
    "huge seed": (["demo", "--set", f"train.seed={2**70}"], ["seed must be at least 0 and below"]),
    "another data set": (["demo", "--set", "data=cifar100"], ["data that come with the package"]),
    "heads that do not divide": (["describe", "frost-vit-8px", "--set", "model.heads=5"], ["multiple of heads"]),
    "negative width": (["describe", "frost-resnet-8px", "--set", "model.bottleneck=-1"],
                       ["bottleneck must be at least 0"]),
    "setting of another group": (["demo", "--set", "train.workers=2"], ["Did you mean 'runtime.workers'?"]),
    "unknown recipe": (["recipes", "digit"], ["no recipe 'digit'", "Did you mean 'digits'?"]),
    "absurd size": (["describe", "frost-vit-8px", "--set", "model.channels=4000000000"],
                    ["channels must be at least 1 and at most 1,048,576"]),
    "nowhere to write": (["demo", "--out", "/dev/null/run"], ["cannot be made"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_with_status_two(mistake, frost, tmp_path):
    words, parts = MISTAKES[mistake]
    assert_one_line_mistake(frost(*words), *parts)
    assert list(tmp_path.iterdir()) == []


def test_an_output_folder_that_holds_something_else_is_left_alone(frost, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    assert_one_line_mistake(frost("demo", "digits", "--out", str(tmp_path / "thesis"), *QUICK), "holds something else")
    assert [file.name for file in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]


def test_help_is_for_everybody(frost):
    assert "demo" in frost("--help").stdout
    assert "--out" in frost("demo", "--help").stdout
    assert frost().status == 0
    assert frost("--version").stdout.startswith("frost 0.")


@pytest.mark.slow
def test_a_mistake_in_a_real_process_has_status_two(tmp_path):
    words = process("describe", "frost-vitb16", cwd=tmp_path)
    output, errors = words.communicate(timeout=60)
    assert_one_line_mistake(Done(words.returncode, output, errors), "Did you mean 'frost-vit-b16'?")


@pytest.mark.slow
def test_ctrl_c_leaves_nothing_half_written(tmp_path):
    words = process("demo", "--out", str(tmp_path / "run"))
    first = words.stderr.readline()          # training is under way
    words.send_signal(signal.SIGINT)
    _, errors = words.communicate(timeout=30)
    assert first.startswith("training: ")
    assert words.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_demo_whose_progress_nobody_reads_still_finishes(tmp_path):
    with process("demo", "digits", "--out", str(tmp_path / "run"), *QUICK) as words:
        words.stderr.close()
        answer = words.stdout.read()
        assert words.wait(timeout=90) == 0
    assert "fixed depth" in answer
    assert (tmp_path / "run" / "MANIFEST.json").is_file()


def test_an_unforeseen_error_is_one_line_with_status_one(frost, monkeypatch):
    def breaks(*_: object) -> None:
        raise RuntimeError("out of memory\nwith details")

    monkeypatch.setattr("frost.commands.describe.describe", breaks)
    done = frost("describe", "frost-vit-8px")
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr == "frost: RuntimeError: out of memory (FROST_TRACEBACK=1 shows where)\n"


@pytest.mark.slow
def test_a_closed_pipe_is_no_error():
    with process("describe", "frost-vit-8px") as words:
        words.stdout.close()
        errors = words.stderr.read()
        assert words.wait(timeout=60) == 0
    assert errors == ""


@pytest.fixture
def mine(frost, tmp_path):
    """A copy of the run that comes with the package."""
    shutil.copytree(pretrained()["digits"], tmp_path / "mine")
    return "mine"


def test_calibrate_evaluate_and_bench_print_the_agreed_keys(frost, mine):
    calibrated = json.loads(frost("calibrate", mine, "--policy", "margin", "--json").stdout)
    assert (calibrated["policy"], calibrated["depth"]) == ("margin", 8)
    evaluated = json.loads(frost("evaluate", mine, "--policy", "margin", "--quantiles", "0.5", "--json").stdout)
    assert {"rows", "per_step_accuracy", "at_fraction", "oracle"} <= set(evaluated)
    timed = json.loads(frost("bench", mine, "--batch", "2", "--executor", "refill", "--rounds", "1", "--json").stdout)
    assert {row["executor"] for row in timed["rows"]} >= {"full", "refill"}


def test_predict_takes_a_budget_and_a_file_for_its_answers(frost, mine, tmp_path):
    Image.new("L", (8, 8)).save(tmp_path / "black.png")
    done = frost("predict", mine, "black.png", "--mean-depth", "4", "--out", "answers.csv")
    assert done.status == 0, done.stderr
    assert (tmp_path / "answers.csv").read_text().startswith("file,label,class")
    again = frost("predict", mine, "black.png", "--mean-depth", "4", "--out", "answers.csv", "--json")
    assert json.loads(again.stdout)["before"] == 1


@pytest.mark.parametrize(("words", "part"), [
    (("predict", "mine"), "nothing to predict"),
    (("predict", "mine", "x.png", "--quantile", "2"), "quantile must lie"),
    (("predict", "mine", "x.png", "--mean-depth", "99"), "between 1 and 8"),
    (("predict", "mine", "x.png", "--out", "answers.txt"), ".csv or .jsonl"),
    (("calibrate", "mine", "--policy", "luck"), "no stopping rule 'luck'"),
    (("calibrate", "digits"), "comes with the package"),
    (("evaluate", "mine", "--policy", "act"), "halting.objective"),
    (("bench", "frost-vit-b61"), "Did you mean"),
    (("bench", "vanilla-vit-8px"), "weights of its own"),
    (("bench", "mine", "--batch", "0"), "at least 1"),
])
def test_a_mistake_with_a_run_is_one_line(frost, mine, words, part):
    assert_one_line_mistake(frost(*words), part)


@pytest.mark.parametrize("out", [(), ("--out", "answers.csv"), ("--out", "answers.jsonl")])
def test_predict_ends_with_a_status_that_says_whether_all_some_or_no_file_has_an_answer(frost, mine, tmp_path, out):
    Image.new("L", (8, 8)).save(tmp_path / "good.png")
    for name in ("bad.png", "worse.png"):
        (tmp_path / name).write_text("no picture")
    for number, (files, status) in enumerate(((("good.png",), 0), (("good.png", "bad.png"), 1),
                                              (("bad.png",), 2), (("bad.png", "worse.png"), 2))):
        words = [word.replace("answers", f"answers-{number}") for word in out]
        assert frost("predict", mine, *files, *words).status == status
        again = frost("predict", mine, *files, *words)
        assert again.status == status
        assert ("good.png" in again.stdout or "answers" in again.stdout) == (status < 2)
    assert "Exit status: 0 if every file" in frost("predict", "--help").stdout


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["--version"], [], ["predict", "--help"], ["recipes"],
                                   ["describe", "frost-vit-8px", "--json"]], ids=" ".join)
def test_a_result_that_cannot_be_printed_is_one_line_with_status_one(words):
    with open("/dev/full", "w") as full:  # noqa: PTH123 - as a shell does
        done = subprocess.run([sys.executable, "-m", "frost", *words], stdout=full, stderr=subprocess.PIPE, text=True,
                              check=False)
    assert done.returncode == 1
    assert done.stderr == ("frost: the result could not be printed: No space left on device; send it somewhere "
                           "else.\n")


@pytest.mark.slow
def test_warnings_that_cannot_be_told_stop_nothing(mine, tmp_path):
    Image.new("L", (8, 8)).save(tmp_path / "black.png")
    with open("/dev/full", "w") as full:  # noqa: PTH123 - as a shell does
        done = subprocess.run([sys.executable, "-m", "frost", "predict", mine, "black.png", "--accuracy-loss", "0.01"],
                              cwd=tmp_path, stdout=subprocess.PIPE, stderr=full, text=True, check=False)
    assert done.returncode == 0
    assert "black.png" in done.stdout


@pytest.mark.slow
def test_a_list_comes_by_a_pipe(mine, tmp_path):
    Image.new("L", (8, 8)).save(tmp_path / "black.png")
    done = subprocess.run([sys.executable, "-m", "frost", "predict", mine, "--list", "/dev/stdin", "--json"],
                          input="black.png\nblack.png\n", cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["rows"]) == 2


def test_an_error_of_the_system_names_the_file_and_what_to_do(frost, monkeypatch):
    def breaks(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "here.json")

    monkeypatch.setattr("frost.commands.describe.describe", breaks)
    assert_one_line_mistake(frost("describe", "frost-vit-8px"), "frost: here.json: Read-only file system.",
                            "Choose another place")


def test_files_may_stand_before_and_behind_options():
    from pathlib import Path

    from frost.cli import parser

    for words in (["a.png", "b.png", "--depth", "2"], ["--depth", "2", "a.png", "b.png"],
                  ["a.png", "--depth", "2", "b.png"]):
        found = parser().parse_args(["predict", "run", *words])
        assert (found.run, found.files, found.depth) == ("run", [Path("a.png"), Path("b.png")], 2)


def test_an_unknown_option_among_files_is_one_line(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["predict", "run", "--dept", "2", "--colour", "a.png"])
    assert capsys.readouterr().err.count("\n") == 1


def test_recipes_shows_every_setting_of_one_with_its_help(frost):
    shown = json.loads(frost("recipes", "digits", "--json").stdout)
    lines = frost("recipes", "digits").stdout.splitlines()
    assert shown["recipe"] == "digits"
    assert {"path": "train.batch", "type": "whole number", "value": 64, "default": 64,
            "help": "inputs in a step, of each process"} in shown["settings"]
    for setting in shown["settings"]:
        assert any(line.startswith(f"{setting['path']} ") and setting["help"] in line for line in lines), setting


def test_recipes_shows_a_default_beside_what_differs_from_it_only(frost):
    lines = {line.split()[0]: line.split() for line in frost("recipes", "digits").stdout.splitlines() if line}
    assert lines["model.depth"][1:3] == ["8", "16"]
    assert lines["train.batch"][1:3] == ["64", "inputs"]
    assert lines["model.leaky"][1] == "false"
