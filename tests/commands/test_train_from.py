"""`frost train --from RUN`: a training that begins with the weights of another run."""

import contextlib
import json
import signal

import pytest
import torch

from frost.checkpoint import load, weights_hash
from frost.cli import main
from frost.config import from_dict
from frost.recipes import RunConfig, recipe
from frost.training.beginning import first_model
from frost.training.team import ALONE

SMALL = ("--set", "train.epochs=1", "train.batch=256", "model.depth=3", "model.channels=16", "model.bottleneck=8",
         "halting.refit=0")
STILL = "train.learning_rate=1e-12"    # so small that weights stay where they began, but for a last bit


def run(*words):
    return main([*map(str, words)])


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "first"
    assert run("train", "digits", "--out", out, *SMALL) == 0
    return out


def test_the_weights_are_those_of_the_other_run(tmp_path, first):
    assert run("train", "digits", "--from", first, "--out", tmp_path / "r", *SMALL, STILL, "train.seed=5") == 0
    before, after = load(first).model.state_dict(), load(tmp_path / "r").model.state_dict()
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in before)


def test_the_run_remembers_which_weights_it_began_with(tmp_path, first):
    assert run("train", "digits", "--from", first, "--out", tmp_path / "r", *SMALL) == 0
    origin = json.loads((tmp_path / "r" / "origin.json").read_text())
    assert origin["first_weights"] == weights_hash(load(first).model)
    assert origin["first_weights"] != weights_hash(load(tmp_path / "r").model)


def stopped_then_gone_on(words, monkeypatch):
    """A run that is stopped in the middle as by a signal, then gone on with."""
    class Wish:
        looks, number = 3, signal.SIGINT

        def __bool__(self):
            self.looks -= 1
            return self.looks == 0

    with monkeypatch.context() as patched:
        patched.setattr("frost.training.run.stop_wish", lambda: contextlib.nullcontext(Wish()))
        assert run(*words) == 130
    return lambda *more: run(*words, *more, "--resume")


def test_it_goes_on_as_if_it_had_not_been_stopped(tmp_path, first, monkeypatch):
    words = ("train", "digits", "--from", first, *SMALL, "train.save_every=1")
    assert run(*words, "--out", tmp_path / "whole") == 0
    assert stopped_then_gone_on((*words, "--out", tmp_path / "r"), monkeypatch)() == 0
    assert weights_hash(load(tmp_path / "r").model) == weights_hash(load(tmp_path / "whole").model)


def test_going_on_from_other_weights_is_refused(tmp_path, first, capsys, monkeypatch):
    assert run("train", "digits", "--out", tmp_path / "other", *SMALL, "train.seed=7") == 0
    words = ("train", "digits", "--out", tmp_path / "r", *SMALL, "train.save_every=1")
    go_on = stopped_then_gone_on((*words[:4], "--from", first, *words[4:]), monkeypatch)
    for source in ((), ("--from", tmp_path / "other")):
        capsys.readouterr()
        assert run(*words[:4], *source, *words[4:], "--resume") == 2
        complaint = capsys.readouterr().err
        assert "its first_weights is " in complaint
        assert "--from that it began with" in complaint
    assert go_on() == 0


@pytest.mark.parametrize(("setting", "named"), [
    ("model.channels=24", "its model.channels is 16, here it is 24"),
    ("model.hurst=0.5", "its model.hurst is 0.8, here it is 0.5")])
def test_another_model_is_refused_by_the_field_that_differs(tmp_path, first, capsys, setting, named):
    changed = [word if word != "model.depth=3" else "model.depth=4" for word in SMALL]    # the depth may differ
    assert run("train", "digits", "--from", first, "--out", tmp_path / "r", *changed, setting) == 2
    complaint = capsys.readouterr().err
    assert named in complaint
    assert complaint.count("\n") == 1
    assert not (tmp_path / "r").exists()


def test_another_depth_is_allowed(tmp_path, first):
    changed = [word if word != "model.depth=3" else "model.depth=4" for word in SMALL]
    assert run("train", "digits", "--from", first, "--out", tmp_path / "r", *changed) == 0
    assert load(tmp_path / "r").model.depth == 4


def test_a_run_that_is_not_there_is_one_line(tmp_path, capsys):
    assert run("train", "digits", "--from", tmp_path / "none", "--out", tmp_path / "r", *SMALL) == 2
    complaint = capsys.readouterr().err
    assert str(tmp_path / "none") in complaint
    assert complaint.count("\n") == 1


def test_precision_that_this_machine_lacks_claims_no_folder(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("frost.core.precision.bf16_fault", lambda: "it cannot be here")
    assert run("train", "digits", "--out", tmp_path / "r", *SMALL, "train.precision=bf16") == 2
    assert "precision is bf16, but it cannot be here" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_the_shipped_run_is_of_its_recipe():
    run, origin = load("cifar100-cpu"), json.loads((load("cifar100-cpu").path / "origin.json").read_text())
    model, found = first_model(recipe(origin["recipe"]), "cifar100-cpu", ALONE)
    assert found == weights_hash(model) == weights_hash(run.model)
    config = {name: value for name, value in run.config.items() if name != "classes"}
    assert from_dict(RunConfig, config) == recipe(origin["recipe"])
