import hashlib
import os

import pytest

from frost.data.imagenet100 import CLASSES, build


@pytest.fixture
def full(tmp_path):
    """A tree of four classes, two images each."""
    for part in ("train", "val"):
        for name in ("n1", "n2", "n3", "n4"):
            folder = tmp_path / "full" / part / name
            folder.mkdir(parents=True)
            for number in range(2):
                (folder / f"{number}.JPEG").write_bytes(f"{part}{name}{number}".encode())
    return tmp_path / "full"


def test_the_list_is_the_published_one():
    assert len(CLASSES) == len(set(CLASSES)) == 100
    assert (CLASSES[0], CLASSES[-1]) == ("n02869837", "n02090622")
    # of the file imagenet100.txt that comes with the code of Tian et al.
    listed = "".join(f"{name}\n" for name in CLASSES).encode()
    assert hashlib.sha256(listed).hexdigest() == "79f3f1552ccc478ce24bd934b4573625db584ddc1f4643ae23c994a94cb11397"


def test_only_the_classes_asked_for_are_built(full, tmp_path):
    out = tmp_path / "out"
    assert build(full, out, ("n1", "n3")) == 8
    assert sorted(path.name for path in (out / "train").iterdir()) == ["n1", "n3"]
    assert (out / "val/n3/1.JPEG").read_bytes() == b"valn31"


def test_a_build_goes_on_where_it_was(full, tmp_path):
    out = tmp_path / "out"
    build(full, out, ("n1", "n3"))
    kept = (out / "val/n3/1.JPEG").stat().st_ino
    (out / "train/n1/0.JPEG").unlink()
    (out / "train/n1/1.JPEG").unlink()
    (out / "train/n1/1.JPEG").write_bytes(b"half")
    seen = []
    assert build(full, out, ("n1", "n3"), lambda *report: seen.append(report)) == 8
    assert (out / "train/n1/0.JPEG").read_bytes() == b"trainn10"
    assert (out / "train/n1/1.JPEG").read_bytes() == b"trainn11"
    assert (out / "val/n3/1.JPEG").stat().st_ino == kept
    assert seen[-1] == ("building ImageNet-100", 4, 4)


def test_files_are_copied_where_links_cannot_be(full, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("another disk")

    monkeypatch.setattr(os, "link", refuse)
    build(full, tmp_path / "out", ("n2", "n4"))
    copied = tmp_path / "out/train/n2/0.JPEG"
    assert copied.read_bytes() == b"trainn20"
    assert copied.stat().st_nlink == 1
    assert not list((tmp_path / "out").rglob("*.part"))


def test_missing_classes_are_named(full, tmp_path):
    with pytest.raises(ValueError, match=r"lacks 2 of the 4 folders of ImageNet-100: train/n9, val/n9"):
        build(full, tmp_path / "out", ("n1", "n9"))
    assert not (tmp_path / "out").exists()
