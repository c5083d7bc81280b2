"""A run gets a new calibration in one rename; what it cannot answer is refused."""

import errno
import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from frost.checkpoint import load, pretrained, save
from frost.commands.calibrate import as_json, text
from frost.commands.calibrate import calibrate_run as calibrate
from frost.config import to_dict
from frost.data.digits import load_digits
from frost.directory import alone_with, facts_of, manifest_bytes
from frost.halting.rule_choice import signal_of
from frost.zoo.registry import SIZES, build

TINY = replace(SIZES["resnet-8px"], channels=16, bottleneck=8, depth=4)


@pytest.fixture
def run(tmp_path):
    config = {"recipe": "digits", "data": "digits", "model": to_dict(TINY), "classes": list("0123456789")}
    save(tmp_path / "run", build(TINY, seed=0), config)
    return tmp_path / "run"


def test_a_run_without_calibration_gets_one(run):
    assert load(run).calibration is None
    result = calibrate(run)
    ours = load(run).calibration
    assert ours.at_mean_depth(2.5) == result.calibration.at_mean_depth(2.5)
    assert len(ours.values) == len(load_digits().validation)
    assert ours.cost.at(1) < ours.cost.at(4)


def test_the_traces_are_the_scores_of_the_held_out_images(run):
    ours = calibrate(run).calibration
    images, labels = load_digits().validation
    with torch.no_grad():
        trajectory = load(run).model(images)
    np.testing.assert_allclose(ours.values, trajectory.score_logits.numpy(), atol=1e-5)
    assert ((ours.quality > 0) == (trajectory.outputs.argmax(-1) == labels[:, None]).numpy()).mean() > 0.999


@pytest.mark.parametrize("policy", ["confidence", "entropy", "margin", "patience", "residual", "second-order"])
def test_other_rules_can_be_calibrated(run, policy):
    assert calibrate(run, policy=policy).calibration.rule == policy
    assert load(run).calibration.rule == policy


def test_without_a_wish_all_signals_of_a_classifier_are_compared(run):
    ours = calibrate(run).calibration
    assert ours.rule == "rank"
    assert ours.choices
    assert {signal_of(choice.form) for choice in ours.choices} <= {
        "rank", "confidence", "margin", "entropy", "fixed"}
    assert all(choice.gain >= 0 for choice in ours.choices)


def test_a_calibration_can_be_replaced_again_and_again(run):
    for policy in ("rank", "margin", "rank", "entropy"):
        calibrate(run, policy=policy)
        assert load(run).calibration.rule == policy
    assert len(list(run.glob("calibration*.json"))) == 1


def test_a_kill_before_the_manifest_leaves_the_old_calibration(run, monkeypatch):
    calibrate(run)
    from frost import directory
    write = directory.replace_file

    def killed(file, content):
        if file.name == directory.MANIFEST:
            raise KeyboardInterrupt
        write(file, content)

    monkeypatch.setattr(directory, "replace_file", killed)
    with pytest.raises(KeyboardInterrupt):
        calibrate(run, policy="margin")
    monkeypatch.undo()
    assert load(run).calibration.rule == "rank"
    calibrate(run, policy="margin")
    assert load(run).calibration.rule == "margin"


def test_a_run_answers_only_what_its_score_was_taught(run, tmp_path):
    with pytest.raises(ValueError, match=r"halting\.objective=rank.*not 'ponder'"):
        calibrate(run, policy="ponder")
    loaded = load(run)
    save(tmp_path / "ponder", loaded.model, {**loaded.config, "halting": {"objective": "ponder"}})
    assert calibrate(tmp_path / "ponder", policy="ponder").calibration.rule == "ponder"
    with pytest.raises(ValueError, match="not 'rank'"):
        calibrate(tmp_path / "ponder", policy="rank")


def test_an_unknown_rule_gets_a_suggestion(run):
    with pytest.raises(ValueError, match="Did you mean 'confidence'"):
        calibrate(run, policy="confidense")


def test_a_run_of_the_package_is_not_written_to():
    with pytest.raises(ValueError, match="comes with the package"):
        calibrate("digits")


def test_a_copy_of_it_is(tmp_path):
    shutil.copytree(pretrained()["digits"], tmp_path / "mine")
    result = calibrate(tmp_path / "mine", policy="margin")
    printed = json.loads(json.dumps(as_json(result), allow_nan=False))
    assert (printed["policy"], printed["depth"], len(printed["rows"])) == ("margin", 8, 4)
    assert "held-out images" in text(result)


def test_a_calibration_that_cannot_be_read_can_be_made_again(run):
    calibrate(run)
    old = {"weights_hash": "0", "depth": 4, "dropped": 0, "sketch": "AAAA"}
    name = next(run.glob("calibration*.json")).name
    (run / name).write_text(json.dumps(old))
    manifest = json.loads((run / "MANIFEST.json").read_text())
    manifest["files"][name] = facts_of(run / name)
    (run / "MANIFEST.json").write_bytes(manifest_bytes(manifest))
    with pytest.raises(ValueError, match="frost calibrate"):
        load(run)
    calibrate(run)
    assert load(run).calibration.rule == "rank"


@pytest.mark.parametrize("policy", ["residual", "second-order", "patience", "fixed"])
def test_rules_that_do_not_reach_every_depth_are_told_all_the_same(run, policy):
    result = calibrate(run, policy=policy)
    assert len(as_json(result)["rows"]) == 4
    assert policy in text(result)


def test_a_run_in_training_is_left_alone(run, tmp_path):
    (tmp_path / "training" / "checkpoints").mkdir(parents=True)
    shutil.copytree(run, tmp_path / "training" / "checkpoints" / "step-00000004")
    with pytest.raises(ValueError, match="still being trained"):
        calibrate(tmp_path / "training")


def test_two_processes_do_not_calibrate_one_run(run):
    with alone_with(run, "taken"), pytest.raises(ValueError, match="another process is calibrating"):
        calibrate(run)
    calibrate(run)


def test_a_place_that_cannot_be_written_is_told_before_anything_is_measured(run, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    monkeypatch.setattr("frost.evaluation.calibrating.gather", lambda *_: pytest.fail("measured in vain"))
    with pytest.raises(OSError, match=r"Read-only file system.*Choose another place"):
        calibrate(run)
