"""A package gives the model's answers where PyTorch is not; what is damaged or cannot be exported is refused."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import frost
from frost import directory
from frost.cli import main
from frost.data.images import load_image
from frost.exporting.check import checked
from frost.exporting.host import Host
from frost.exporting.host_cli import read_image
from frost.exporting.package import export_run
from frost.runtime.reference import predict_slowly
from frost.zoo.registry import SIZES, build

onnxruntime = pytest.importorskip("onnxruntime")
from frost.runtime.onnx_backend import open_session  # noqa: E402 - needs the extra

BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "frost", "safetensors", "scipy", "sklearn"):
            raise ImportError(name + " must not be needed")
sys.meta_path.insert(0, Blocked())
"""


def host_of(path, slots=16):
    return Host(path, slots, open_with=lambda graph: open_session(onnxruntime, graph))


@pytest.fixture(scope="module")
def digits():
    return frost.load("digits")


@pytest.fixture(scope="module")
def package(digits, tmp_path_factory):
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("export") / "digits"
    assert main(["export", "digits", "--out", str(path), "--quantile", "0.5"]) == 0
    return path


@pytest.fixture
def copy(package, tmp_path):
    return Path(shutil.copytree(package, tmp_path / "copy"))


@pytest.fixture(scope="module")
def images():
    from frost.data.digits import load_digits

    return load_digits().test.images[:70]


@pytest.mark.slow
@pytest.mark.parametrize("slots", [1, 3, 16, 200])
def test_host_gives_the_answers_of_the_model_for_any_slot_count(package, digits, images, slots):
    ours = host_of(package, slots).predict(images.numpy())
    theirs = predict_slowly(digits.model, digits.calibration.at_quantile(0.5), images)
    assert ours.depths.tolist() == theirs.depth.tolist()
    assert len(set(ours.depths.tolist())) > 2
    np.testing.assert_allclose(ours.outputs, theirs.outputs, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-5)


def test_a_budget_of_the_table_gives_its_mean_depth(package, digits, images):
    host = host_of(package)
    for budget in host.policy["budgets"]:
        found = host.predict(images.numpy(), budget["mean_depth"])
        assert abs(found.depths.mean() - budget["mean_depth"]) < 0.5
    assert (host.predict(images.numpy(), digits.model.depth).depths == digits.model.depth).all()


def test_a_stream_is_answered_in_its_order(package, images):
    host = host_of(package, 4)
    together, stream = host.predict(images.numpy()), list(host.run(iter(images.numpy())))
    assert [answer.number for answer in stream] == list(range(len(images)))
    assert [answer.depth for answer in stream] == together.depths.tolist()


def test_an_empty_batch_has_no_answers(package):
    assert host_of(package).predict(np.zeros((0, 1, 8, 8), np.float32)).depths.tolist() == []


@pytest.mark.parametrize(("inputs", "words"), [
    (np.zeros((2, 1, 9, 8), np.float32), "shape"), (np.zeros((2, 1, 8, 8), np.uint8), "float32"),
    (np.full((2, 1, 8, 8), np.nan, np.float32), "NaN"), (np.float32(0), "shape"),
    ((np.zeros((2, 1, 8, 8)), np.zeros(2)), "1 arrays")])
def test_host_refuses_odd_inputs_in_a_sentence(package, inputs, words):
    with pytest.raises(ValueError, match=words):
        host_of(package).predict(inputs)


def test_host_refuses_a_budget_beyond_the_depth(package, images):
    with pytest.raises(ValueError, match="between 1 and 8"):
        host_of(package).predict(images.numpy(), 9)


@pytest.mark.parametrize("name", ["begin.onnx", "step.onnx", "policy.json", "golden.npz", "host.py", "host.mjs"])
def test_check_names_a_changed_file(copy, name):
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} is damaged"):
        checked(copy)


def test_host_itself_names_a_changed_file(copy):
    (copy / "step.onnx").write_bytes((copy / "step.onnx").read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"step\.onnx is damaged"):
        host_of(copy)


def test_check_on_the_command_line_accepts_a_package(package, capsys):
    assert main(["export", "--check", str(package)]) == 0
    assert "128 golden inputs in ONNX Runtime: all right" in capsys.readouterr().out


def test_check_finds_answers_that_differ(copy):
    with np.load(copy / "golden.npz") as golden:
        arrays = dict(golden)
    arrays["outputs"][3, 0] += 1e-3
    arrays["depths"][5] += 1
    np.savez(copy / "golden.npz", **arrays)
    manifest = directory.read_json(copy / directory.MANIFEST)
    manifest["files"]["golden.npz"] = directory.facts_of(copy / "golden.npz")
    (copy / directory.MANIFEST).write_bytes(directory.manifest_bytes(manifest))
    assert checked(copy).found.wrong == [3, 5]


@pytest.mark.slow
def test_host_runs_where_torch_and_frost_are_not(package):
    code = f"{BLOCKED}\nimport runpy\nsys.path.insert(0, {str(package)!r})\nsys.argv = ['host.py', '--check']\n" \
           f"runpy.run_path({str(package / 'host.py')!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, timeout=60, check=False,
                          cwd="/", env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("128 inputs: 0 wrong")


@pytest.mark.slow
def test_host_classifies_image_files_as_predict_does(package, images, tmp_path):
    from frost.commands.predict import predict
    from frost.halting.budget import Budget

    files = [tmp_path / f"{number}.png" for number in range(6)]
    for file, image in zip(files, images, strict=False):
        Image.fromarray((image[0].numpy() * 255).astype(np.uint8)).resize((20, 16)).save(file)
    done = subprocess.run([sys.executable, "-B", package / "host.py", "--budget", "1.6", *files], capture_output=True,
                          text=True, timeout=60, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    rows = predict("digits", files, Budget(mean_depth=1.6)).rows
    assert done.stdout.splitlines() == [f"{row.file}\t{row.name}\t{row.confidence:.1%}\tdepth {row.depth}"
                                        for row in rows]


def node_modules():
    """Where onnxruntime is for Node, if it is."""
    folder = os.environ.get("FROST_NODE_MODULES")
    return Path(folder) if folder and shutil.which("node") else None


@pytest.mark.skipif(node_modules() is None, reason="needs Node, and onnxruntime-node in the folder FROST_NODE_MODULES")
def test_node_gives_the_same_classes_at_the_same_depths(copy):
    (copy / "node_modules").symlink_to(node_modules())
    done = subprocess.run(["node", copy / "host.mjs", "--check"], capture_output=True, text=True, timeout=60,
                          check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("128 inputs: 0 wrong")


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "I;16", "P"])
def test_host_reads_images_as_frost_does(tmp_path, mode):
    levels = np.random.default_rng(0).integers(0, 256, (21, 33, 4), dtype=np.uint8)
    image = {"RGB": lambda: Image.fromarray(levels[..., :3]), "RGBA": lambda: Image.fromarray(levels),
             "L": lambda: Image.fromarray(levels[..., 0]), "P": lambda: Image.fromarray(levels[..., :3]).quantize(16),
             "I;16": lambda: Image.fromarray(levels[..., 0].astype(np.uint16) * 257)}[mode]()
    image.save(tmp_path / "image.png")
    for channels in (1, 3):
        theirs = load_image(tmp_path / "image.png", 8, channels).float() / 255
        assert np.array_equal(read_image(tmp_path / "image.png", 8, channels), theirs.numpy())


@pytest.mark.slow
def test_a_signal_that_remembers_is_exported_with_its_memory(tmp_path):
    model = build(replace(SIZES["vit-8px"], channels=16, heads=2, depth=5), seed=0)
    report = frost.export(model, frost.Rule("patience", (1.0,)), None, tmp_path / "out")
    assert report.found.inputs >= 64
    assert not report.found.wrong
    assert json.loads((tmp_path / "out" / "policy.json").read_text())["memory"]


class Masked(nn.Module):
    """Vectors and a mask of those that count, as a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Embedding(11, 8)

    def forward(self, inputs):
        return self.linear(inputs["tokens"]), {"mask": inputs["mask"]}


class Around(nn.Module):
    """A block that looks at its neighbours and at the mask."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, hidden, mask):
        return torch.tanh(self.linear(hidden.roll(1, 1))) * mask[..., None]


@pytest.mark.slow
def test_a_model_of_the_users_with_several_inputs_is_exported(tmp_path):
    model = frost.Frost(Masked(), Around(), head=frost.Classifier(8, 3), depth=4)
    example = {"tokens": torch.arange(6), "mask": torch.tensor([True] * 5 + [False])}
    report = frost.export(model, frost.stop_when(confidence=0.36), example, tmp_path / "out")
    assert not report.found.wrong
    host = host_of(tmp_path / "out", 4)
    batch = {"tokens": torch.randint(0, 11, (9, 6)), "mask": example["mask"].repeat(9, 1)}
    theirs = frost.Engine(model, frost.stop_when(confidence=0.36), example=example).predict(batch)
    ours = host.predict({name: part.numpy() for name, part in batch.items()})
    assert ours.depths.tolist() == theirs.depth.tolist()
    np.testing.assert_allclose(ours.outputs, theirs.outputs, atol=1e-4)


@pytest.mark.slow
def test_a_model_without_a_calibration_is_exported_with_whole_steps(tmp_path):
    model = build(replace(SIZES["line"], channels=8, depth=3, image_size=12), seed=0)
    assert not frost.export(model, frost.AtDepth(2), None, tmp_path / "out").found.wrong
    host = host_of(tmp_path / "out")
    inputs = np.random.default_rng(0).random((5, *model.signature.parts[0].shape), np.float32)
    assert [int(host.predict(inputs, budget).depths.max()) for budget in (1, 2, 3)] == [1, 2, 3]


class Sorted(nn.Module):
    """A block whose operation ONNX does not have."""

    def forward(self, hidden):
        return torch.linalg.eigvalsh(hidden[:, :, None] * hidden[:, None, :])


def test_an_operation_that_cannot_be_exported_is_named(tmp_path):
    model = frost.Frost(nn.Linear(4, 4), Sorted(), head=frost.Classifier(4, 2), depth=3)
    with pytest.raises(ValueError, match=r"cannot be exported.*eigh"):
        frost.export(model, frost.AtDepth(3), torch.zeros(4), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_else_is_left_alone(digits, copy):
    (copy / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"notes\.txt, which would be lost"):
        export_run(digits, frost.AtDepth(8), copy, "digits")
    assert (copy / "notes.txt").read_text() == "mine"


def test_a_model_with_weights_for_each_step_is_refused(tmp_path):
    model = build(replace(SIZES["vit-8px"], channels=16, heads=2, depth=3, architecture="vanilla"), seed=0)
    with pytest.raises(ValueError, match="weights of its own for each step"):
        frost.export(model, frost.AtDepth(3), None, tmp_path / "out")
