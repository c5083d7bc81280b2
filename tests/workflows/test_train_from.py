"""`frost train --from RUN`: a training that begins with the weights of another run."""

import json

import pytest
import torch

from frost.checkpoint import load, weights_hash
from frost.cli import main
from frost.recipes import recipe
from frost.workflows.runfolder import first_weights

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


def test_going_on_from_other_weights_is_refused(tmp_path, first, capsys, monkeypatch):
    import frost.workflows.train as room

    def stopped(self):
        self._save()
        raise KeyboardInterrupt("enough")

    with monkeypatch.context() as patch:
        patch.setattr(room._Run, "_calibrate", stopped)
        assert run("train", "digits", "--from", first, "--out", tmp_path / "r", *SMALL) == 130
    capsys.readouterr()
    assert run("train", "digits", "--out", tmp_path / "r", *SMALL, "--resume") == 2
    assert "its first_weights is " in capsys.readouterr().err
    assert run("train", "digits", "--from", first, "--out", tmp_path / "r", *SMALL, "--resume") == 0


def test_weights_of_another_shape_are_refused_by_the_field_that_differs(tmp_path, first, capsys):
    assert run("train", "digits", "--from", first, "--out", tmp_path / "r", *SMALL, "model.channels=24") == 2
    complaint = capsys.readouterr().err
    assert "its model.channels is 16, here it is 24" in complaint
    assert complaint.count("\n") == 1
    assert not (tmp_path / "r").exists()


def test_a_run_that_is_not_there_is_one_line(tmp_path, capsys):
    assert run("train", "digits", "--from", tmp_path / "none", "--out", tmp_path / "r", *SMALL) == 2
    assert str(tmp_path / "none") in capsys.readouterr().err


def test_the_shipped_run_fits_its_recipe():
    model = first_weights(recipe("cifar100-cpu-tuned"), "cifar100-cpu")
    assert weights_hash(model) == weights_hash(load("cifar100-cpu").model)
