"""The runs that come with the package open by name, also from an installed wheel outside the tree."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from frost.checkpoint import load, pretrained
from frost.config import from_dict
from frost.data.digits import load_digits
from frost.evaluation.halting_table import per_step_accuracy
from frost.training.evaluate import run_frozen
from frost.zoo.registry import ModelConfig

ROOT = Path(__file__).parent.parent
NAMES = ["addition", "cifar100-cpu", "digits", "mazes"]


def test_the_shelf_holds_what_the_readme_says():
    assert sorted(pretrained()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_pretrained_run_is_whole_small_calibrated_and_says_what_made_it(name):
    run = load(name)
    origin = json.loads((run.path / "origin.json").read_text())
    assert origin["command"].startswith(f"frost train {name}")
    assert origin["seconds"] > 0
    assert origin["seed"] == run.config["train"]["seed"]
    assert run.calibration is not None
    assert len(run.config["classes"]) == run.config["model"]["classes"]
    assert sum(file.stat().st_size for file in run.path.iterdir()) < 8e6
    config = from_dict(ModelConfig, run.config["model"])
    outputs = run.model(torch.rand(2, *config.input_shape)).outputs
    assert outputs.shape[:2] == (2, config.depth)
    assert outputs.shape[-1] == config.classes


def test_the_pretrained_digits_reach_the_accuracy_that_was_reported_for_them():
    run, data = load("digits"), load_digits()
    validation = per_step_accuracy(run_frozen(run.model, data.validation).outputs, data.validation.labels)
    reported = json.loads((run.path / "origin.json").read_text())["validation_accuracy"]
    assert validation == pytest.approx(reported, abs=1 / len(data.validation) + 1e-9)    # other kernels, other ties


def test_a_folder_of_that_name_wins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    with pytest.raises(ValueError, match="not whole"):
        load("digits")


@pytest.mark.slow
def test_an_installed_wheel_brings_them_along(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path / "wheel", ROOT], check=True)
    wheel = next((tmp_path / "wheel").glob("*.whl"))
    subprocess.run([*pip, "install", "--no-deps", "--target", tmp_path / "site", wheel], check=True)
    script = ("import frost, frost.checkpoint as c; assert 'site' in c.__file__, c.__file__;"
              f"print([frost.load(name).model.depth for name in {NAMES!r}])")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    answer = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True,
                            env={**environment, "PYTHONPATH": str(tmp_path / "site")})
    assert answer.stdout.strip() == str([20, 3, 8, 24])
