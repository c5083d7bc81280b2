"""The command line as a user meets it: real processes, real exit codes."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

QUICK = ["--set", "train.epochs=1", "model.depth=3", "model.channels=16"]


def frost(*words: str, cwd=None) -> subprocess.CompletedProcess:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-m", "frost", *words], capture_output=True, text=True, cwd=cwd, timeout=110,
                          env=environment)


def assert_one_line_mistake(done: subprocess.CompletedProcess, *parts: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("frost")
    for part in parts:
        assert part in done.stderr


def test_describe_prints_the_agreed_keys():
    done = frost("describe", "vanilla-vit-b16", "--json")
    ours = json.loads(done.stdout)
    keys = {"parameters", "parameters_without_head", "flops_once", "flops_per_step", "depth", "flops_full_depth"}
    assert keys <= set(ours)
    assert ours["parameters_without_head"] == pytest.approx(85.80e6, abs=1e4)
    assert ours["paper"]["parameters"] == 85.80e6


def test_describe_prints_a_table_with_the_papers_figure():
    done = frost("describe", "recurrent-vit-b16")
    assert done.returncode == 0
    assert "7.83 M   7.83 M" in done.stdout
    assert "\x1b" not in done.stdout


def test_describe_takes_fields_with_and_without_the_group():
    short, long = (frost("describe", "frost-vit-8px", "--json", "--set", text) for text in ("depth=3", "model.depth=3"))
    assert json.loads(short.stdout) == json.loads(long.stdout)
    assert json.loads(short.stdout)["depth"] == 3


MISTAKES = {
    "unknown verb": (["describ", "x"], ["no verb 'describ'", "Did you mean 'describe'?"]),
    "unknown model": (["describe", "frost-vit-b61"], ["Did you mean 'frost-vit-b16'?"]),
    "unknown field": (["describe", "frost-vit-b16", "--set", "model.hurt=0.2"], ["Did you mean 'hurst'?"]),
    "unknown group": (["demo", "--set", "trian.epochs=3"], ["Did you mean 'train'?"]),
    "depth 0": (["demo", "--set", "model.depth=0"], ["depth must be at least 1"]),
    "H above 1": (["describe", "frost-vit-b16", "--set", "model.hurst=1.5"], ["hurst must lie in [0, 1]"]),
    "H below 0": (["demo", "--set", "model.hurst=-0.5"], ["hurst must lie in [0, 1]"]),
    "wrong channels": (["demo", "--set", "model.image_channels=3"], ["1×8×8 images"]),
    "too few classes": (["demo", "--set", "model.classes=5"], ["10 classes"]),
    "no model": (["describe"], ["required: MODEL"]),
    "unknown option": (["demo", "--epochs", "3"], ["unrecognized arguments: --epochs 3"]),
    "negative seed": (["demo", "--seed", "-1"], ["seed must not be negative"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_with_status_two(mistake, tmp_path):
    words, parts = MISTAKES[mistake]
    assert_one_line_mistake(frost(*words, cwd=tmp_path), *parts)
    assert list(tmp_path.iterdir()) == []


def test_an_output_folder_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    assert_one_line_mistake(frost("demo", "--out", str(tmp_path / "thesis"), *QUICK), "holds something else")
    assert [file.name for file in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]


def test_help_is_for_everybody():
    assert "demo" in frost("--help").stdout
    assert "--out" in frost("demo", "--help").stdout
    assert frost().returncode == 0
    assert frost("--version").stdout.startswith("frost 0.")


@pytest.mark.slow
def test_ctrl_c_leaves_nothing_half_written(tmp_path):
    process = subprocess.Popen([sys.executable, "-m", "frost", "demo", "--out", str(tmp_path / "run")],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(8)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(tmp_path):
    process = subprocess.Popen([sys.executable, "-m", "frost", "describe", "frost-vit-8px"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    errors = process.stderr.read()
    assert process.wait(timeout=60) == 0
    assert errors == ""
