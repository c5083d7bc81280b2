"""`frost train`: runs that end, are interrupted, killed, continued and refused; real processes and signals."""

import contextlib
import errno
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from frost.checkpoint import load, weights_hash
from frost.cli import main
from frost.config import override, to_dict
from frost.data.digits import load_digits
from frost.interrupt import SAME_REQUEST, stop_requests
from frost.recipes import recipe
from frost.training.logging import read_logbook
from frost.training.runfolder import begin, may_begin

LONGER = ("train.epochs=12", "runtime.save_every=2")
SMALL = ("--set", "train.epochs=2", "train.batch=256", "train.ema=0.9", "model.depth=3", "model.channels=16",
         "model.bottleneck=8")


def run(*words):
    return main([*map(str, words)])


def process(*words):
    return subprocess.Popen([sys.executable, "-m", "frost", *map(str, words)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "whole"
    child = process("train", "digits", "--out", out, *SMALL, *LONGER)
    _, complaint = child.communicate()
    assert child.returncode == 0, complaint
    return out


def wait_for(child, out, steps):
    """Until the run has taken so many steps; it must still be under way then."""
    until = time.monotonic() + 100
    while len(read_logbook(out / "logbook.jsonl")) < steps:
        assert child.poll() is None, child.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.01)


def validations_of(out):
    return [{**entry, "seconds": None} for entry in read_logbook(out / "validation.jsonl")]


def assert_same(one, two):
    assert read_logbook(one / "logbook.jsonl") == read_logbook(two / "logbook.jsonl")
    assert validations_of(one) == validations_of(two)
    assert weights_hash(load(one).model) == weights_hash(load(two).model)
    assert load(one).calibration.to_dict() == load(two).calibration.to_dict()


def test_a_training_leaves_a_run_with_logbook_calibration_and_origin(tmp_path, capsys):
    assert run("train", "digits", "--out", tmp_path / "r", *SMALL, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    entries = read_logbook(tmp_path / "r" / "logbook.jsonl")
    assert [entry["step"] for entry in entries] == list(range(1, 11))     # 1,078 images, five batches, two epochs
    assert {"epoch", "loss", "scale", "learning_rate", "easy_score", "median_score"} <= entries[0].keys()
    assert all(len(entry["accuracy_per_step"]) == 3 for entry in entries)
    validations = read_logbook(tmp_path / "r" / "validation.jsonl")
    assert [(entry["step"], entry["epoch"], len(entry["accuracy"])) for entry in validations] == [(5, 1, 3), (10, 2, 3)]
    saved = load(tmp_path / "r")
    assert saved.calibration is not None
    assert saved.config["classes"] == list("0123456789")
    assert answer["validation_accuracy"] == validations[-1]["accuracy"]
    assert answer["steps"] == 10
    assert "frost train digits" in json.loads((tmp_path / "r" / "origin.json").read_text())["command"]


def test_the_kept_weights_are_the_averaged_ones(tmp_path):
    run("train", "digits", "--out", tmp_path / "mean", *SMALL)
    run("train", "digits", "--out", tmp_path / "last", *SMALL, "train.ema=0")
    assert weights_hash(load(tmp_path / "mean").model) != weights_hash(load(tmp_path / "last").model)
    mean, last = (read_logbook(tmp_path / name / "logbook.jsonl") for name in ("mean", "last"))
    assert [entry["loss"] for entry in mean] == [entry["loss"] for entry in last]    # averaging does not touch training


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_and_continued_is_bit_for_bit_the_undisturbed_run(tmp_path, undisturbed, seed):
    out = tmp_path / "killed"
    words = ("train", "digits", "--out", out, "--resume", *SMALL, *LONGER)
    generator = random.Random(seed)
    for most in (15, 40):
        child = process(*words)
        wait_for(child, out, generator.randint(most - 12, most))
        child.kill()
        child.communicate()
        assert child.returncode == -signal.SIGKILL
        assert not (out / "MANIFEST.json").exists()
    child = process(*words)
    _, complaint = child.communicate()
    assert child.returncode == 0, complaint
    assert_same(out, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_prints_the_command_that_goes_on(tmp_path, undisturbed, number, status):
    out = tmp_path / "stopped"
    child = process("train", "digits", "--out", out, *SMALL, *LONGER)
    wait_for(child, out, 4)
    child.send_signal(number)
    _, complaint = child.communicate(timeout=60)
    assert child.returncode == status
    last = complaint.strip().splitlines()[-1]
    assert "nothing is lost" in last
    command = last.partition("To go on: ")[2]
    assert command.startswith("frost train digits")
    assert command.endswith("--resume")
    done = len(read_logbook(out / "logbook.jsonl"))
    assert f"after step {done};" in last
    again = subprocess.run([sys.executable, "-m", *command.split()], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert_same(out, undisturbed)


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
    complaint = capsys.readouterr().err
    assert "cifar-100-python" in complaint
    assert "toronto.edu" in complaint
    assert "--data DIR" in complaint
    assert not (tmp_path / "new").exists()


def test_a_run_of_another_recipe_is_refused(tmp_path, capsys):
    assert run("train", "digits", "--out", tmp_path / "r", *SMALL) == 0
    assert run("train", "cifar100-cpu", "--out", tmp_path / "r", "--resume") == 2
    assert "another run" in capsys.readouterr().err


@pytest.mark.slow
def test_two_processes_cannot_train_in_one_folder(tmp_path):
    out = tmp_path / "r"
    first = process("train", "digits", "--out", out)
    try:
        wait_for(first, out, 2)
        second = process("train", "digits", "--out", out, "--resume")
        _, complaint = second.communicate(timeout=100)
    finally:
        first.kill()
        first.communicate()
    assert second.returncode == 2
    assert "another process is training" in complaint


def test_a_model_that_does_not_fit_the_data_names_what_to_set(tmp_path, capsys):
    assert run("train", "digits", "--out", tmp_path / "r", "--set", "model.classes=12") == 2
    assert "--set model.classes=10 makes it fit" in capsys.readouterr().err


def test_a_baseline_is_one_setting_away(tmp_path):
    for name in ("vanilla", "recurrent", "basic-ssm"):
        assert run("train", "digits", "--out", tmp_path / name, *SMALL, "train.epochs=1",
                   f"model.architecture={name}") == 0
        assert read_logbook(tmp_path / name / "logbook.jsonl")[0]["scale"] is None


class Interrupting:
    """Asks a run to stop at its n-th look at the request, as a signal would."""

    def __init__(self, monkeypatch, looks):
        self.looks = looks
        monkeypatch.setattr("frost.training.run.stop_requests", lambda: contextlib.nullcontext(self))

    @property
    def number(self):
        self.looks -= 1
        return signal.SIGINT if self.looks == 0 else 0


def steps_before_stop(words, monkeypatch, looks):
    """Go on until the request is looked at so often, then to the end; whether it was stopped at all."""
    with monkeypatch.context() as patched:
        Interrupting(patched, looks)
        status = run(*words)
    assert run(*words) == 0
    return status == 130


@pytest.mark.parametrize("extra", [(), ("halting.refit=0", "halting.calibrate=last-epoch")])
def test_stopped_anywhere_it_goes_on_as_if_nothing_had_been(tmp_path, monkeypatch, extra):
    """In a step, inside a validation, after the last step, in the calibration: every place that looks for a request."""
    words = ("train", "digits", "--resume", *SMALL, "runtime.save_every=3", *extra)
    assert run(*words, "--out", tmp_path / "whole") == 0
    for looks in range(1, 40):
        out = tmp_path / f"stopped-{looks}"
        if not steps_before_stop((*words, "--out", out), monkeypatch, looks):
            break
        assert_same(out, tmp_path / "whole")
    assert looks > 12     # ten steps, two validations and the calibration at least


@pytest.mark.parametrize("name", ["weights.safetensors", "config.json", "calibration.json", "origin.json"])
def test_a_kill_while_the_run_is_finished_loses_nothing(tmp_path, monkeypatch, name):
    assert run("train", "digits", "--out", tmp_path / "whole", *SMALL) == 0
    original, out = Path.rename, tmp_path / "killed"

    def rename(self, target):
        if Path(target) == out / name:
            raise MemoryError("killed here")
        return original(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", rename)
        assert run("train", "digits", "--out", out, *SMALL) == 1
    assert not (out / "MANIFEST.json").exists()
    assert load(out).model is not None       # its last checkpoint
    assert run("train", "digits", "--out", out, "--resume", *SMALL) == 0
    assert_same(out, tmp_path / "whole")
    assert not list(out.glob(".run.*"))


@pytest.mark.slow
def test_a_second_signal_leaves_at_once(tmp_path):
    script = ("import signal, os, time\n"
              "from frost.interrupt import SAME_REQUEST, stop_requests\n"
              "with stop_requests() as request:\n"
              "    os.kill(os.getpid(), signal.SIGTERM)\n"
              "    os.kill(os.getpid(), signal.SIGTERM)\n"    # at once: by the group and by the launcher
              "    assert request.number == signal.SIGTERM\n"
              "    print('still here', flush=True)\n"
              "    time.sleep(SAME_REQUEST)\n"
              "    os.kill(os.getpid(), signal.SIGTERM)\n"
              "    print('never', flush=True)\n")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "still here\n"
    assert done.returncode == -signal.SIGTERM


def test_the_same_request_that_arrives_when_the_first_was_granted_is_no_second_one():
    heard = []
    outer = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    ours = signal.getsignal(signal.SIGTERM)
    try:
        with stop_requests() as request:
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)      # by the launcher, a moment after the group
        assert request.number == signal.SIGTERM
        assert heard == []
        request.since -= SAME_REQUEST
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, outer)


@pytest.mark.slow
def test_the_same_signal_while_the_process_ends_does_not_change_its_status():
    script = ("import os, signal, sys\n"
              "from frost import cli\n"
              "cli._carried_out = lambda arguments: 143\n"
              "sys.argv = ['frost', 'recipes']\n"
              "status = cli.main()\n"
              "os.kill(os.getpid(), signal.SIGTERM)\n"
              "sys.exit(status)\n")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 143, done.stderr


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGINT)
    with stop_requests() as request:
        assert not request
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_a_folder_that_only_a_killed_process_has_touched_is_as_good_as_empty(tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / ".lock").touch()
    (tmp_path / "r" / ".run.json.tmp").write_text("{")
    assert run("train", "digits", "--out", tmp_path / "r", *SMALL) == 0


def test_final_weights_without_a_manifest_are_warned_about_and_the_checkpoint_is_read(tmp_path):
    assert run("train", "digits", "--out", tmp_path / "r", *SMALL, "runtime.save_every=1") == 0
    (tmp_path / "r" / "MANIFEST.json").unlink()
    with pytest.warns(UserWarning, match="has no MANIFEST.json"):
        found = load(tmp_path / "r")
    assert found.path.parent.name == "checkpoints"


def test_other_data_are_noticed(tmp_path, capsys):
    assert run("train", "digits", "--out", tmp_path / "r", *SMALL) == 0
    (tmp_path / "r" / "MANIFEST.json").unlink()
    stored = json.loads((tmp_path / "r" / "run.json").read_text())
    stored["data"]["train"] = 7
    (tmp_path / "r" / "run.json").write_text(json.dumps(stored))
    assert run("train", "digits", "--out", tmp_path / "r", "--resume", *SMALL) == 2
    assert "its train is 7, here it is " in capsys.readouterr().err


def test_tensorboard_gets_the_curves(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert run("train", "digits", "--out", tmp_path / "r", "--tensorboard", *SMALL) == 0
    events = EventAccumulator(str(tmp_path / "r" / "tensorboard"))
    events.Reload()
    entries = read_logbook(tmp_path / "r" / "logbook.jsonl")
    for curve, field in (("train/scale", "scale"), ("train/loss", "loss"), ("train/gradient_norm", "gradient_norm")):
        points = events.Scalars(curve)
        assert [point.step for point in points] == [entry["step"] for entry in entries]
        assert [point.value for point in points] == pytest.approx([entry[field] for entry in entries], rel=1e-6)
    assert [point.step for point in events.Scalars("validation-accuracy/t03")] == [5, 10]
    assert events.Scalars("train-accuracy/t01")


def test_without_tensorboard_nothing_is_begun(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert run("train", "digits", "--out", tmp_path / "r", "--tensorboard", *SMALL) == 2
    assert "pip install -e '.[train]'" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(("setting", "sentence"), [
    ("train.depth_schedule=random train.min_depth=9", "at most model.depth"), ("runtime.device=cuda", "no such GPU"),
    ("train.depth_schedule=random train.min_depth=1", "rank_by"), ("model.depth=1", "at least 2")])
def test_settings_that_cannot_work_are_refused_before_anything_is_written(tmp_path, capsys, setting, sentence):
    assert run("train", "digits", "--out", tmp_path / "r", *SMALL, *setting.split()) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_place_that_cannot_be_written_is_reported_with_what_to_do(tmp_path, monkeypatch, capsys, number):
    def refuse(self, *_, **__):
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert run("train", "digits", "--out", tmp_path / "r", *SMALL) == 2
    complaint = capsys.readouterr().err
    assert f"r could not be written ({os.strerror(number)})" in complaint
    assert "Choose another place" in complaint
    assert "--resume" not in complaint


@pytest.mark.parametrize("setting", ["workers=1", "timeout=60", "device=cpu", "save_every=3", "validate_every=2",
                                     "checkpointing=true", "compile=true"])
def test_how_a_run_is_worked_on_may_change_when_it_goes_on(tmp_path, setting):
    out, before = tmp_path / "r", to_dict(override(recipe("digits"), SMALL[1:]))
    begin(out_made(out), before, (), load_digits())
    now = to_dict(override(recipe("digits"), [*SMALL[1:], f"runtime.{setting}"]))
    assert now != before
    assert may_begin(out, now, resume=True)
    other = to_dict(override(recipe("digits"), [*SMALL[1:], "train.learning_rate=0.5"]))
    with pytest.raises(ValueError, match=r"its train\.learning_rate is"):
        may_begin(out, other, resume=True)


def out_made(out):
    out.mkdir()
    return out


def test_a_stopped_run_goes_on_with_other_workers_to_the_same_end(tmp_path, monkeypatch):
    words = ("train", "digits", "--resume", *SMALL)
    assert run(*words, "--out", tmp_path / "whole") == 0
    with monkeypatch.context() as patched:
        Interrupting(patched, 3)
        assert run(*words, "--out", tmp_path / "r") == 130
    assert run(*words, "runtime.workers=1", "runtime.save_every=2", "--out", tmp_path / "r") == 0
    assert_same(tmp_path / "r", tmp_path / "whole")


def test_hints_can_be_typed_as_they_stand(tmp_path, capsys):
    out = tmp_path / "my first run"
    assert run("train", "digits", "--out", out, *SMALL) == 0
    hint = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("Next: "))
    assert shlex.split(hint)[1:4] == ["frost", "evaluate", str(out)]


@pytest.mark.filterwarnings("ignore:λ has reached inf")
@pytest.mark.parametrize("verb", [("train", "digits"), ("demo", "digits")])
def test_a_rate_that_diverges_is_reported_with_the_step_and_what_to_lower(tmp_path, capsys, verb):
    assert run(*verb, "--out", tmp_path / "r", *SMALL, "train.learning_rate=1e30") == 2
    complaint = capsys.readouterr().err
    assert "scale is inf after step 1; lower train.learning_rate, which is 1e+30" in complaint
    assert "JSON" not in complaint
