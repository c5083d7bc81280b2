import json
from pathlib import Path

import pytest
import torch

from conftest import small_frost
from frost.checkpoint import CALIBRATION, CONFIG, WEIGHTS, check_destination, load, save, weights_hash
from frost.config import to_dict
from frost.directory import MANIFEST, facts_of, manifest_bytes
from frost.halting.calibration import Calibration
from frost.recipes import recipe
from frost.zoo.registry import build


@pytest.fixture
def run(tmp_path):
    """A saved run, its model, and its path."""
    config = recipe("digits")
    model = build(config.model, seed=0).eval()
    calibration = Calibration.gather(torch.randn(20, 8), weights_hash=weights_hash(model))
    save(tmp_path / "run", model, to_dict(config), calibration, {"note.txt": b"hello"})
    return tmp_path / "run", model


def test_what_is_loaded_is_what_was_saved(run):
    path, model = run
    loaded = load(path)
    images = torch.rand(3, 1, 8, 8)
    with torch.no_grad():
        assert torch.equal(loaded.model(images).outputs, model(images).outputs)
    assert loaded.calibration.at_quantile(0.5).threshold is not None
    assert not loaded.model.training
    assert loaded.config["recipe"] == "digits"


def test_a_model_of_ones_own_is_filled(tmp_path):
    model = small_frost()
    save(tmp_path / "own", model, {})
    twin = small_frost()
    assert weights_hash(load(tmp_path / "own", model=twin).model) == weights_hash(model)
    with pytest.raises(ValueError, match=r"pass it: frost\.load"):
        load(tmp_path / "own")


def test_saving_again_replaces_the_run(run):
    path, model = run
    with torch.no_grad():
        model.head.readout.bias.add_(1)
    save(path, model, to_dict(recipe("digits")))
    assert load(path).calibration is None
    assert weights_hash(load(path).model) == weights_hash(model)
    assert sorted(file.name for file in path.parent.iterdir()) == ["run"]


@pytest.mark.parametrize("name", [WEIGHTS, CONFIG, CALIBRATION, "note.txt"])
def test_every_flipped_byte_and_cut_is_noticed(run, name):
    path, _ = run
    content = (path / name).read_bytes()
    for position in {0, len(content) // 3, len(content) - 1}:
        (path / name).write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1:])
        with pytest.raises(ValueError, match=name):
            load(path)
        (path / name).write_bytes(content[:position])
        with pytest.raises(ValueError, match=name):
            load(path)
    (path / name).unlink()
    with pytest.raises(ValueError, match=name):
        load(path)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"format": 9, "files": {}}', '{"format": 1, "files": {}}',
                                     '{"format": 1, "files": {"../x": {}}}', "[" * 100_000])
def test_a_strange_manifest_is_refused(run, content):
    path, _ = run
    (path / MANIFEST).write_text(content)
    with pytest.raises(ValueError, match="MANIFEST"):
        load(path)


def test_a_link_in_place_of_a_file_is_refused(run, tmp_path):
    path, _ = run
    (path / WEIGHTS).rename(tmp_path / "elsewhere")
    (path / WEIGHTS).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="no plain file"):
        load(path)


def test_weights_of_another_shape_are_refused(run):
    path, _ = run
    manifest = json.loads((path / MANIFEST).read_text())
    config = json.loads((path / CONFIG).read_text())
    config["model"]["channels"] = 32
    text = json.dumps(config)
    (path / CONFIG).write_text(text)
    import hashlib
    manifest["files"][CONFIG] = {"bytes": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    (path / MANIFEST).write_bytes(manifest_bytes(manifest))
    with pytest.raises(ValueError, match="does not fit the model"):
        load(path)


def test_the_calibration_of_other_weights_is_refused(tmp_path):
    model = small_frost()
    foreign = Calibration.gather(torch.randn(20, 8), weights_hash="another")
    with pytest.raises(ValueError, match="other weights"):
        save(tmp_path / "run", model, {}, foreign)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_run_says_how_to_make_one(tmp_path):
    with pytest.raises(ValueError, match="frost demo --out"):
        load(tmp_path / "nothing")


def test_a_destination_that_holds_something_else_is_refused(tmp_path, run):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    check_destination(tmp_path / "folder")
    (tmp_path / "folder" / "thesis.tex").write_text("years of work")
    for name, message in (("file", "not a folder"), ("folder", "something else")):
        with pytest.raises(ValueError, match=message):
            check_destination(tmp_path / name)
    path, model = run
    (path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"also thesis\.tex"):
        save(path, model, {})
    assert (path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("broken", ["checkpoint.save_model", "directory.move_into_place", "directory.fsync"])
def test_a_failed_save_leaves_the_old_run_whole(run, monkeypatch, broken):
    path, model = run
    before = weights_hash(load(path).model)

    def fails(*_: object) -> None:
        raise OSError("disk full")

    with torch.no_grad():
        model.head.readout.bias.add_(1)
    monkeypatch.setattr(f"frost.{broken}", fails)
    with pytest.raises(OSError, match="disk full"):
        save(path, model, to_dict(recipe("digits")))
    assert weights_hash(load(path).model) == before
    assert sorted(file.name for file in path.parent.iterdir()) == ["run"]


def test_a_rename_that_fails_brings_the_old_run_back(run, monkeypatch):
    path, model = run
    before = weights_hash(load(path).model)
    rename = Path.rename

    def fails_for_the_new_run(self, target):
        if self.name.endswith(".tmp"):
            raise OSError("directory not empty")
        return rename(self, target)

    with torch.no_grad():
        model.head.readout.bias.add_(1)
    monkeypatch.setattr(Path, "rename", fails_for_the_new_run)
    with pytest.raises(OSError, match="not empty"):
        save(path, model, to_dict(recipe("digits")))
    assert weights_hash(load(path).model) == before
    assert sorted(file.name for file in path.parent.iterdir()) == ["run"]


def test_a_run_that_was_set_aside_by_a_killed_save_is_pointed_out(run):
    path, _ = run
    aside = path.parent / ".run.abc.old"
    aside.mkdir()
    path.rename(aside / "run")
    with pytest.raises(ValueError, match="move it back"):
        load(path)


def test_a_run_in_double_precision_comes_back_in_it(tmp_path):
    model = build(recipe("digits").model, seed=0).double()
    save(tmp_path / "run", model, to_dict(recipe("digits")),
         Calibration.gather(torch.randn(20, 8), weights_hash=weights_hash(model)))
    assert weights_hash(load(tmp_path / "run").model) == weights_hash(model)


def test_a_model_that_does_not_fit_is_left_as_it_was(tmp_path):
    save(tmp_path / "run", small_frost(channels=8), {})
    other = small_frost(channels=16)
    before = weights_hash(other)
    with pytest.raises(ValueError, match="does not fit the model"):
        load(tmp_path / "run", model=other)
    assert weights_hash(other) == before


@pytest.mark.parametrize("name", ["../escaped", "a/b", "weights.safetensors", "MANIFEST.json", ""])
def test_extras_cannot_leave_the_run_or_replace_its_files(tmp_path, name):
    with pytest.raises(ValueError, match="extras"):
        save(tmp_path / "run", small_frost(), {}, extras={name: b"x"})
    assert list(tmp_path.iterdir()) == []


def test_a_destination_below_a_file_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="cannot be made"):
        check_destination(tmp_path / "file" / "below")


def test_an_empty_folder_is_filled_unless_it_is_the_current_one(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    save(tmp_path / "here", small_frost(), {})
    assert load(tmp_path / "here", model=small_frost()).calibration is None
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(ValueError, match="choose a folder inside it"):
        check_destination(Path())


def test_a_name_that_cannot_be_made_is_refused_at_once(tmp_path):
    for name in ("x" * 250, "/proc/nope"):
        with pytest.raises(ValueError, match="cannot be made"):
            check_destination(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_files_that_appear_while_saving_are_kept(run, monkeypatch):
    path, model = run
    checked = []

    def check_then_write(destination: Path) -> None:
        check_destination(destination)
        if not checked:
            (path / "precious.txt").write_text("written meanwhile")
        checked.append(destination)

    monkeypatch.setattr("frost.checkpoint.check_destination", check_then_write)
    with pytest.raises(ValueError, match=r"precious\.txt"):
        save(path, model, to_dict(recipe("digits")))
    assert (path / "precious.txt").read_text() == "written meanwhile"
    assert sorted(file.name for file in path.parent.iterdir()) == ["run"]


def test_a_calibration_that_the_manifest_does_not_list_is_not_read(run):
    path, model = run
    calibration = (path / CALIBRATION).read_bytes()
    save(path, model, to_dict(recipe("digits")))
    (path / CALIBRATION).write_bytes(calibration)
    assert load(path).calibration is None


def test_others_may_read_a_run(run):
    path, _ = run
    assert path.stat().st_mode & 0o555 == 0o555


def test_the_hash_sees_every_change():
    model = small_frost()
    before = weights_hash(model)
    assert weights_hash(model) == before
    with torch.no_grad():
        model.scale.raw.add_(1e-6)
    assert weights_hash(model) != before


def test_a_calibration_of_another_depth_is_refused(run):
    path, _ = run
    config = json.loads((path / CONFIG).read_text())
    config["model"]["depth"] = 9
    (path / CONFIG).write_text(json.dumps(config))
    manifest = json.loads((path / MANIFEST).read_text())
    manifest["files"][CONFIG] = facts_of(path / CONFIG)
    (path / MANIFEST).write_bytes(manifest_bytes(manifest))
    with pytest.raises(ValueError, match=r"belongs to a model of depth 8; make it again"):
        load(path)
    assert load(path, with_calibration=False).model.depth == 9


def test_a_model_keeps_the_calibration_of_its_own_weights_only(tmp_path):
    from kinds import KINDS

    import frost

    kind = KINDS["vectors"]
    model = kind.model()
    calibration = frost.calibrate(model, [kind.batch(60)], is_shown=False)
    model.save(tmp_path / "run")
    assert load(tmp_path / "run", model=kind.model(1)).calibration.to_dict() == calibration.to_dict()
    with torch.no_grad():
        model.head.readout.weight.add_(1.0)
    with pytest.warns(UserWarning, match="have changed since the model was calibrated"):
        model.save(tmp_path / "run")
    assert load(tmp_path / "run", model=kind.model(1)).calibration is None


def test_a_model_of_the_zoo_is_loaded_without_being_passed(tmp_path):
    import frost

    model = frost.create("frost-resnet-8px", classes=3, seed=0)
    model.save(tmp_path / "run")
    again = load(tmp_path / "run").model
    assert again.zoo_config == model.zoo_config
    assert torch.equal(again.head.readout.weight, model.head.readout.weight)
