import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import frost
from frost.checkpoint import weights_hash
from frost.cli import main
from frost.data.images import load_image
from frost.halting.calibration import Calibration
from frost.halting.stopping import depth_under
from frost.page.budgets import rule_of
from frost.page.build import Page, html, page_of
from frost.page.examples import drawn_pictures, own_pictures
from frost.zoo.registry import ModelConfig, build

TINY = ModelConfig(backbone="line", depth=3, image_size=8, image_channels=2, classes=2, channels=8)


@pytest.fixture(scope="module")
def digits(pages) -> Page:
    return pages("digits")[0]


def test_a_page_asks_for_nothing_outside_of_it(digits):
    assert re.findall(r"(?:src|href)=\"([^\"]*)\"", digits.html) == ["data:,", "#answer"]
    assert "default-src 'none'" in digits.html
    assert not re.search(r"\bfetch\(|XMLHttpRequest|\bimport\(|new Worker", digits.html)


def test_nothing_of_the_template_is_left_open(digits):
    assert not re.search(r"\{\{\w+\}\}", digits.html)


def test_a_name_that_looks_like_markup_stays_text(digits):
    page = html({**digits.facts, "name": "</script><b>x"}, digits.program)
    assert "<b>x" not in page
    assert json.loads(re.search(r'id="facts">(.*?)</script>', page)[1])["name"] == "</script><b>x"


def test_a_page_without_a_program_takes_another_engine(digits):
    page = html(digits.facts, None, "const makeEngine = () => another; start();")
    assert len(page) < len(digits.html) / 1.5
    assert "makeEngine = () => another" in page
    assert "localEngine(read" not in page


def test_budgets_go_from_one_step_to_full_depth(pages):
    budgets = pages("cifar100-cpu")[0].facts["budgets"]
    means = [budget["mean_depth"] for budget in budgets]
    assert means == sorted(means)
    assert (means[0], means[-1]) == (1.0, 3.0)
    assert len(budgets) >= 9


def test_the_rule_of_a_budget_takes_its_mean_depth_on_the_held_out_inputs(pages):
    run = frost.load("mazes")
    for budget in pages("mazes")[0].facts["budgets"]:
        assert run.calibration.mean_depth_of(rule_of(budget)) == pytest.approx(budget["mean_depth"], abs=1e-3)


def test_at_full_depth_no_input_stops_early(pages):
    run = frost.load("addition")
    trajectory = run.model(torch.rand(4, 2, 64) * 2 - 1)
    assert depth_under(rule_of(pages("addition")[0].facts["budgets"][-1]), trajectory.outputs,
                       trajectory.score_logits).tolist() == [20, 20, 20, 20]


def test_a_run_without_a_calibration_is_told_the_command(tmp_path, capsys):
    model = build(TINY, seed=0)
    model.save(tmp_path / "run")
    assert main(["page", str(tmp_path / "run"), "--out", str(tmp_path / "page.html")]) == 2
    assert "frost calibrate" in capsys.readouterr().err


def test_the_command_writes_one_file_below_three_megabytes(tmp_path, capsys):
    out = tmp_path / "page.html"
    assert main(["page", "digits", "--out", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["bytes"] == out.stat().st_size < 3_000_000
    assert len(said["examples"]) == 12
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("name", ["page.txt", "page"])
def test_another_ending_than_html_is_refused(tmp_path, capsys, name):
    assert main(["page", "digits", "--out", str(tmp_path / name)]) == 2
    assert ".html" in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_one_line(tmp_path, capsys):
    assert main(["page", "digits", "--out", str(tmp_path / "none" / "page.html")]) == 2
    assert "could not be written" in capsys.readouterr().err


def test_own_pictures_become_the_examples(tmp_path):
    for number in range(2):
        Image.fromarray(np.full((20, 30, 3), 100 * number, np.uint8)).save(tmp_path / f"{number}.png")
    found = own_pictures(tmp_path, 8, 1)
    assert [example.name for example in found] == ["0", "1"]
    assert found[1].inputs.unique().tolist() == [pytest.approx(100 / 255)]


def test_a_folder_without_pictures_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds 0 pictures"):
        own_pictures(tmp_path, 8, 1)


def test_pictures_as_examples_of_a_problem_are_refused(tmp_path):
    with pytest.raises(ValueError, match="takes problems of shape"):
        page_of(problem_run(tmp_path / "run"), "own", tmp_path)


@pytest.mark.parametrize(("size", "channels"), [(32, 3), (16, 1)])
def test_a_dozen_pictures_are_drawn_at_any_size(size, channels):
    found = drawn_pictures(size, channels)
    assert len({example.name for example in found}) == 12
    assert all(example.inputs.shape == (channels, size, size) for example in found)
    assert all(0 <= example.inputs.min() < example.inputs.max() <= 1 for example in found)


def problem_run(folder):
    """A run of problems of a kind that the page knows nothing of."""
    model = build(replace(TINY, backbone="grid"), seed=0)
    rank = torch.rand(120, 3)
    quality = (torch.rand(120, 3) > 0.5).float()
    model.save(folder, Calibration.gather(rank, quality, weights_hash=weights_hash(model)))
    return frost.load(folder)


def test_a_budget_names_the_mean_depth_that_a_calibration_has_its_rule_for(pages):
    calibration = frost.load("digits").calibration
    for budget in pages("digits")[0].facts["budgets"][:-1]:
        assert calibration.at_mean_depth(budget["asked"]).thresholds == rule_of(budget).thresholds


def test_a_problem_of_unknown_kind_gets_a_page(tmp_path):
    page = page_of(problem_run(tmp_path / "run"), "own")
    assert page.facts["view"] == "cells"
    assert len(page.examples) == 12


@pytest.mark.parametrize(("width", "height", "channels", "size"), [(90, 61, 3, 32), (40, 17, 1, 28), (8, 8, 3, 16)])
def test_pictures_are_scaled_as_python_scales_them(node, tmp_path, width, height, channels, size):
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    found, expected = scaled(node, tmp_path, noise, channels, size)
    assert np.abs(found - expected).max() <= 1
    assert np.mean(found == expected) > 0.99


def test_a_tall_picture_is_scaled_to_a_level_of_what_python_gives(node, tmp_path):
    """Newer versions of Pillow scale those from top to bottom first, and rounding comes in another order."""
    slope = np.linspace(10, 240, 90 * 30 * 3).reshape(90, 30, 3).astype(np.uint8)
    found, expected = scaled(node, tmp_path, slope, 3, 16)
    assert np.abs(found - expected).max() <= 1


def scaled(node, folder, picture, channels, size):
    """A picture as the page scales it, and as Python does."""
    Image.fromarray(picture).save(folder / "picture.png")
    rgba = np.dstack([picture, np.full(picture.shape[:2], 255, np.uint8)])
    found = node(("resample.js",), "console.log(JSON.stringify(scaledPicture(given, given.size, given.channels)));", {
        "data": rgba.flatten().tolist(), "width": picture.shape[1], "height": picture.shape[0], "size": size,
        "channels": channels})
    return np.array(found), load_image(folder / "picture.png", size, channels).flatten().numpy().astype(int)
