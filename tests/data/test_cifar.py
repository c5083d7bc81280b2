import pickle
import shutil
import tarfile

import numpy as np
import pytest
import torch

from frost.data.cifar import CIFAR10, CIFAR100, find_cifar, load_cifar, read_table


def packed(folder, target):
    """The set as its archive, made by the standard library."""
    with tarfile.open(target, "w:gz") as archive:
        for path in sorted(folder.iterdir()):
            archive.add(path, f"{CIFAR100.folder}/{path.name}")


def test_images_come_out_as_they_were_written(small_set):
    folder, layout = small_set("cifar")
    data = load_cifar(folder, layout)
    written = pickle.loads((folder / "test").read_bytes())
    assert torch.equal(data.test.images, torch.from_numpy(written[b"data"].reshape(-1, 3, 32, 32)))
    assert data.test.labels.tolist() == written[b"fine_labels"]
    assert data.test.images.dtype == torch.uint8


def test_validation_is_held_out_of_train(small_set):
    folder, layout = small_set("cifar")
    data = load_cifar(folder, layout)
    written = pickle.loads((folder / "train").read_bytes())[b"data"].reshape(-1, 3, 32, 32)
    assert [len(data.train), len(data.validation), len(data.test)] == [90, 10, 100]
    assert torch.bincount(data.validation.labels).tolist() == [2] * 5
    joined = torch.cat([data.train.images, data.validation.images])
    assert sorted(map(bytes, joined.numpy())) == sorted(map(bytes, written))


def test_classes_have_their_names(small_set):
    folder, layout = small_set("cifar")
    assert load_cifar(folder, layout).classes == tuple(f"class {number}" for number in range(5))


def test_folder_parent_and_archive_give_the_same(small_set, tmp_path):
    folder, layout = small_set("cifar")
    expected = load_cifar(folder, layout)
    shutil.copytree(folder, tmp_path / "parent" / layout.folder)
    (tmp_path / "archived").mkdir()
    packed(folder, tmp_path / "archived" / layout.archive)
    for place in (tmp_path / "parent", tmp_path / "archived", tmp_path / "archived" / layout.archive):
        data = load_cifar(place, layout)
        assert torch.equal(data.train.images, expected.train.images)
        assert torch.equal(data.validation.labels, expected.validation.labels)


def test_several_train_files_are_joined_in_order(small_set):
    folder, layout = small_set("cifar")
    shutil.copy(folder / "train", folder / "second")
    layout = layout._replace(train={"train": 100, "second": 100}, pins={**layout.pins, "second": layout.pins["train"]})
    data = load_cifar(folder, layout)
    assert len(data.train) + len(data.validation) == 200
    assert torch.equal(data.train.labels[:50].unique(), torch.arange(5))


def test_a_folder_without_the_set_is_an_error(tmp_path):
    assert find_cifar(tmp_path, CIFAR100) is None
    with pytest.raises(ValueError, match=r"neither cifar-100-python/ nor cifar-100-python\.tar\.gz"):
        load_cifar(tmp_path, CIFAR100)


def test_a_repacked_archive_is_refused_if_a_member_changed(small_set, tmp_path):
    folder, layout = small_set("cifar")
    (folder / "meta").write_bytes((folder / "meta").read_bytes() + b" ")
    packed(folder, tmp_path / layout.archive)
    with pytest.raises(ValueError, match=r"meta in .*tar\.gz is not the official file"):
        load_cifar(tmp_path, layout)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_truncated_archive_is_refused(small_set, tmp_path, share):
    folder, layout = small_set("cifar")
    packed(folder, tmp_path / layout.archive)
    content = (tmp_path / layout.archive).read_bytes()
    (tmp_path / layout.archive).write_bytes(content[:int(share * len(content))])
    with pytest.raises(ValueError, match=layout.archive):
        load_cifar(tmp_path, layout)


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "numpy.load", "numpy.core.multiarray.scalar"])
def test_a_pickle_may_look_up_nothing_but_arrays(name):
    module, _, function = name.rpartition(".")
    content = b"\x80\x02c" + f"{module}\n{function}\n".encode() + b"."
    with pytest.raises(ValueError, match=f"that is not|it asks for {name}"):
        read_table(content, "that")


@pytest.mark.parametrize("module", [b"numpy.core.multiarray", b"numpy._core.multiarray"])
def test_arrays_of_either_numpy_are_read(module):
    array = np.arange(6, dtype=np.uint8)
    content = pickle.dumps({b"data": array}, protocol=3)
    content = content.replace(b"numpy._core.multiarray", module).replace(b"numpy.core.multiarray", module)
    assert np.array_equal(read_table(content, "that")["data"], array)


def test_every_file_that_is_read_is_pinned():
    for layout in (CIFAR10, CIFAR100):
        assert {*layout.train, *layout.test, layout.meta} == set(layout.pins)
        assert sum(layout.train.values()) == 50_000
        assert {len(pin) for pin in layout.pins.values()} == ({32} if layout is CIFAR10 else {64})
