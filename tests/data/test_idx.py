import gzip
import hashlib
import shutil

import numpy as np
import pytest
import torch

from frost.data.idx import FASHION_MNIST, MNIST, Pins, find_idx, load_idx, parse_idx

IMAGES = "train-images-idx3-ubyte"


def test_images_come_out_as_they_were_written(small_set):
    folder, layout = small_set("idx")
    data = load_idx(folder, layout)
    content = gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes())
    assert bytes(data.test.images.numpy()) == content[16:]
    assert [len(data.train), len(data.validation), len(data.test)] == [90, 10, 100]
    assert data.train.image_shape == (1, 28, 28)


def test_unpacked_files_of_either_spelling_give_the_same(small_set, tmp_path):
    folder, layout = small_set("idx")
    expected = load_idx(folder, layout)
    layout = layout._replace(pins={name: Pins(None) for name in layout.pins})
    for spelling in ("-idx", ".idx"):
        other = tmp_path / f"unpacked{spelling}"
        other.mkdir()
        for path in folder.iterdir():
            (other / path.stem.replace("-idx", spelling)).write_bytes(gzip.decompress(path.read_bytes()))
        assert torch.equal(load_idx(other, layout).train.images, expected.train.images)


@pytest.mark.parametrize("inside", ["mnist", "MNIST/raw", "."])
def test_the_files_are_found_in_the_usual_folders(small_set, tmp_path, inside):
    folder, layout = small_set("idx")
    shutil.copytree(folder, tmp_path / "root" / inside)
    assert find_idx(tmp_path / "root", layout) == tmp_path / "root" / inside
    assert len(load_idx(tmp_path / "root", layout).test) == 100


def test_a_file_that_is_missing_is_named(small_set):
    folder, layout = small_set("idx")
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(ValueError, match=r"lacks t10k-labels-idx1-ubyte\.gz"):
        load_idx(folder, layout)


def test_a_changed_unpacked_file_is_refused_by_its_hash(small_set):
    folder, layout = small_set("idx")
    (folder / IMAGES).write_bytes(gzip.decompress((folder / f"{IMAGES}.gz").read_bytes()))
    (folder / f"{IMAGES}.gz").unlink()
    layout = layout._replace(pins={name: pins._replace(plain="0" * 64) for name, pins in layout.pins.items()})
    with pytest.raises(ValueError, match=f"{IMAGES} is not the official file"):
        load_idx(folder, layout)


def test_a_gzip_bomb_is_unpacked_no_further_than_the_file_may_be_long(small_set):
    import tracemalloc

    folder, layout = small_set("idx")
    (folder / f"{IMAGES}.gz").write_bytes(gzip.compress(bytes(200_000_000), 1))
    layout = layout._replace(pins={name: Pins(None) for name in layout.pins})
    tracemalloc.start()
    with pytest.raises(ValueError, match=f"{IMAGES}.gz must be an idx file"):
        load_idx(folder, layout)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


@pytest.mark.parametrize("content", [b"", b"\0\0\x08\x01", b"\0\0\x08\x03\0\0\0\x02ab", b"\0\0\x08\x01\0\0\0\x02abc",
                                     b"\0\0\x08\x01\0\0\0\x03ab", b"\0\0\x09\x01\0\0\0\x02ab"])
def test_a_header_must_agree_with_the_file(content):
    with pytest.raises(ValueError, match="that must be an idx file of 2 bytes"):
        parse_idx(content, (2,), "that")


def test_an_array_is_read_behind_its_header():
    assert np.array_equal(parse_idx(b"\0\0\x08\x01\0\0\0\x02ab", (2,), "that"), np.frombuffer(b"ab", np.uint8))


def test_the_files_of_both_sets_are_pinned_packed_and_not():
    for layout in (MNIST, FASHION_MNIST):
        assert [len(pin) for pins in layout.pins.values() for pin in pins] == [64] * 8
        assert len(layout.classes) == 10


def test_a_file_that_another_gzip_has_packed_is_known_by_what_is_inside(small_set):
    folder, layout = small_set("idx")
    expected = load_idx(folder, layout)
    contents = {path.stem: gzip.decompress(path.read_bytes()) for path in folder.iterdir()}
    layout = layout._replace(pins={name: pins._replace(plain=hashlib.sha256(contents[name]).hexdigest())
                                   for name, pins in layout.pins.items()})
    for name, content in contents.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(content, 1, mtime=0))
    assert torch.equal(load_idx(folder, layout).train.images, expected.train.images)
    changed = contents[IMAGES][:-1] + bytes([contents[IMAGES][-1] ^ 1])
    (folder / f"{IMAGES}.gz").write_bytes(gzip.compress(changed))
    with pytest.raises(ValueError, match=rf"{IMAGES}\.gz is not the official file"):
        load_idx(folder, layout)
