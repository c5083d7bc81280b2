"""A run goes to the hub and comes back as it was, or not at all; against a stand-in of the hub on this machine."""

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from hub_server import TOKEN, Hub, Repository, files_on
from torch import nn

import frost
from cluster_extras import needs
from frost import hub
from frost.checkpoint import load, pretrained, save, verify
from frost.cli import main
from frost.commands.push import push_run
from frost.config import to_dict
from frost.directory import MANIFEST, manifest_bytes
from frost.zoo.registry import SIZES, build

needs("huggingface_hub", "hub")


@pytest.fixture(scope="module")
def server():
    return Hub()


@pytest.fixture(autouse=True)
def _this_hub(server, tmp_path, monkeypatch):
    """An empty hub, an empty cache, a token; huggingface_hub reads its environment once, so its constants are set."""
    from huggingface_hub import constants

    server.repositories.clear()
    server.asked.clear()
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE",
                        server.url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("FROST_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def offline(monkeypatch):
    """Forbids huggingface_hub the network, from when it is called."""
    from huggingface_hub import constants

    return lambda: monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


@pytest.fixture
def own_run(tmp_path):
    """A small run with a further file of its own."""
    tiny = replace(SIZES["resnet-8px"], channels=16, bottleneck=8, depth=4)
    save(tmp_path / "run", build(tiny, seed=0), {"data": "digits", "model": to_dict(tiny)}, extras={"notes.txt": b"x"})
    return tmp_path / "run"


def test_only_what_the_manifest_lists_is_sent(server, own_run):
    (own_run / "secret.txt").write_text("a key")
    push_run(own_run, "me/digits")
    assert sorted(files_on(server)) == ["MANIFEST.json", "README.md", "config.json", "notes.txt", "weights.safetensors"]


def test_the_weights_go_by_the_protocol_for_large_files(server):
    push_run("digits", "me/digits")
    assert any(line.endswith("/objects/batch") for line in server.asked)
    assert files_on(server)["weights.safetensors"] == (pretrained()["digits"] / "weights.safetensors").read_bytes()


def test_a_push_is_one_commit(server):
    push_run("digits", "me/digits")
    assert len(server.repositories["me/digits"].commits) == 1


def test_a_push_of_the_same_run_changes_nothing():
    assert push_run("digits", "me/digits").sent.commit == push_run("digits", "me/digits").sent.commit


def test_a_public_repository_does_not_become_private_unseen(server):
    push_run("digits", "me/digits")
    before = files_on(server)
    with pytest.raises(ValueError, match="exists and is public"):
        push_run("mazes", "me/digits", private=True)
    assert files_on(server) == before


def test_pushing_without_a_token_says_how_to_log_in(server, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(ValueError, match=r"me/digits.*hf auth login, or HF_TOKEN"):
        push_run("digits", "me/digits")
    assert server.repositories == {}


def test_nothing_is_pushed_offline(server, offline):
    offline()
    with pytest.raises(ValueError, match="HF_HUB_OFFLINE"):
        push_run("digits", "me/digits")
    assert server.asked == []


def test_a_damaged_run_is_not_pushed(server, own_run):
    (own_run / "weights.safetensors").write_bytes(b"rust")
    with pytest.raises(ValueError, match=r"weights\.safetensors is damaged"):
        push_run(own_run, "me/digits")
    assert server.asked == []


def test_a_run_with_another_kind_of_file_is_not_pushed(server, tmp_path):
    tiny = replace(SIZES["resnet-8px"], channels=16, bottleneck=8, depth=4)
    save(tmp_path / "run", build(tiny, seed=0), {"model": to_dict(tiny)}, extras={"tool.py": b"print()"})
    with pytest.raises(ValueError, match=r"lists 'tool\.py'"):
        push_run(tmp_path / "run", "me/digits")
    assert server.asked == []


@pytest.mark.parametrize("name", ["digits", "hf://me/digits", "me/digits@main", "me/", "a/b/c"])
def test_a_repository_is_a_user_or_group_with_a_name(name):
    with pytest.raises(ValueError, match="name it user/name"):
        push_run("digits", name)


def test_a_dry_run_sends_nothing(server, capsys):
    assert main(["push", "digits", "me/digits", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("---\nlibrary_name: frost\n")
    assert server.asked == []


def test_a_card_of_ones_own_is_sent_as_it_is(server, tmp_path):
    (tmp_path / "card.md").write_text("---\nlicense: mit\n---\n# Mine\n")
    push_run("digits", "me/digits", card=tmp_path / "card.md")
    assert files_on(server)["README.md"] == b"---\nlicense: mit\n---\n# Mine\n"


def test_a_run_comes_back_as_it_was():
    push_run("digits", "me/digits")
    ours, theirs = load("digits"), frost.load("hf://me/digits")
    assert theirs.config == ours.config
    assert theirs.calibration.at_mean_depth(2.2) == ours.calibration.at_mean_depth(2.2)
    images = torch.rand(4, 1, 8, 8)
    assert torch.equal(theirs.model(images).outputs, ours.model(images).outputs)


def test_only_what_the_manifest_lists_is_fetched(server):
    push_run("digits", "me/digits")
    server.repositories["me/digits"].commit("main", {"modeling.py": b"raise SystemExit", "weights.bin": b"\0pickle"})
    path = frost.load("hf://me/digits").path
    assert sorted(file.name for file in path.iterdir()) == sorted([*verify(path)["files"], MANIFEST])
    assert not any("modeling.py" in line or "weights.bin" in line for line in server.asked)


def test_a_pinned_revision_stays_what_it_was(own_run):
    first = push_run("digits", "me/run").sent.commit
    second = push_run(own_run, "me/run").sent.commit
    assert load(f"hf://me/run@{first}").model.depth == 8
    assert load(f"hf://me/run@{second}").model.depth == load("hf://me/run").model.depth == 4


def test_a_pinned_commit_that_is_there_is_not_asked_for(server):
    address = f"hf://me/digits@{push_run('digits', 'me/digits').sent.commit}"
    load(address)
    server.asked.clear()
    load(address)
    assert server.asked == []


def test_a_branch_is_pushed_to_by_its_name(own_run):
    push_run("digits", "me/run")
    push_run(own_run, "me/run", branch="small")
    assert load("hf://me/run@small").model.depth == 4
    assert load("hf://me/run").model.depth == 8


def test_a_private_repository_needs_a_token(monkeypatch):
    push_run("digits", "me/digits", private=True)
    with monkeypatch.context() as another:
        another.setenv("HF_TOKEN", "hf_of_somebody")
        with pytest.raises(ValueError, match="hf auth login"):
            load("hf://me/digits")
    assert load("hf://me/digits").model.depth == 8


@pytest.mark.parametrize("name", ["weights.safetensors", "config.json", "calibration.json", "origin.json", MANIFEST])
def test_a_file_that_was_tampered_with_is_refused(server, name, tmp_path):
    push_run("digits", "me/digits")
    content = bytearray(files_on(server)[name])
    content[len(content) // 2] ^= 1
    server.repositories["me/digits"].commit("main", {name: bytes(content)})
    with pytest.raises(ValueError, match=rf"(?s)hf://me/digits.*{name}|{name}.*"):
        load("hf://me/digits")
    assert not list((tmp_path / "cache").glob("hub/*/*/weights.safetensors"))


def test_a_file_that_is_missing_is_refused(server):
    push_run("digits", "me/digits")
    files = {name: content for name, content in files_on(server).items() if name != "config.json"}
    server.repositories["me/digits"].branches.clear()
    server.repositories["me/digits"].commit("main", files)
    with pytest.raises(ValueError, match=r"hf://me/digits/config\.json is missing"):
        load("hf://me/digits")


def test_a_copy_that_was_damaged_here_is_made_again():
    push_run("digits", "me/digits")
    path = load("hf://me/digits").path
    (path / "weights.safetensors").write_bytes(b"rust")
    assert load("hf://me/digits").model.depth == 8
    assert verify(path)


@pytest.mark.parametrize("name", ["code.py", "weights.bin", "../up.json", "a*.json", "model.pkl"])
def test_a_manifest_that_lists_other_kinds_of_files_is_refused(server, name):
    push_run("digits", "me/digits")
    manifest = json.loads(files_on(server)[MANIFEST])
    manifest["files"][name] = {"bytes": 1, "sha256": "0"}
    server.repositories["me/digits"].commit("main", {MANIFEST: manifest_bytes(manifest), name: b"x"})
    with pytest.raises(ValueError, match="holds only files of the kinds"):
        load("hf://me/digits")


def test_a_repository_that_is_no_run_is_refused(server):
    server.repositories["me/other"] = Repository(private=False)
    server.repositories["me/other"].commit("main", {"pytorch_model.bin": b"\0", "config.json": b"{}"})
    with pytest.raises(ValueError, match=r"hf://me/other is no run of frost: it has no MANIFEST\.json"):
        load("hf://me/other")


@pytest.mark.parametrize(("address", "words"), [
    ("hf://me/nothing", "knows no such repository"),
    ("hf://me/digits@1234", "no such revision"),
    ("hf://digits", "no address of a run"),
    ("hf://me/digits@", "no address of a run"),
    ("hf://me/digits@../../x", "no address of a run"),
])
def test_an_address_that_leads_nowhere_is_one_sentence(address, words):
    push_run("digits", "me/digits")
    with pytest.raises(ValueError, match=words) as caught:
        load(address)
    assert "\n" not in str(caught.value)


def test_a_run_that_was_loaded_once_is_there_offline(server, offline):
    push_run("digits", "me/digits")
    load("hf://me/digits")
    server.asked.clear()
    offline()
    assert load("hf://me/digits").model.depth == 8
    assert server.asked == []


def test_a_run_that_was_never_loaded_is_refused_offline(offline):
    push_run("digits", "me/digits")
    offline()
    with pytest.raises(ValueError, match="HF_HUB_OFFLINE keeps frost from asking the hub; unset it"):
        load("hf://me/digits")


def test_a_hub_that_does_not_answer_leaves_what_is_in_the_cache(monkeypatch):
    from huggingface_hub import constants

    push_run("digits", "me/digits")
    load("hf://me/digits")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setattr(constants, "ENDPOINT", nowhere)
    assert load("hf://me/digits").model.depth == 8
    with pytest.raises(ValueError, match=rf"{nowhere} does not answer, and hf://me/mazes is not whole in the cache"):
        load("hf://me/mazes")
    with pytest.raises(ValueError, match=f"{nowhere} does not answer"):
        push_run("digits", "me/digits")


def test_a_block_of_ones_own_is_filled(tmp_path):
    def block():
        inner = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8))
        return frost.Frost(nn.Linear(4, 8), inner, head=frost.Classifier(8, 2), depth=3)

    model = block()
    model.save(tmp_path / "run")
    pushed = push_run(tmp_path / "run", "me/block")
    assert "model=model" in pushed.card
    theirs = frost.load("hf://me/block", model=block()).model
    assert torch.equal(theirs(torch.ones(1, 4)).outputs, model.eval()(torch.ones(1, 4)).outputs)
    with pytest.raises(ValueError, match="a model of your own; pass it"):
        frost.load("hf://me/block")


def test_a_run_of_the_hub_is_not_calibrated_in_place(capsys):
    push_run("digits", "me/digits")
    assert main(["calibrate", "hf://me/digits"]) == 2
    assert "stays as it is; copy" in capsys.readouterr().err


@pytest.mark.slow
def test_a_verb_takes_an_address_in_a_process_of_its_own(server, tmp_path):
    address = f"hf://me/digits@{push_run('digits', 'me/digits').sent.commit}"
    environment = {**os.environ, "HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path / "home")}

    def evaluate(address, **more):
        return subprocess.run([sys.executable, "-m", "frost", "evaluate", address, "--json"], capture_output=True,
                              text=True, timeout=100, env=environment | more, check=False)

    done = evaluate(address)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["run"] == address
    assert "%|" not in done.stderr    # no bars where nobody looks
    assert evaluate(address, HF_HUB_OFFLINE="1").returncode == 0
    refused = evaluate("hf://me/other", HF_HUB_OFFLINE="1")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub.constants", None)
    with pytest.raises(ValueError, match=r"pip install -e '\.\[hub\]'"):
        hub.library()


def test_a_model_begins_with_weights_of_the_hub():
    push_run("digits", "me/digits")
    model = frost.create("hf://me/digits", classes=3, pretrained=True)
    ours = load("digits").model.state_dict()
    assert all(torch.equal(value, ours[name]) for name, value in model.state_dict().items() if name[:5] != "head.")
