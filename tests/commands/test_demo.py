"""The demo, small: a real run from scratch, its numbers and its files."""

import json
import subprocess
import sys

import pytest

from frost.checkpoint import load
from frost.data.digits import load_digits
from frost.training.evaluate import run_frozen

QUICK = ["--set", "train.epochs=2", "model.depth=4", "model.channels=16"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A finished demo: its folder and what it printed as JSON."""
    out = tmp_path_factory.mktemp("demo") / "run"
    done = subprocess.run([sys.executable, "-m", "frost", "demo", "digits", "--out", str(out), "--json", *QUICK],
                          capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert "training: " in done.stderr
    return out, json.loads(done.stdout)


@pytest.mark.slow
def test_the_json_has_the_agreed_keys(demo):
    _, printed = demo
    assert [set(row) for row in printed["rows"]] == [
        {"quantile", "threshold", "mean_depth", "accuracy", "fixed_depth_accuracy"}] * 8
    assert [row["quantile"] for row in printed["rows"]] == [i / 8 for i in range(1, 9)]
    assert printed["rows"][-1]["threshold"] is None
    assert printed["rows"][-1]["mean_depth"] == 4.0
    assert printed["seconds"] > 0
    depths = [row["mean_depth"] for row in printed["rows"]]
    assert depths == sorted(depths)


@pytest.mark.slow
def test_the_run_gives_the_printed_accuracy_again(demo):
    out, printed = demo
    run, test = load(out), load_digits().test
    trajectory = run_frozen(run.model, test.images)
    accuracy = (trajectory.outputs[:, -1].argmax(-1) == test.labels).double().mean().item()
    assert accuracy == pytest.approx(printed["rows"][-1]["accuracy"])
    assert run.calibration.at_quantile(0.5).threshold == pytest.approx(printed["rows"][3]["threshold"])


@pytest.mark.slow
def test_the_calibration_saw_the_validation_split_only(demo):
    out, _ = demo
    run, data = load(out), load_digits()
    assert run.calibration.pooled.count == 4 * len(data.validation)
    scores = run_frozen(run.model, data.validation.images).score_logits.double()
    assert run.calibration.pooled.highest == pytest.approx(scores.max().item(), abs=1e-5)


@pytest.mark.slow
def test_the_folder_holds_the_run_with_its_picture(demo):
    out, printed = demo
    assert sorted(file.name for file in out.iterdir()) == [
        "MANIFEST.json", "calibration.json", "config.json", "demo.png", "halting.json", "logbook.jsonl",
        "weights.safetensors"]
    assert (out / "demo.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert json.loads((out / "halting.json").read_text())["rows"] == printed["rows"]
    logbook = [json.loads(line) for line in (out / "logbook.jsonl").read_text().splitlines()]
    assert [line["step"] for line in logbook] == list(range(1, 35))
    assert {"step", "epoch", "loss", "scale", "learning_rate"} <= set(logbook[0])
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.slow
def test_a_second_run_over_the_first_replaces_it_with_the_same_numbers(demo):
    out, printed = demo
    done = subprocess.run([sys.executable, "-m", "frost", "demo", "digits", "--out", str(out), *QUICK],
                          capture_output=True, text=True, timeout=110)
    assert done.returncode == 0
    assert "fixed depth" in done.stdout
    assert "| paper: depth" in done.stdout
    assert "\x1b" not in done.stdout
    assert json.loads((out / "halting.json").read_text())["rows"] == printed["rows"]


@pytest.mark.slow
def test_the_calibration_may_stream_through_the_last_epoch(tmp_path):
    from frost.commands.demo import run_demo
    from frost.config import override
    from frost.recipes import recipe

    settings = [*QUICK[1:], "train.epochs=1", "halting.refit=0", "halting.calibrate=last-epoch"]
    result = run_demo(override(recipe("digits"), settings), tmp_path / "run")
    assert load(tmp_path / "run").calibration.pooled.count == 4 * len(load_digits().train)
    assert result.rows[-1].mean_depth == 4


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["gated", "contractive", "theorem"])
def test_every_rule_has_its_table(rule, tmp_path):
    from frost.commands.demo import run_demo, text
    from frost.config import override
    from frost.recipes import recipe

    config = override(recipe("digits"), [*QUICK[1:], "train.epochs=1", f"model.rule={rule}"])
    result = run_demo(config, tmp_path / "run")
    assert [row.quantile for row in result.rows] == [i / 8 for i in range(1, 9)]
    assert (result.lipschitz is None) == (rule == "gated")
    assert ("L^T = " in text(result)) == (rule != "gated")
