import pickle
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from frost.data import folder as module
from frost.data.folder import decoded, fits, load_folder


def test_labels_follow_the_sorted_names_of_the_classes(small_set):
    root, _ = small_set("folder")
    data = load_folder(root, 8)
    assert data.classes == ("a", "b")
    for split in (data.train, data.validation, data.test):
        assert [file.split("/")[1] for file in split.files] == [data.classes[label] for label in split.labels]


def test_validation_is_held_out_of_train(small_set):
    root, _ = small_set("folder")
    data = load_folder(root, 8)
    assert [len(data.train), len(data.validation), len(data.test)] == [18, 2, 20]
    assert not set(data.train.files) & set(data.validation.files)
    assert all(file.startswith("val/") for file in data.test.files)


def test_with_val_and_test_nothing_is_held_out(small_set):
    root, _ = small_set("folder")
    shutil.copytree(root / "val", root / "test")
    data = load_folder(root, 8)
    assert [len(data.train), len(data.validation), len(data.test)] == [20, 20, 20]
    assert data.validation.files[0].startswith("val/")
    assert data.test.files[0].startswith("test/")


def test_a_batch_is_decoded_when_asked_for(small_set):
    root, _ = small_set("folder")
    split = load_folder(root, 12).train
    row = next(row for row, file in enumerate(split.files) if file.endswith(".png"))
    with Image.open(root / split.files[row]) as image:
        centre = np.asarray(image)[:, 2:14]
    assert torch.equal(split.read([row])[0], torch.from_numpy(centre.copy()).permute(2, 0, 1))
    batch = split.batch(torch.tensor([row, 0]))
    assert batch.shape == (2, *split.image_shape)
    assert torch.equal(batch[0], torch.from_numpy(centre.copy()).permute(2, 0, 1) / 255)


def test_a_decoded_split_gives_the_same_batches(small_set):
    root, _ = small_set("folder")
    split = load_folder(root, 8).train
    seen = []
    rows = torch.tensor([3, 0, 17])
    assert torch.equal(decoded(split, lambda *report: seen.append(report)).batch(rows), split.batch(rows))
    assert seen[-1] == ("decoding images", 18, 18)


def test_what_does_not_fit_is_not_decoded(small_set, monkeypatch):
    root, _ = small_set("folder")
    split = load_folder(root, 8).train
    monkeypatch.setattr(module, "DECODED_LIMIT", 18 * 3 * 8 * 8 - 1)
    with pytest.raises(ValueError, match="need more than"):
        decoded(split)


def test_imagenet100_does_not_fit_and_cifar_would():
    assert not fits(130_000, (3, 224, 224))
    assert fits(60_000, (3, 32, 32))


def test_a_split_can_be_sent_to_another_process(small_set):
    root, _ = small_set("folder")
    split = load_folder(root, 8).train
    assert torch.equal(pickle.loads(pickle.dumps(split)).read([1]), split.read([1]))


def test_progress_is_reported_for_every_file(small_set):
    root, _ = small_set("folder")
    seen = []
    load_folder(root, 8, report=lambda *report: seen.append(report))
    assert seen == [("checking images", count, 40) for count in range(1, 41)]


def test_only_the_classes_asked_for_are_taken(small_set):
    root, _ = small_set("folder")
    for part in ("train", "val"):
        shutil.copytree(root / part / "a", root / part / "c")
    assert load_folder(root, 8, only=("c", "a")).classes == ("a", "c")
    with pytest.raises(ValueError, match=r"lacks 1 of 2 classes: z"):
        load_folder(root, 8, only=("a", "z"))


def test_a_link_out_of_the_tree_is_refused(small_set, tmp_path):
    root, _ = small_set("folder")
    shutil.copy(root / "train/a/0.png", tmp_path / "outside.png")
    (root / "train/a/linked.png").symlink_to(tmp_path / "outside.png")
    with pytest.raises(ValueError, match=r"linked\.png is a link that leads out"):
        load_folder(root, 8)


def test_a_class_that_is_a_link_out_of_the_tree_is_refused(small_set, tmp_path):
    root, _ = small_set("folder")
    shutil.copytree(root / "train/a", tmp_path / "outside")
    (root / "train/c").symlink_to(tmp_path / "outside")
    with pytest.raises(ValueError, match=r"train/c is a link that leads out"):
        load_folder(root, 8)


def test_a_link_inside_the_tree_is_followed(small_set):
    root, _ = small_set("folder")
    (root / "train/a/linked.png").symlink_to(root / "train/a/0.png")
    data = load_folder(root, 8)
    assert len(data.train) + len(data.validation) == 21


def test_what_file_managers_leave_behind_is_ignored(small_set):
    root, _ = small_set("folder")
    for name in (".DS_Store", "Thumbs.db"):
        (root / "train/a" / name).write_bytes(b"?")
    assert len(load_folder(root, 8).train) == 18


@pytest.mark.parametrize("name", ["notes.txt", "image.bmp", "deeper/"])
def test_any_other_entry_is_refused_by_name(small_set, name):
    root, _ = small_set("folder")
    path = root / "train/a" / name
    path.mkdir() if name.endswith("/") else path.write_bytes(b"?")
    with pytest.raises(ValueError, match=f"{path.name} must end in one of"):
        load_folder(root, 8)


def test_a_class_that_is_in_one_part_only_is_refused(small_set):
    root, _ = small_set("folder")
    shutil.copytree(root / "val/a", root / "val/c")
    with pytest.raises(ValueError, match="only one of them has c"):
        load_folder(root, 8)


@pytest.mark.parametrize("gone", ["train", "val"])
def test_a_tree_needs_two_parts(small_set, gone):
    root, _ = small_set("folder")
    shutil.rmtree(root / gone)
    with pytest.raises(ValueError, match="must hold train/CLASS"):
        load_folder(root, 8)
