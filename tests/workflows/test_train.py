"""`frost train`: runs that end, are interrupted, killed, continued and refused; real processes and signals."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch

from frost.checkpoint import load, weights_hash
from frost.cli import main
from frost.training.logbook import read

SMALL = ("--set", "train.epochs=2", "train.batch=256", "train.average=0.9", "model.depth=3", "model.channels=16",
         "model.bottleneck=8")


def run(*words):
    return main([*map(str, words)])


def process(*words):
    return subprocess.Popen([sys.executable, "-m", "frost", *map(str, words)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "whole"
    child = process("train", "digits", "--out", out, *SMALL, "train.epochs=6", "train.save_every=2")
    assert child.wait() == 0, child.stderr.read()
    return out


def test_a_training_leaves_a_run_with_logbook_calibration_and_origin(tmp_path, capsys):
    assert run("train", "digits", "--out", tmp_path / "r", *SMALL, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    entries = read(tmp_path / "r" / "logbook.jsonl")
    assert [entry["step"] for entry in entries] == list(range(1, 11))     # 1,078 images, five batches, two epochs
    assert {"epoch", "loss", "scale", "learning_rate", "easy_score", "median_score"} <= entries[0].keys()
    assert all(len(entry["accuracy_per_step"]) == 3 for entry in entries)
    validations = read(tmp_path / "r" / "validation.jsonl")
    assert [(entry["step"], entry["epoch"], len(entry["accuracy"])) for entry in validations] == [(5, 1, 3), (10, 2, 3)]
    saved = load(tmp_path / "r")
    assert saved.calibration is not None
    assert saved.config["classes"] == list("0123456789")
    assert answer["validation_accuracy"] == validations[-1]["accuracy"]
    assert answer["steps"] == 10
    assert "frost train digits" in json.loads((tmp_path / "r" / "origin.json").read_text())["command"]


def test_the_kept_weights_are_the_averaged_ones(tmp_path):
    run("train", "digits", "--out", tmp_path / "mean", *SMALL)
    run("train", "digits", "--out", tmp_path / "last", *SMALL, "train.average=0")
    assert weights_hash(load(tmp_path / "mean").model) != weights_hash(load(tmp_path / "last").model)
    assert [entry["loss"] for entry in read(tmp_path / "mean" / "logbook.jsonl")] == [
        entry["loss"] for entry in read(tmp_path / "last" / "logbook.jsonl")]     # averaging does not touch training


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_and_continued_is_bit_for_bit_the_undisturbed_run(tmp_path, undisturbed, seed):
    out = tmp_path / "killed"
    words = ("train", "digits", "--out", out, "--resume", *SMALL, "train.epochs=6", "train.save_every=2")
    generator = random.Random(seed)
    for _ in range(2):
        child = process(*words)
        until, steps = time.monotonic() + 60, generator.randint(3, 12)
        while child.poll() is None and time.monotonic() < until and len(read(out / "logbook.jsonl")) < steps:
            time.sleep(0.01)
        child.kill()
        child.communicate()
    child = process(*words)
    assert child.wait() == 0, child.stderr.read()
    assert read(out / "logbook.jsonl") == read(undisturbed / "logbook.jsonl")
    assert weights_hash(load(out).model) == weights_hash(load(undisturbed).model)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_prints_the_command_that_goes_on(tmp_path, undisturbed, number, status):
    out = tmp_path / "stopped"
    child = process("train", "digits", "--out", out, *SMALL, "train.epochs=6", "train.save_every=2")
    while child.poll() is None and len(read(out / "logbook.jsonl")) < 4:
        time.sleep(0.01)
    child.send_signal(number)
    _, complaint = child.communicate(timeout=60)
    assert child.returncode == status
    last = complaint.strip().splitlines()[-1]
    assert "nothing is lost" in last
    command = last.partition("To go on: ")[2]
    assert command.startswith("frost train digits")
    assert command.endswith("--resume")
    done = len(read(out / "logbook.jsonl"))
    assert f"after step {done};" in last
    again = subprocess.run([sys.executable, "-m", *command.split()], capture_output=True, text=True, check=False,
                           env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert again.returncode == 0, again.stderr
    assert read(out / "logbook.jsonl") == read(undisturbed / "logbook.jsonl")


def test_resume_starts_a_run_that_is_not_there_and_leaves_one_that_has_ended(tmp_path, capsys):
    out = tmp_path / "r"
    out.mkdir()    # an empty folder is as good as none
    assert run("train", "digits", "--out", out, "--resume", *SMALL) == 0
    before = weights_hash(load(out).model)
    capsys.readouterr()
    assert run("train", "digits", "--out", out, "--resume", *SMALL) == 0
    assert "had ended before" in capsys.readouterr().out
    assert weights_hash(load(out).model) == before


def test_folders_that_hold_something_else_are_refused(tmp_path, capsys):
    out = tmp_path / "r"
    assert run("train", "digits", "--out", out, *SMALL) == 0
    assert run("train", "digits", "--out", out, *SMALL) == 2
    assert "has ended; choose another --out" in capsys.readouterr().err
    assert run("train", "digits", "--out", out, "--resume", *SMALL, "train.seed=1") == 2
    assert "its train.seed is 0, here it is 1" in capsys.readouterr().err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    assert run("train", "digits", "--out", tmp_path / "mine", "--resume") == 2
    assert "no run" in capsys.readouterr().err
    assert run("train", "cifar100-cpu", "--out", tmp_path / "new", "--data", tmp_path) == 2
    told = capsys.readouterr().err
    assert "cifar-100-python" in told
    assert "toronto.edu" in told
    assert "--data DIR" in told
    assert not (tmp_path / "new").exists()


def test_a_run_of_another_recipe_is_refused(tmp_path, capsys):
    assert run("train", "digits", "--out", tmp_path / "r", *SMALL) == 0
    assert run("train", "cifar100-cpu", "--out", tmp_path / "r", "--resume") == 2
    assert "another run" in capsys.readouterr().err


def test_two_processes_cannot_train_in_one_folder(tmp_path):
    out = tmp_path / "r"
    first = process("train", "digits", "--out", out)
    while first.poll() is None and len(read(out / "logbook.jsonl")) < 2:
        time.sleep(0.05)
    second = process("train", "digits", "--out", out, "--resume")
    _, complaint = second.communicate(timeout=60)
    first.kill()
    first.communicate()
    assert second.returncode == 2
    assert "another process is training" in complaint


def test_a_model_that_does_not_fit_the_data_is_told_what_to_set(tmp_path, capsys):
    assert run("train", "digits", "--out", tmp_path / "r", "--set", "model.classes=12") == 2
    assert "--set model.classes=10 makes it fit" in capsys.readouterr().err


def test_a_baseline_is_one_setting_away(tmp_path):
    for name in ("vanilla", "recurrent", "basic-ssm"):
        assert run("train", "digits", "--out", tmp_path / name, *SMALL, "train.epochs=1",
                   f"model.architecture={name}") == 0
        assert read(tmp_path / name / "logbook.jsonl")[0]["scale"] is None


def test_scores_streamed_in_the_last_epoch_survive_an_interruption(tmp_path):
    """halting.calibrate=last-epoch, the paper's §4.4, needs what was seen before the kill as well."""
    words = ("train", "digits", "--resume", *SMALL, "halting.calibrate=last-epoch", "train.save_every=1")
    assert run(*words, "--out", tmp_path / "whole") == 0
    child = process(*words, "--out", tmp_path / "r")
    while child.poll() is None and len(read(tmp_path / "r" / "logbook.jsonl")) < 8:
        time.sleep(0.01)
    child.kill()
    child.communicate()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert run(*words, "--out", tmp_path / "r") == 0
    finally:
        torch.set_num_threads(threads)
    one, two = (load(tmp_path / name).calibration for name in ("whole", "r"))
    assert one.to_dict() == two.to_dict()
