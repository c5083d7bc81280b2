"""Measuring a run: the numbers against a hand count, and the sentences for what cannot be measured."""

import json
import math
import shlex
from dataclasses import replace

import pytest
import torch

from conftest import small_frost
from frost.checkpoint import load, save, weights_hash
from frost.commands.calibrate import calibrate_run as calibrate
from frost.commands.evaluate import as_json, text
from frost.commands.evaluate import evaluate_run as evaluate
from frost.config import to_dict
from frost.data.digits import load_digits
from frost.evaluation.budget import Budget, policy_of, rule_at
from frost.evaluation.throughput import bench
from frost.halting.calibration import Calibration
from frost.zoo.registry import SIZES, build

TINY = replace(SIZES["resnet-8px"], channels=16, bottleneck=8, depth=4)
ROW = {"policy", "quantile", "threshold", "mean_depth", "accuracy", "fixed_depth_accuracy", "gain", "standard_error"}


def saved(path, model_config=TINY, calibrated=True, **changes):
    """A run of digits whose thresholds come from its validation split."""
    model = build(model_config, seed=0).eval()
    calibration = None
    if calibrated:
        with torch.no_grad():
            scores = model(load_digits().validation.images[:60]).score_logits
        calibration = Calibration.gather(scores, weights_hash=weights_hash(model))
    config = {"recipe": "digits", "data": "digits", "model": to_dict(model_config), **changes}
    save(path, model, config, calibration)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    torch.manual_seed(0)
    return saved(tmp_path_factory.mktemp("evaluate") / "run")


@pytest.fixture(scope="module")
def result(run):
    return evaluate(run, None)


@pytest.mark.parametrize("split", ["test", "validation"])
def test_the_accuracy_after_each_step_is_that_of_a_hand_count(run, split):
    measured = evaluate(run, None, [1.0], split)
    images, labels = getattr(load_digits(), split)
    model = load(run).model
    with torch.no_grad():
        state = model.begin(images)
        for step in range(4):
            state = model.step(state)
            hits = sum(int(guess) == int(label) for guess, label in zip(model.read(state)[0].argmax(1), labels,
                                                                        strict=True))
            assert measured.per_step_accuracy[step] == pytest.approx(hits / len(labels), abs=1e-12)
    assert measured.images == len(labels)
    assert measured.split == split


def test_a_row_is_what_its_threshold_does_to_each_image(run, result):
    images, labels = load_digits().test
    loaded = load(run)
    with torch.no_grad():
        trajectory = loaded.model(images)
    limit = loaded.calibration.at_quantile(0.5).thresholds[0]
    depths, hits = [], 0
    for i, scores in enumerate(trajectory.score_logits.tolist()):
        depth = next((t for t, score in enumerate(scores, 1) if score > limit), 4)
        depths.append(depth)
        hits += int(trajectory.outputs[i, depth - 1].argmax()) == int(labels[i])
    row = result.rows[3]
    assert row.quantile == 0.5
    assert 1 < row.mean_depth < 4
    # within one image and step: other batches, other last bits
    assert row.mean_depth == pytest.approx(sum(depths) / len(depths), abs=3.1 / len(labels))
    assert row.accuracy == pytest.approx(hits / len(labels), abs=1.1 / len(labels))


def test_without_a_wish_the_quantiles_are_those_of_table_2(result):
    assert [row.quantile for row in result.rows] == [i / 8 for i in range(1, 9)]
    depths = [row.mean_depth for row in result.rows]
    assert depths == sorted(depths)


def test_at_quantile_1_every_image_takes_all_steps(result):
    last = as_json(result)["rows"][-1]
    assert last["mean_depth"] == 4.0
    assert last["threshold"] is None
    assert last["accuracy"] == result.per_step_accuracy[-1]
    assert last["gain"] == 0.0


def test_the_json_has_the_agreed_keys(result, run):
    printed = json.loads(json.dumps(as_json(result), allow_nan=False))
    assert set(printed) == {"run", "data", "split", "images", "depth", "rows", "per_step_accuracy", "is_calibrated",
                            "budgets", "seconds"}
    assert printed["budgets"] == []    # its calibration does not know who was right
    assert all(set(row) == ROW and row["policy"] == "rank" for row in printed["rows"])
    assert (printed["run"], printed["data"], printed["split"]) == (str(run), "digits", "test")
    assert (printed["images"], printed["depth"]) == (len(load_digits().test), 4)
    for row in printed["rows"]:
        assert row["gain"] == pytest.approx(row["accuracy"] - row["fixed_depth_accuracy"])
        right = row["accuracy"]
        assert row["standard_error"] == pytest.approx(math.sqrt(right * (1 - right) / 539))


def test_a_run_that_knows_who_was_right_shows_its_own_rule_at_budgets():
    rows = as_json(evaluate("digits", None, [1.0]))["budgets"]
    assert [row["fraction"] for row in rows] == [0.35, 0.5, 0.75, 1.0]
    assert all(abs(row["mean_depth"] - 8 * row["fraction"]) < 0.4 for row in rows)
    assert rows[-1]["mean_depth"] == 8
    assert rows[-1]["gain"] == 0


def test_the_text_shows_each_quantile_with_its_line_and_each_step(result):
    lines = text(result).splitlines()
    assert lines[0].endswith("digits test · 539 images · depth 4")
    header = lines.index(next(line for line in lines if "fixed depth" in line))
    assert [line.split()[0] for line in lines[header + 1:header + 9]] == [f"{i / 8:.3f}" for i in range(1, 9)]
    assert "never" in lines[header + 8]
    steps = lines.index(next(line for line in lines if line.startswith("after step")))
    assert [line.split()[:2] for line in lines[steps + 1:steps + 5]] == [
        [str(t), f"{100 * accuracy:.2f}"] for t, accuracy in enumerate(result.per_step_accuracy, 1)]


def test_the_text_warns_of_the_split_that_calibrated(run, result):
    assert "these very images" in text(evaluate(run, None, [0.5], "validation"))
    assert "these very images" not in text(result)


def test_a_run_without_calibration_is_measured_at_full_depth(tmp_path):
    path = saved(tmp_path / "run", calibrated=False)
    measured = evaluate(path, None)
    assert [(row.quantile, row.threshold, row.mean_depth) for row in measured.rows] == [(1.0, None, 4.0)]
    assert measured.rows[0].accuracy == measured.per_step_accuracy[-1]
    assert "no calibration" in text(measured)
    assert not as_json(measured)["is_calibrated"]


def test_a_run_without_calibration_refuses_other_quantiles(tmp_path):
    path = saved(tmp_path / "run", calibrated=False)
    with pytest.raises(ValueError, match=r"no calibration.*frost calibrate"):
        evaluate(path, None, [1.0, 0.5])


@pytest.mark.parametrize("quantile", [-0.1, 1.5, math.nan, math.inf])
def test_a_quantile_is_a_share(run, quantile):
    with pytest.raises(ValueError, match=r"quantile must lie in \[0, 1\]"):
        evaluate(run, None, [0.5, quantile])


def test_at_quantile_0_nobody_goes_on(run):
    row = evaluate(run, None, [0.0]).rows[0]
    assert (row.mean_depth, row.threshold) == (1.0, 0.0)


def test_the_rule_at_quantile_1_is_that_of_the_calibration(run):
    loaded = load(run)
    assert rule_at(loaded, 1.0) == loaded.calibration.at_quantile(1.0)


def test_a_model_of_ones_own_is_refused_with_the_way_out(tmp_path):
    save(tmp_path / "own", small_frost(), {})
    with pytest.raises(ValueError, match="model of your own"):
        evaluate(tmp_path / "own", None)


@pytest.mark.parametrize("data", ["difits", None, 7])
def test_a_run_must_say_what_it_was_trained_on(tmp_path, data):
    with pytest.raises(ValueError, match="must name the data set"):
        evaluate(saved(tmp_path / "run", data=data), None)


def test_data_of_another_number_of_classes_are_refused(tmp_path):
    path = saved(tmp_path / "run", replace(TINY, classes=7), calibrated=False)
    with pytest.raises(ValueError, match="7 classes apart, but digits has 10"):
        evaluate(path, None)


def test_data_of_other_classes_are_refused(tmp_path):
    path = saved(tmp_path / "run", calibrated=False, classes=[*"012345678", "ten"])
    with pytest.raises(ValueError, match="other classes than digits has"):
        evaluate(path, None)


def test_images_of_another_shape_are_refused(tmp_path):
    path = saved(tmp_path / "run", replace(TINY, image_channels=3), calibrated=False)
    with pytest.raises(ValueError, match="takes images of 3×8×8, but digits has 1×8×8"):
        evaluate(path, None)


def test_a_model_that_diverged_is_not_given_an_accuracy(tmp_path):
    model = build(TINY, seed=0)
    with torch.no_grad():
        model.head.readout.bias.fill_(math.nan)
    save(tmp_path / "run", model, {"recipe": "digits", "data": "digits", "model": to_dict(TINY)})
    with pytest.raises(ValueError, match="diverged"):
        evaluate(tmp_path / "run", None)


def test_there_is_no_measuring_on_training_images(run):
    with pytest.raises(ValueError, match="one of test, validation"):
        evaluate(run, None, [1.0], "train")


@pytest.fixture(scope="module")
def compared(run):
    return evaluate(run, None, [0.5, 1.0], policies=["all"])


def test_all_rules_stand_beside_one_another(compared):
    printed = json.loads(json.dumps(as_json(compared), allow_nan=False))
    names = {"rank", "rank-per-step", "confidence", "entropy", "margin", "patience", "residual", "second-order",
             "confidence-per-step", "margin-per-step", "entropy-per-step", "fixed", "ceiling"}
    assert {row["policy"] for row in printed["at_fraction"]} == names
    assert {row["fraction"] for row in printed["at_fraction"]} == {0.35, 0.5, 0.75}
    assert all({"policy", "fraction", "mean_depth", "accuracy", "low", "high"} <= set(row) for row in
               printed["at_fraction"])
    assert all(row["low"] <= row["accuracy"] <= row["high"] for row in printed["at_fraction"])
    assert set(printed["oracle"]) == {"agreement_depth", "agreement_accuracy", "label_depth", "label_accuracy"}
    assert set(printed["area"]) == set(printed["distance_to_oracle"]) == names - {"ceiling"}
    assert [row["fraction"] for row in printed["versus_simple"]] == [0.35, 0.5, 0.75]
    assert {row["policy"] for row in printed["rows"]} == {name for name in names if not name.endswith("-per-step")} - {
        "ceiling", "fixed"}


def test_a_fixed_depth_gains_nothing_over_itself(compared):
    rows = [row for row in as_json(compared)["at_fraction"] if row["policy"] == "fixed"]
    assert all(row["gain"] == 0.0 for row in rows)
    half = next(row for row in rows if row["fraction"] == 0.5)
    assert half["accuracy"] == pytest.approx(compared.per_step_accuracy[1], abs=0.02)


def test_the_text_names_every_rule(compared):
    shown = text(compared)
    for name in ("rank-per-step", "second-order", "ceiling", "Oracles", "best simple rule"):
        assert name in shown


def test_some_rules_may_be_chosen_and_the_line_comes_along(run):
    rows = as_json(evaluate(run, None, [1.0], policies=["margin", "oracle"]))["at_fraction"]
    assert {row["policy"] for row in rows} == {"margin", "fixed", "ceiling"}


def test_an_unknown_rule_gets_a_suggestion(run):
    with pytest.raises(ValueError, match="Did you mean 'margin'"):
        evaluate(run, None, policies=["margim"])
    with pytest.raises(ValueError, match=r"halting\.objective=rank"):
        evaluate(run, None, policies=["act"])


def test_a_run_calibrated_for_a_rule_of_states_is_measured(tmp_path):
    path = saved(tmp_path / "run", classes=list("0123456789"))
    calibrate(path, policy="residual")
    assert {row["policy"] for row in as_json(evaluate(path, None))["rows"]} == {"residual"}


def test_the_hint_for_a_run_without_calibration_can_be_typed_as_it_stands(tmp_path):
    config = replace(SIZES["resnet-8px"], depth=2)
    path = tmp_path / "my run"
    save(path, build(config), {"model": to_dict(config), "data": "digits"})
    for ask in (lambda: evaluate(path, quantiles=[0.5]), lambda: bench(path),
                lambda: policy_of(load(path), Budget(mean_depth=1.5))):
        with pytest.raises(ValueError, match="no calibration") as told:
            ask()
        assert shlex.split(str(told.value))[-3:] == ["frost", "calibrate", str(path)]


def test_what_a_run_chose_is_judged_beside_the_others():
    printed = as_json(evaluate("digits", None, [1.0], policies=["rank", "confidence", "margin", "entropy"]))
    rows = [row for row in printed["at_fraction"] if row["policy"] == "chosen"]
    assert [row["fraction"] for row in rows] == [0.35, 0.5, 0.75]
    budgets = {row["fraction"]: row for row in printed["budgets"]}
    for row in rows:
        assert row["form"] == budgets[row["fraction"]]["form"]
        assert row["accuracy"] == pytest.approx(budgets[row["fraction"]]["accuracy"])
        assert row["gain_high"] >= 0    # nowhere significantly below fixed depth
