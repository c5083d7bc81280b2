"""Sums and mazes from training to evaluation, small: sizes that were never seen, and what is refused."""

import json
import shutil
import subprocess
import sys

import pytest
import torch

import frost
from frost.commands.demo import run_demo, text
from frost.commands.evaluate import as_json, evaluate_run
from frost.commands.evaluate import text as evaluation_text
from frost.config import override
from frost.data.addition import longest_carry, sums
from frost.data.catalogue import load
from frost.recipes import recipe
from frost.training.run import train
from frost.zoo.registry import SIZES, build

SMALL = ["model.depth=4", "model.channels=12", "train.epochs=1", "train.min_depth=2", "train.batch=512",
         "halting.refit=256"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A training of a minute's sixtieth: it solves nothing, and has everything that a run has."""
    out = tmp_path_factory.mktemp("addition") / "run"
    train(override(recipe("addition"), SMALL), out)
    return out


@pytest.mark.slow
def test_a_run_is_evaluated_at_budgets_and_beyond_its_size(run, tmp_path):
    shutil.copytree(run, tmp_path / "other")
    result = evaluate_run(run, quantiles=[0.5], others=[str(tmp_path / "other"), str(run)],
                          figure=tmp_path / "frontier.png")
    printed = json.loads(json.dumps(as_json(result), allow_nan=False))
    assert [row["size"] for row in printed["beyond"]] == ["as trained", "96 bits", "128 bits", "256 bits"]
    assert all(set(row["quality"]) == {"4", "8", "16"} for row in printed["beyond"])
    kinds = [point["kind"] for point in printed["frontier"]]
    assert kinds.count("adaptive") >= 8
    assert kinds.count("fixed") == 2 * 4                          # two runs of four steps
    assert {"run", "kind", "mean_depth", "flops", "quality", "low", "high"} <= set(printed["frontier"][0])
    assert [one["loss"] for one in printed["needed"]] == [0.005, 0.01] * 2
    assert (tmp_path / "frontier.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    words = evaluation_text(result)
    assert "8,000 problems" in words
    assert "solved" in words
    assert "fixed ÷ adaptive" in words


@pytest.mark.slow
def test_the_frontier_names_its_picture_on_the_command_line(run, tmp_path):
    picture = tmp_path / "mine.png"
    done = subprocess.run([sys.executable, "-m", "frost", "evaluate", str(run), "--frontier", "--figure", str(picture),
                           "--json"], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert picture.exists()
    printed = json.loads(done.stdout)
    assert printed["frontier"]
    assert not {"rows", "budgets", "beyond"} & set(printed)       # nothing that was not asked for


@pytest.mark.slow
def test_predict_refuses_a_run_that_reads_no_images(run):
    done = subprocess.run([sys.executable, "-m", "frost", "predict", str(run), "x.png"], capture_output=True, text=True,
                          timeout=110)
    assert done.returncode == 2
    assert "made by code" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_runs_of_other_data_are_not_compared(run):
    with pytest.raises(ValueError, match="on the same data"):
        evaluate_run(run, others=["digits"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nowhere/f.png", "f.svg", "folder.png"])
def test_a_picture_that_cannot_be_written_is_told_before_anything_is_measured(run, tmp_path, name):
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(ValueError, match=r"cannot be written.*--figure"):
        evaluate_run(run, others=[], figure=tmp_path / name)


@pytest.mark.parametrize("name", ["line", "grid"])
def test_a_local_model_takes_any_size_and_refuses_other_shapes(name):
    model, dimensions = build(SIZES[name], seed=0).eval(), {"line": 1, "grid": 2}[name]
    channels = SIZES[name].image_channels
    for size in (5, 12):
        shape = (size,) * dimensions
        assert model(torch.rand(2, channels, *shape), depth=3).outputs.shape == (2, 3, *shape, 2)
    with pytest.raises(ValueError, match="problems must be a batch"):
        model(torch.rand(2, channels, *[4] * (3 - dimensions)))
    with pytest.raises(ValueError, match=f"takes problems of {channels} channel"):
        model(torch.rand(2, channels + 1, *[4] * dimensions))
    with pytest.raises(ValueError, match="floating point"):
        model(torch.zeros(2, channels, *[4] * dimensions, dtype=torch.long))


def test_what_is_far_away_takes_steps_to_matter():
    model = build(SIZES["line"], seed=0).eval()
    one = torch.rand(1, 2, 30)
    other = one.clone()
    other[:, :, 0] += 1.0
    with torch.no_grad():
        before, after = model(one, depth=8).outputs, model(other, depth=8).outputs
    differs = (before != after).any(dim=-1)[0]                    # (t, n)
    reach = [int(row.nonzero().max()) for row in differs]
    assert reach == [1 + step for step in range(8)]    # the stem looks one place, each step after h_1 one more


@pytest.mark.parametrize("change", ["flip=true", "shift=1", "mix=mixup"])
def test_problems_are_not_augmented_as_images_are(change):
    with pytest.raises(ValueError, match="not answers at each position"):
        override(recipe("mazes"), [f"train.augment.{change}"])


def test_the_demo_of_problems_refuses_what_has_no_table(tmp_path):
    config = override(recipe("addition"), [*SMALL, "halting.calibrate=last-epoch", "train.depth_schedule=full",
                                           "train.min_depth=0", "halting.refit=0"])
    with pytest.raises(ValueError, match="must be held-out"):
        run_demo(config, tmp_path / "run")


@pytest.mark.parametrize("rule", ["contractive", "theorem"])
def test_a_local_rule_has_no_bounded_form(rule):
    with pytest.raises(ValueError, match="bounded transition"):
        override(recipe("addition"), [f"model.update={rule}"])


def test_a_model_of_other_dimensions_is_refused(tmp_path):
    with pytest.raises(ValueError, match="have 2"):
        train(override(recipe("addition"), ["data=mazes", "model.image_size=9"]), tmp_path / "run")


@pytest.mark.slow
def test_the_demo_on_sums_prints_budgets_and_draws_mazes(tmp_path):
    result = run_demo(override(recipe("addition"), SMALL), tmp_path / "run")
    assert [row.fraction for row in result.budgets] == [0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.75, 1.0]
    words = text(result)
    assert "fixed depth" in words
    assert "8,000 problems" in words
    assert (tmp_path / "run" / "demo.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    printed = json.loads((tmp_path / "run" / "halting.json").read_text())
    assert printed["data"] == "addition"
    assert [row["fraction"] for row in printed["budgets"]][-1] == 1.0


@pytest.mark.parametrize("name", ["addition", "mazes"])
def test_the_pretrained_run_solves_what_it_was_made_for(name):
    """On 400 test problems, by the engine: nearly all are solved, early ones before late ones."""
    run, test = frost.load(name), load(name).test
    rule = run.calibration.at_mean_depth(0.4 * run.model.depth)
    results = sorted(frost.Engine(run.model, rule, slots=64).run(test.images[:400]), key=lambda result: result.key)
    solved = [bool((result.output.argmax(-1) == answer).all())
              for result, answer in zip(results, test.labels[:400], strict=True)]
    depths = torch.tensor([result.depth for result in results], dtype=torch.float64)
    assert sum(solved) >= 0.98 * 400
    assert depths.mean() < 0.45 * run.model.depth
    assert depths.std() > 0.5


def test_longer_carries_take_the_pretrained_sum_longer():
    run = frost.load("addition")
    import numpy as np
    problems = sums(600, 64, np.random.default_rng(5))
    rule = run.calibration.at_mean_depth(0.4 * run.model.depth)
    depths = [result.depth for result in sorted(frost.Engine(run.model, rule, slots=64).run(problems.images),
                                                key=lambda result: result.key)]
    assert np.corrcoef(depths, longest_carry(problems))[0, 1] > 0.5
