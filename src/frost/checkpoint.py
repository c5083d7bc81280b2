"""A run directory: weights, configuration, calibration and a manifest; written whole or not at all, verified when read.

    RUN/weights.safetensors   RUN/config.json   RUN/calibration.json   RUN/MANIFEST.json   and what a command adds

The directory is built beside its destination, fsynced, the manifest written last, and renamed into place. Reading
checks the size and SHA-256 of each file before a tensor is used. No pickle anywhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_model

from frost import directory, hub
from frost.config import from_dict, to_dict
from frost.core.inputs import Signature
from frost.core.precision import Device, resolve_device
from frost.core.trajectory import IterativeModel
from frost.halting.calibration import Calibration
from frost.legacy import modern_model
from frost.weights import built_for, check_header, load_weights
from frost.zoo.registry import ModelConfig

WEIGHTS, CONFIG, CALIBRATION = "weights.safetensors", "config.json", "calibration.json"
CHECKPOINTS = "checkpoints"   # the folder in a run that is being trained where its resume points lie


class Run(NamedTuple):
    """What a run directory holds."""

    path: Path
    model: IterativeModel
    calibration: Calibration | None
    config: dict[str, Any]

    def class_names(self, count: int) -> list[str]:
        """The names of so many classes that the run keeps, else the labels themselves."""
        names = self.config.get("classes")
        known = names if isinstance(names, list) and len(names) == count else range(count)
        return [str(name) for name in known]


def weights_hash(model: IterativeModel) -> str:
    """SHA-256 of every tensor's name, type, shape and bytes; the same wherever and however they are stored."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)}".encode())
        digest.update(values.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def save(path: Path | str, model: IterativeModel, config: Mapping[str, Any], calibration: Calibration | None = None,
         extras: Mapping[str, bytes] | None = None) -> None:
    """Write a run directory at `path`, replacing an older run there, never anything else.

    Args:
        config: plain values; the group `model` describes the model, if it is one of the zoo.
        extras: further files by name, such as tables and figures.
    """
    path = Path(os.path.abspath(path))    # also takes out "..", which cannot be renamed
    check_destination(path)
    with directory.built_aside(path) as building:
        write_files(building, model, config, calibration, extras)
        directory.move_into_place(building, path, check_destination)


def save_model_run(path: Path | str, model: IterativeModel, calibration: Calibration | None = None) -> None:
    """`model.save(path)`: a run of any model, with what is known of its inputs and a calibration for these weights.

    A model of the zoo is described, so that `frost.load(path)` builds it; any other is passed to `load`.
    """
    config: dict[str, Any] = {"depth": model.depth, "inputs": None if model.signature is None else
                              model.signature.to_json()}
    if model.zoo_config is not None:
        config["model"] = to_dict(model.zoo_config)
    if calibration is None and model.calibration is not None:
        if model.calibration.weights_hash == weights_hash(model):
            calibration = model.calibration
        else:
            warnings.warn("the weights have changed since the model was calibrated, so that calibration is not saved; "
                          "calibrate again", stacklevel=3)
    if calibration is not None and _holds_these_weights(Path(path), model):
        recalibrate(Path(path), calibration)    # the folder of a training keeps its logbook
        return
    save(path, model, config, calibration)


def _holds_these_weights(path: Path, model: IterativeModel) -> bool:
    """Whether a whole run with just these weights lies there."""
    try:
        verify(path)
        stored = load_file(path / WEIGHTS)
    except (ValueError, OSError, SafetensorError):
        return False
    ours = model.state_dict()
    return stored.keys() == ours.keys() and all(torch.equal(part, ours[name].cpu()) for name, part in stored.items())


def finish(path: Path, model: IterativeModel, config: Mapping[str, Any], calibration: Calibration | None = None,
           extras: Mapping[str, bytes] | None = None) -> None:
    """Make the folder of a training that has ended a run directory: its files move in one by one, the manifest last.

    Until then the folder is no run; what else lies there, such as the logbook, stays.
    """
    for half in path.glob(".run.*.tmp"):
        shutil.rmtree(half, ignore_errors=True)    # an earlier attempt that was killed
    with directory.explained(path):
        with directory.built_aside(path / "run") as building:
            write_files(building, model, config, calibration, extras)
            names = sorted(file.name for file in building.iterdir() if file.name != directory.MANIFEST)
            for name in names:
                (building / name).rename(path / name)
            directory.fsync(path)    # the manifest vouches for the others, so they are on the disk first
            (building / directory.MANIFEST).rename(path / directory.MANIFEST)
        directory.fsync(path)


def write_files(folder: Path, model: IterativeModel, config: Mapping[str, Any], calibration: Calibration | None = None,
                extras: Mapping[str, bytes] | None = None) -> None:
    """Everything that makes an empty folder a run directory, sealed and on the disk."""
    for name in extras or {}:
        if not name or Path(name).name != name or name in (directory.MANIFEST, WEIGHTS, CONFIG, CALIBRATION):
            raise ValueError(f"extras are plain names of further files, got '{name}'.")
    save_model(model, str(folder / WEIGHTS))
    directory.write_json(folder / CONFIG, dict(config))
    if calibration is not None:
        if calibration.weights_hash != weights_hash(model):
            raise ValueError("the calibration was made for other weights; calibrate this model first.")
        directory.write_json(folder / CALIBRATION, calibration.to_dict())
    for name, content in (extras or {}).items():
        (folder / name).write_bytes(content)
    directory.seal(folder, {"torch": torch.__version__, "threads": torch.get_num_threads()})


def recalibrate(path: Path, calibration: Calibration) -> None:
    """Give a run another calibration, in one rename: until then the old one counts, from then on the new one."""
    manifest = verify(path)
    old = calibration_in(manifest)
    name = CALIBRATION if old != CALIBRATION else "calibration-2.json"
    with directory.explained(path):
        directory.replace_file(path / name, (json.dumps(calibration.to_dict()) + "\n").encode())
        manifest["files"].pop(old, None)
        manifest["files"][name] = directory.facts_of(path / name)
        directory.replace_file(path / directory.MANIFEST, directory.manifest_bytes(manifest))
        if old is not None:
            (path / old).unlink(missing_ok=True)


def calibration_in(manifest: Mapping[str, Any]) -> str | None:
    """The file that holds the calibration; recalibrating changes its name."""
    return next((name for name in manifest["files"] if name.startswith("calibration") and name.endswith(".json")), None)


def pretrained() -> dict[str, Path]:
    """The runs that come with the package, by name."""
    shelf = Path(str(resources.files("frost"))) / "pretrained"
    return {run.name: run for run in sorted(shelf.iterdir()) if run.is_dir()} if shelf.is_dir() else {}


def locate(path: Path | str) -> Path:
    """The run directory behind a path, the name of a pretrained run or hf://user/name; an existing folder wins.

    A folder where a training still goes on, or was interrupted, stands for its newest whole checkpoint; with a warning
    if there are final weights that no manifest vouches for.
    """
    if hub.is_address(path):
        return hub.fetch(path)
    folder = Path(path)
    if not folder.exists() and str(path) in pretrained():
        return pretrained()[str(path)]
    if not (folder / directory.MANIFEST).exists() and (folder / CHECKPOINTS).is_dir():
        whole = newest(folder / CHECKPOINTS)
        if whole is not None and (folder / WEIGHTS).exists():
            warnings.warn(f"{folder} has no {directory.MANIFEST}: lost, or the training was cut short at its end. "
                          f"Its last whole checkpoint, {whole.name}, is read; --resume ends a training.", stacklevel=2)
        return whole or folder
    return folder


def newest(checkpoints: Path, required: tuple[str, ...] = ()) -> Path | None:
    """The newest checkpoint that verifies and lists the `required` files too; None if there is none."""
    for candidate in sorted(checkpoints.glob("step-*"), reverse=True):
        try:
            directory.verify(candidate, (WEIGHTS, CONFIG, *required))
        except (ValueError, OSError):
            continue
        return candidate
    return None


def load(path: Path | str, model: IterativeModel | None = None, with_calibration: bool = True,
         device: Device | None = None) -> Run:
    """Verify and read a run directory; the model comes back in evaluation mode.

    Args:
        with_calibration: False leaves it out, also one that cannot be read: it is to be replaced.
        path: a folder, the name of a run that comes with the package, such as "digits", or `hf://user/name@revision`.
        model: a freshly built model to fill, where the block is your own and no configuration describes it.
        device: where the model shall run: auto, cpu, cuda or mps; None leaves it where it was made.
    """
    path = locate(path)
    manifest, config = _verified_or_offered(path), directory.read_json(path / CONFIG)
    if model is None:
        if not isinstance(config.get("model"), dict):
            raise ValueError(f"{path} was saved from a model of your own; pass it: frost.load(path, model=…).")
        config["model"] = modern_model(config["model"])
        model = built_for(path / WEIGHTS, from_dict(ModelConfig, config["model"], "model"))
    check_header(path / WEIGHTS)
    load_weights(path / WEIGHTS, model)
    model.eval()
    model.signature = Signature.from_json(config.get("inputs")) or model.signature
    calibration = None
    name = calibration_in(manifest)
    if name is not None and with_calibration:
        calibration = Calibration.from_dict(directory.read_json(path / name))
        if (calibration.weights_hash, calibration.depth) != (weights_hash(model), model.depth):
            other = "other weights" if calibration.depth == model.depth else f"a model of depth {calibration.depth}"
            raise ValueError(f"{path / name} belongs to {other}; make it again: frost calibrate {path}.")
    model.calibration = calibration
    if device is not None:
        model.to(resolve_device(device))
    return Run(path, model, calibration, config)


def _verified_or_offered(path: Path) -> dict[str, Any]:
    """Verify a run; if it is damaged and one of its checkpoints is whole, say so."""
    try:
        return verify(path)
    except ValueError as error:
        whole = newest(path / CHECKPOINTS) if (path / CHECKPOINTS).is_dir() else None
        if whole is None:
            raise
        raise ValueError(f"{error} Its last whole checkpoint is {whole}.") from error


def verify(path: Path) -> dict[str, Any]:
    """Check a run directory against its manifest, which is returned; anything amiss is a ValueError naming the file."""
    if not path.is_dir():
        aside = next(path.absolute().parent.glob(f".{path.name}.*.old/{path.name}"), None)
        names = ", ".join(pretrained())
        hint = (f"frost demo --out {path} makes one, and these come with the package: {names}" if aside is None else
                f"a save was cut short, and the older run lies in {aside}: move it back")
        raise ValueError(f"there is no run at {path}; {hint}.")
    return directory.verify(path, (WEIGHTS, CONFIG))


def check_destination(path: Path) -> None:
    """Refuse a destination that exists and is no run of ours, or that holds files a run did not write."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise ValueError(f"{path} exists and is not a folder; choose another folder.")
    if path.exists() and (path.is_mount() or path.samefile(Path.cwd())):
        raise ValueError(f"{path} is in use and cannot be replaced; choose a folder inside it, such as {path / 'run'}.")
    parent = next(folder for folder in Path(os.path.abspath(path)).parents if folder.exists())
    try:
        Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=parent)).rmdir()
    except OSError as error:
        raise ValueError(f"{path} cannot be made: {error.strerror} in {parent}; choose another folder.") from error
    if not path.exists() or not any(path.iterdir()):
        return
    try:
        listed = set(verify(path)["files"]) | {directory.MANIFEST}
    except ValueError as error:
        raise ValueError(f"{path} exists and holds something else ({error}) Choose another folder.") from error
    strangers = sorted(file.name for file in path.iterdir() if file.name not in listed)
    if strangers:
        raise ValueError(f"{path} holds a run and also {', '.join(strangers[:3])}, which would be lost; "
                         "choose another folder.")
