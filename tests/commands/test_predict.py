"""Files in, answers out: the model's own, one by one or together, whatever lies between them."""

import csv
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from frost.checkpoint import load, save, weights_hash
from frost.commands.calibrate import calibrate_run as calibrate
from frost.commands.predict import as_json, predict, text
from frost.config import to_dict
from frost.data.digits import load_digits
from frost.data.filelist import Failure
from frost.evaluation.budget import Budget
from frost.halting.calibration import Calibration
from frost.runtime.answerfile import AnswerFile
from frost.runtime.image_files import Answer
from frost.zoo.registry import SIZES, build

CONFIG = replace(SIZES["resnet-8px"], depth=5)
BATCH = 8


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("predict") / "run"
    model = build(CONFIG, seed=0).eval()
    with torch.no_grad():
        scores = model(load_digits().validation.images[:60]).score_logits
    save(path, model, {"recipe": "digits", "data": "digits", "model": to_dict(CONFIG)},
         Calibration.gather(scores, weights_hash=weights_hash(model)))
    return path


@pytest.fixture(scope="module")
def digits():
    """Twenty-one digits as bytes, (n, 8, 8): more than two batches of 8."""
    return (load_digits().test.images[:21, 0] * 255).round().to(torch.uint8)


@pytest.fixture(scope="module")
def files(tmp_path_factory, digits):
    """The same as PNG files; their names are in order."""
    folder = tmp_path_factory.mktemp("digits")
    paths = [folder / f"digit-{i:02}.png" for i in range(len(digits))]
    for path, digit in zip(paths, digits, strict=True):
        Image.fromarray(digit.numpy()).save(path)
    return paths


@pytest.fixture
def broken(tmp_path):
    path = tmp_path / "broken.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n and then nothing")
    return path


def test_answers_are_those_of_the_model_at_full_depth(run, files, digits):
    with torch.no_grad():
        trajectory = load(run).model(digits[:, None].float() / 255)
    shares, labels = trajectory.outputs[:, -1].softmax(-1).max(-1)
    rows = predict(run, files, batch=BATCH).rows
    assert [row.label for row in rows] == labels.tolist()
    assert [row.confidence for row in rows] == pytest.approx(shares.tolist(), abs=1e-5)
    assert [row.score for row in rows] == pytest.approx(trajectory.scores[:, -1].tolist(), abs=1e-5)
    assert [row.file for row in rows] == [*map(str, files)]
    assert {row.depth for row in rows} == {5}
    assert [row.name for row in rows] == [str(label) for label in labels.tolist()]


def test_a_quantile_stops_each_image_where_its_score_says(run, files, digits):
    loaded = load(run)
    limit = loaded.calibration.at_quantile(0.5).thresholds[0]
    with torch.no_grad():
        trajectory = loaded.model(digits[:, None].float() / 255)
    expected = [next((t for t, score in enumerate(scores, 1) if score > limit), 5)
                for scores in trajectory.score_logits.tolist()]
    result = predict(run, files, Budget(quantile=0.5), batch=BATCH)
    assert [row.depth for row in result.rows] == expected
    assert len(set(expected)) > 1
    assert [row.label for row in result.rows] == [
        int(trajectory.outputs[i, depth - 1].argmax()) for i, depth in enumerate(expected)]
    assert result.mean_depth == pytest.approx(sum(expected) / len(expected))
    assert result.threshold == loaded.calibration.at_quantile(0.5).threshold


def test_a_depth_stops_everybody(run, files, digits):
    with torch.no_grad():
        second = load(run).model(digits[:, None].float() / 255).outputs[:, 1]
    rows = predict(run, files, Budget(depth=2), batch=BATCH).rows
    assert {row.depth for row in rows} == {2}
    assert [row.label for row in rows] == second.argmax(-1).tolist()


@pytest.mark.parametrize("choice", [{}, {"quantile": 0.5}, {"depth": 3}])
def test_an_answer_is_the_same_to_the_bit_alone_and_in_company(run, files, choice):
    together = predict(run, files, Budget(**choice), batch=BATCH).rows
    alone = [predict(run, [file], Budget(**choice), batch=BATCH).rows[0] for file in files[::4]]
    backwards = predict(run, files[::-1], Budget(**choice), batch=BATCH).rows[::-1]
    assert together[::4] == alone
    assert together == backwards


def test_a_broken_file_between_good_ones_stops_neither(run, files, broken):
    rows = predict(run, [files[0], broken, files[1], Path("nowhere.png"), files[2]], batch=2).rows
    assert [type(row) for row in rows] == [Answer, Failure, Answer, Failure, Answer]
    assert [row for row in rows if isinstance(row, Answer)] == predict(run, files[:3], batch=2).rows
    assert "broken.png" in rows[1].error
    assert "nowhere.png must be an image file" in rows[3].error


def test_a_broken_file_at_the_end_leaves_no_image_waiting(run, files, broken):
    rows = predict(run, [*files[:3], broken], batch=2).rows
    assert [type(row) for row in rows] == [Answer, Answer, Answer, Failure]


def test_if_no_file_can_be_read_that_is_an_error(run, broken, tmp_path):
    with pytest.raises(ValueError, match=r"broken\.png"):
        predict(run, [broken])
    with pytest.raises(ValueError, match=r"none of 2 files.*broken\.png"):
        predict(run, [broken, tmp_path / "nowhere.png"])


def test_a_folder_stands_for_its_images_in_order(run, files, tmp_path):
    folder = tmp_path / "folder"
    (folder / "inner.png").mkdir(parents=True)
    for name, file in (("b.PNG", files[0]), ("a.png", files[1]), (".hidden.png", files[2])):
        (folder / name).write_bytes(file.read_bytes())
    (folder / "notes.txt").write_text("no image")
    for inner in ("dogs", "cats", ".thumbnails"):
        (folder / inner).mkdir()
        (folder / inner / "1.png").write_bytes(files[4].read_bytes())
    (folder / "cats" / "around").symlink_to(folder)
    rows = predict(run, [files[3], folder], batch=2).rows
    assert [str(Path(row.file).relative_to(folder)) for row in rows[1:]] == ["a.png", "b.PNG", "cats/1.png",
                                                                             "dogs/1.png"]
    assert rows[0].file == str(files[3])


def test_a_folder_without_images_is_a_row_with_an_error(run, files, tmp_path):
    rows = predict(run, [tmp_path, files[0]], batch=2).rows
    assert "holds no PNG" in rows[0].error
    assert isinstance(rows[1], Answer)


@pytest.mark.parametrize("suffix", ["jpg", "webp"])
def test_large_photographs_are_scaled_to_the_model(run, tmp_path, suffix):
    levels = np.kron(np.arange(64, dtype=np.uint8).reshape(8, 8) * 4, np.ones((16, 16), dtype=np.uint8))
    Image.fromarray(np.stack([levels] * 3, axis=-1)).save(tmp_path / f"photo.{suffix}", quality=95)
    assert predict(run, [tmp_path / f"photo.{suffix}"], batch=1).rows[0].depth == 5


def test_classes_have_the_names_that_the_run_keeps(run, files, tmp_path):
    loaded = load(run)
    names = [f"digit {i}" for i in range(10)]
    save(tmp_path / "named", loaded.model, {**loaded.config, "classes": names})
    for row in predict(tmp_path / "named", files[:4], batch=4).rows:
        assert row.name == names[row.label]


def test_the_json_is_plain(run, files, broken):
    result = predict(run, [files[0], broken], Budget(quantile=1.0), batch=2)
    printed = json.loads(json.dumps(as_json(result), allow_nan=False))
    assert set(printed) == {"run", "depth", "quantile", "budget", "threshold", "images", "failed", "mean_depth", "rows",
                            "out", "before", "failed_before", "has_drifted", "seconds"}
    assert set(printed["rows"][0]) == {"file", "label", "class", "confidence", "depth", "score"}
    assert set(printed["rows"][1]) == {"file", "error"}
    assert (printed["images"], printed["mean_depth"], printed["threshold"]) == (1, 5.0, None)


def test_the_text_has_a_line_for_each_file(run, files, broken):
    many = files * 3
    lines = text(predict(run, [*many, broken], Budget(quantile=0.5), batch=32)).splitlines()
    assert "63 images · quantile 0.5 · mean depth" in lines[0]
    assert sum("digit-" in line for line in lines) == 63
    assert "no answer" in lines[66]
    assert lines[-1].startswith("no answer: ")


def test_the_name_of_a_file_cannot_write_on_the_terminal(run, files, tmp_path):
    odd = tmp_path / "a\x1b[2J\nb.png"
    odd.write_bytes(files[0].read_bytes())
    shown = text(predict(run, [odd], batch=1))
    assert "a?[2J?b.png" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("depth", [0, 6, -1])
def test_a_depth_beyond_the_model_is_refused(run, files, depth):
    with pytest.raises(ValueError, match="depth must lie between 1 and 5"):
        predict(run, files[:1], Budget(depth=depth))


@pytest.mark.parametrize("quantile", [-0.5, 2.0, math.nan])
def test_a_quantile_is_a_share(run, files, quantile):
    with pytest.raises(ValueError, match=r"quantile must lie in \[0, 1\]"):
        predict(run, files[:1], Budget(quantile=quantile))


def test_quantile_with_depth_is_refused(run, files):
    with pytest.raises(ValueError, match="one of quantile and depth"):
        predict(run, files[:1], Budget(quantile=0.5, depth=3))


def test_a_run_without_calibration_knows_full_depth_only(run, files, tmp_path):
    loaded = load(run)
    save(tmp_path / "bare", loaded.model, loaded.config)
    assert predict(tmp_path / "bare", files[:1], Budget(quantile=1.0), batch=1).rows[0].depth == 5
    with pytest.raises(ValueError, match="no calibration"):
        predict(tmp_path / "bare", files[:1], Budget(quantile=0.5))


def test_a_model_that_diverged_gives_no_answer(files, tmp_path):
    model = build(CONFIG, seed=0)
    with torch.no_grad():
        model.head.readout.bias.fill_(math.nan)
    save(tmp_path / "run", model, {"model": to_dict(CONFIG)})
    with pytest.raises(ValueError, match="diverged"):
        predict(tmp_path / "run", files[:1], batch=1)


def test_nothing_to_predict_is_an_error(run):
    with pytest.raises(ValueError, match="at least one image"):
        predict(run, [])
    with pytest.raises(ValueError, match="nothing to predict"):
        predict(run, [], listed=Path(os.devnull))


@pytest.mark.parametrize("batch", [0, -1, 2**16 + 1, 10**9])
def test_a_batch_has_limits_that_hold_before_anything_is_allocated(batch):
    with pytest.raises(ValueError, match="--batch must be at least 1 and at most 65,536"):
        predict("not even looked for", [Path("x.png")], batch=batch)


@pytest.fixture(scope="module")
def labelled(run, tmp_path_factory):
    """The same run, calibrated with labels."""
    path = tmp_path_factory.mktemp("predict") / "labelled"
    shutil.copytree(run, path)
    calibrate(path)
    return path


def test_a_mean_depth_is_kept_about(labelled, files):
    result = predict(labelled, files, Budget(mean_depth=2.5), batch=BATCH)
    assert 1.0 < result.mean_depth < 4.5
    assert "mean depth 2.5" in text(result)


def test_a_mean_depth_that_is_plain_fixed_depth_says_so(files):
    whole = predict("digits", files[:2], Budget(mean_depth=3.0), batch=2)
    assert "every image stops after step 3" in text(whole).splitlines()[1]
    assert "every image stops" not in text(predict("digits", files[:2], Budget(mean_depth=2.5), batch=2))


def test_without_a_budget_the_head_says_full_depth(run, files):
    assert "2 images · full depth · mean depth 5.00 of 5" in text(predict(run, files[:2], batch=2))


def test_a_loss_that_cannot_be_certified_is_full_depth_and_says_so(labelled, files):
    with pytest.warns(UserWarning, match="every image takes all steps"):
        result = predict(labelled, files[:2], Budget(accuracy_loss=0.5), batch=2)
    assert result.mean_depth == 5.0


@pytest.mark.parametrize("budget", [Budget(mean_depth=2.0), Budget(accuracy_loss=1.0)])
def test_a_budget_needs_a_calibration(run, files, tmp_path, budget):
    loaded = load(run)
    save(tmp_path / "bare", loaded.model, loaded.config)
    with pytest.raises(ValueError, match=r"no calibration.*frost calibrate"):
        predict(tmp_path / "bare", files[:1], budget)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_answers_go_to_a_file(run, files, broken, tmp_path, suffix):
    out = tmp_path / "deep" / f"answers.{suffix}"
    result = predict(run, [files[0], broken, files[1]], batch=2, out=out)
    assert (result.rows, result.images, result.failed) == ([], 2, 1)
    rows = read_answers(out)
    assert [row["file"] for row in rows] == [str(files[0]), str(broken), str(files[1])]
    expected = predict(run, files[:2], batch=2).rows
    assert [int(rows[0]["label"]), int(rows[2]["label"])] == [row.label for row in expected]
    assert float(rows[0]["confidence"]) == expected[0].confidence
    assert "broken.png" in rows[1]["error"]
    assert str(out) in text(result)


def read_answers(out: Path) -> list[dict]:
    if out.suffix == ".csv":
        with out.open(newline="") as stream:
            return list(csv.DictReader(stream))
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize("cut", [0, 1, 300, 10**6])
def test_a_file_that_was_cut_anywhere_is_gone_on_with(run, files, tmp_path, suffix, cut):
    out = tmp_path / f"answers.{suffix}"
    predict(run, files, batch=BATCH, out=out)
    whole = out.read_bytes()
    out.write_bytes(whole[:cut])
    result = predict(run, files, batch=BATCH, out=out)
    assert out.read_bytes() == whole
    assert result.before + result.images == len(files)


def test_a_second_run_has_nothing_to_do(run, files, tmp_path):
    out = tmp_path / "answers.csv"
    predict(run, files, batch=BATCH, out=out)
    before = out.read_bytes()
    result = predict(run, files, batch=BATCH, out=out)
    assert (result.before, result.images) == (21, 0)
    assert out.read_bytes() == before
    assert "21 were there before" in text(result)


def test_answers_of_another_kind_are_not_mixed_in(run, files, tmp_path):
    out = tmp_path / "answers.csv"
    predict(run, files[:3], batch=BATCH, out=out)
    with pytest.raises(ValueError, match="was made with policy"):
        predict(run, files[:3], Budget(depth=2), batch=BATCH, out=out)
    with pytest.raises(ValueError, match="same files in the same order"):
        predict(run, files[1:], batch=BATCH, out=out)
    (tmp_path / "thesis.csv").write_text("years of work")
    with pytest.raises(ValueError, match="no file of answers"):
        predict(run, files, out=tmp_path / "thesis.csv")
    with pytest.raises(ValueError, match=r"\.csv or \.jsonl"):
        predict(run, files, out=tmp_path / "answers.txt")


def test_a_list_of_files(run, files, tmp_path):
    listed = tmp_path / "list.txt"
    listed.write_text("\n".join(map(str, files[:5])) + "\n\n")
    assert predict(run, [], batch=4, listed=listed).rows == predict(run, files[:5], batch=4).rows
    with pytest.raises(ValueError, match="one path a line"):
        predict(run, [], listed=tmp_path / "nowhere.txt")


def test_a_list_that_can_be_read_once_only_is_answered(run, files, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text("\n".join(map(str, files[:5]))))
    writer.start()
    rows = predict(run, [], batch=4, listed=tmp_path / "pipe", out=tmp_path / "answers.csv")
    writer.join()
    assert rows.images == 5
    assert [row["file"] for row in read_answers(tmp_path / "answers.csv")] == [str(file) for file in files[:5]]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_one_file_of_answers_has_one_writer(run, files, tmp_path, suffix):
    out = tmp_path / f"answers.{suffix}"
    origin = {"run": str(run)}
    with AnswerFile(out, origin), pytest.raises(ValueError, match="another process is writing"):
        AnswerFile(out, origin)
    with AnswerFile(out, origin):
        pass


@pytest.mark.slow
def test_two_processes_with_one_out_leave_one_answer_a_file(run, files, tmp_path):
    listed, out = tmp_path / "list.txt", tmp_path / "answers.csv"
    listed.write_text("\n".join(map(str, files * 20)))
    command = [sys.executable, "-m", "frost", "predict", str(run), "--list", str(listed), "--out", str(out)]
    both = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=100)[1] for process in both]
    statuses = sorted(process.returncode for process in both)
    assert statuses in ([0, 2], [0, 0])    # refused, or begun when the first had ended
    assert statuses == [0, 0] or any("another process is writing" in words for words in said)
    assert [row["file"] for row in read_answers(out)] == [str(file) for file in files * 20]


def test_an_empty_file_is_as_good_as_none(run, files, tmp_path):
    (tmp_path / "answers.csv").touch()
    assert predict(run, files[:1], batch=1, out=tmp_path / "answers.csv").images == 1


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_files_without_an_answer_are_remembered(run, files, broken, tmp_path, suffix):
    out = tmp_path / f"answers.{suffix}"
    predict(run, [broken, files[0]], batch=2, out=out)
    again = predict(run, [broken, files[0], files[1]], batch=2, out=out)
    assert (again.before, again.failed_before, again.images, again.failed) == (2, 1, 1, 0)


def test_if_no_file_can_be_read_that_is_an_error_with_a_file_for_answers_too(run, broken, tmp_path):
    out = tmp_path / "answers.csv"
    for _ in range(2):    # also when all was done before
        with pytest.raises(ValueError, match=r"none of 1 files gave an answer; .*answers\.csv says why"):
            predict(run, [broken], batch=1, out=out)
        assert len(read_answers(out)) == 1


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_name_with_a_line_break_stays_on_its_line(run, files, tmp_path, suffix):
    odd = tmp_path / "a\nb,\".png"
    odd.write_bytes(files[0].read_bytes())
    out = tmp_path / f"answers.{suffix}"
    predict(run, [odd, files[1]], batch=2, out=out)
    assert len(read_answers(out)) == 2
    assert predict(run, [odd, files[1]], batch=2, out=out).before == 2


@pytest.mark.slow
def test_ctrl_c_leaves_whole_lines_and_a_second_run_goes_on(run, files, tmp_path):
    listed, out = tmp_path / "list.txt", tmp_path / "answers.jsonl"
    listed.write_text("\n".join(map(str, files * 200)))
    command = [sys.executable, "-m", "frost", "predict", str(run), "--list", str(listed), "--out", str(out),
               "--batch", "8"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    while not out.exists() or out.stat().st_size < 30_000:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"the same command goes on" in said
    stopped = len(read_answers(out))
    assert 0 < stopped < 4200
    assert f"{stopped:,} answers".encode() in said
    assert predict(run, [], batch=8, out=out, listed=listed).before == stopped
    assert [row["file"] for row in read_answers(out)] == [str(file) for file in files * 200]
