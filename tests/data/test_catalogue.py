import shutil

import pytest
import torch

from frost.data import catalogue
from frost.data.catalogue import BUNDLED, FACTS, NAMES, load
from frost.data.digits import load_digits
from frost.data.folder import FolderSplit
from frost.data.imagenet100 import CLASSES
from frost.data.splits import Split


def test_digits_need_no_folder():
    assert torch.equal(load("digits", image_size=8).test.images, load_digits().test.images)


def test_facts_agree_with_the_digits():
    data, facts = load("digits"), FACTS["digits"]
    assert data.train.image_shape == (facts.image_channels, facts.image_size, facts.image_size)
    assert len(data.classes) == facts.classes


@pytest.mark.parametrize(("name", "kind", "layouts"), [("cifar100", "cifar", "CIFAR"), ("mnist", "idx", "IDX")])
def test_a_set_is_read_from_its_folder(small_set, monkeypatch, name, kind, layouts):
    folder, layout = small_set(kind)
    monkeypatch.setitem(getattr(catalogue, layouts), name, layout)
    data = load(name, folder)
    assert (data.name, len(data.test)) == (name, 100)
    assert data.train.image_shape == (FACTS[name].image_channels, FACTS[name].image_size, FACTS[name].image_size)


def test_without_a_folder_the_cache_is_looked_into(small_set, monkeypatch):
    folder, layout = small_set("cifar")
    monkeypatch.setitem(catalogue.CIFAR, "cifar100", layout)
    monkeypatch.setenv("FROST_CACHE", str(folder))
    assert len(load("cifar100").test) == 100


def test_a_small_tree_is_decoded(small_set):
    root, _ = small_set("folder")
    data = load("folder", root, image_size=8)
    assert isinstance(data.train, Split)
    assert data.train.images.shape == (18, 3, 8, 8)
    assert data.classes == ("a", "b")


def test_a_large_tree_is_read_by_the_batch(small_set, monkeypatch):
    root, _ = small_set("folder")
    small = load("folder", root, image_size=8)
    monkeypatch.setattr(catalogue, "fits", lambda *_: False)
    data = load("folder", root, image_size=8)
    assert isinstance(data.train, FolderSplit)
    rows = torch.tensor([2, 5])
    assert torch.equal(data.train.batch(rows), small.train.batch(rows))


def test_imagenet100_takes_its_classes_from_any_tree(small_set):
    root, _ = small_set("folder")
    with pytest.raises(ValueError, match="lacks 100 of 100 classes"):
        load("imagenet100", root, image_size=8)
    for part in ("train", "val"):
        for name in CLASSES:
            shutil.copytree(root / part / "a", root / part / name)
    data = load("imagenet100", root, image_size=4)
    assert data.classes == tuple(sorted(CLASSES))
    assert len(data.test) == 1000


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BUNDLED])
def test_what_is_missing_is_reported_with_place_page_command(tmp_path, name):
    with pytest.raises(ValueError, match="does not hold") as raised:
        load(name, tmp_path, image_size=FACTS[name].image_size or 32)
    text = str(raised.value)
    assert all(part in text for part in (str(tmp_path), FACTS[name].page, "--data DIR"))
    assert ("--download" in text) == bool(FACTS[name].remotes)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="no data set 'cifar'; known are digits, addition, mazes, mnist"):
        load("cifar")


@pytest.mark.parametrize(("name", "size", "why"), [("cifar100", 64, "set it to 32"), ("folder", None, "of any size"),
                                                   ("imagenet100", 0, "of any size")])
def test_a_size_that_does_not_fit_is_refused(tmp_path, name, size, why):
    with pytest.raises(ValueError, match=why):
        load(name, tmp_path, image_size=size)


def test_a_missing_set_is_fetched_only_on_request(small_set, tmp_path, monkeypatch):
    folder, layout = small_set("idx")
    fetched = []

    def pretend(remote, target, report):
        fetched.append(remote.name)
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / remote.name, target)

    monkeypatch.setattr(catalogue, "fetch", pretend)
    monkeypatch.setitem(catalogue.IDX, "fashion-mnist", layout._replace(name="fashion-mnist"))
    with pytest.raises(ValueError, match="let --download fetch it"):
        load("fashion-mnist", tmp_path / "cache")
    assert len(load("fashion-mnist", tmp_path / "cache", download=True).test) == 100
    assert sorted(fetched) == sorted(f"{name}.gz" for name in layout.pins)
    load("fashion-mnist", tmp_path / "cache", download=True)
    assert len(fetched) == 4


def test_what_cannot_be_fetched_says_so(tmp_path):
    with pytest.raises(ValueError, match="cannot be fetched"):
        load("imagenet100", tmp_path, download=True, image_size=224)


def test_what_is_fetched_is_pinned_by_sha256():
    remotes = [remote for facts in FACTS.values() for remote in facts.remotes]
    assert len(remotes) == 10
    assert all(len(remote.pin) == 64 for remote in remotes)
