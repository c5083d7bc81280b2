"""Run directories made to do harm (F07): none may be executed, take a second or 64 MB.

    python campaigns/hostile_files.py        # `make campaigns`

The hashes are right, as if the maker of the file had sealed it. The control is `torch.load` as it was for years.
Figures go to docs/results/campaigns.json.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import pickle
import resource
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from hostile_data import Gadget, record

from frost import checkpoint, directory
from frost.halting.calibration_file import checksum

LIMIT_SECONDS, LIMIT_BYTES = 1.0, 64 * 2**20

Harm = Callable[[Path], object]


def stored(header: object, body: bytes = b"") -> bytes:
    """A safetensors file with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def weights(content: Callable[[Path], bytes]) -> Harm:
    """Replace the weights."""
    return lambda root: (root / checkpoint.WEIGHTS).write_bytes(content(root))


def header_of(root: Path) -> tuple[dict[str, Any], bytes]:
    """The header of the sound weights, and what follows it."""
    data = (root / checkpoint.WEIGHTS).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + length]), data[8 + length:]


def changed_header(change: Callable[[dict[str, Any]], object]) -> Harm:
    """The sound weights with something changed in their header."""
    def harm(root: Path) -> None:
        header, body = header_of(root)
        change(header)
        (root / checkpoint.WEIGHTS).write_bytes(stored(header, body))
    return harm


def first(header: dict[str, Any]) -> dict[str, Any]:
    """A tensor of a header."""
    return next(value for key, value in header.items() if key != "__metadata__")


def config(**changes: Any) -> Harm:
    """The sound configuration with changed fields of the model."""
    def harm(root: Path) -> None:
        values = json.loads((root / checkpoint.CONFIG).read_text())
        values["model"] |= changes
        (root / checkpoint.CONFIG).write_text(json.dumps(values))
    return harm


def text(name: str, content: str) -> Harm:
    """Any text in place of a file."""
    return lambda root: (root / name).write_text(content)


def calibration(**changes: Any) -> Harm:
    """The sound calibration with changed fields, and a checksum that fits."""
    def harm(root: Path) -> None:
        values = json.loads((root / checkpoint.CALIBRATION).read_text())
        plain = {key: value for key, value in {**values, **changes}.items() if key != "sha256"}
        (root / checkpoint.CALIBRATION).write_text(json.dumps({**plain, "sha256": checksum(plain)}))
    return harm


def instead(name: str, make: Callable[[Path], object]) -> Harm:
    """Something that is no plain file."""
    def harm(root: Path) -> None:
        (root / name).unlink()
        make(root / name)
    return harm


def listed(change: Callable[[dict[str, Any]], object]) -> Harm:
    """A manifest that says something else, sealed."""
    def harm(root: Path) -> None:
        manifest = json.loads((root / directory.MANIFEST).read_text())
        change(manifest)
        (root / directory.MANIFEST).write_bytes(directory.manifest_bytes(manifest))
    harm.__name__ = "listed"    # not sealed again
    return harm


def harms(marker: Path) -> dict[str, Harm]:
    """Every hostile file, by name."""
    gadget = pickle.dumps(Gadget(marker))
    deep = "[" * 100_000 + "]" * 100_000

    def zipped(root: Path) -> bytes:
        torch.save(Gadget(marker), root / "x.pt")
        return (root / "x.pt").read_bytes()

    w, c, k = checkpoint.WEIGHTS, checkpoint.CONFIG, checkpoint.CALIBRATION
    return {
        "pickle as weights": weights(lambda _: gadget),
        "pickle behind a header": weights(lambda _: stored({"a": {"dtype": "F32", "shape": [1],
                                                                  "data_offsets": [0, 4]}}, gadget)),
        "torch.save as weights": weights(zipped),
        "pickle as configuration": lambda root: (root / c).write_bytes(gadget),
        "pickle as calibration": lambda root: (root / k).write_bytes(gadget),
        "header of 2^63 bytes": weights(lambda _: struct.pack("<Q", 2**63) + b"{}"),
        "header of 2^40 bytes": weights(lambda _: struct.pack("<Q", 2**40) + b"{}"),
        "header longer than the file": weights(lambda _: struct.pack("<Q", 10_000) + b"{}"),
        "header of blanks": weights(lambda _: stored(b"{" + b" " * 20_000_000 + b"}")),
        "header that is no JSON": weights(lambda _: stored(b"{'a': }")),
        "header nested": weights(lambda _: stored(deep.encode())),
        "header that is a list": weights(lambda _: stored([1, 2, 3])),
        "empty weights": weights(lambda _: b""),
        "seven bytes": weights(lambda _: b"1234567"),
        "overlapping tensors": changed_header(lambda h: [value.update(data_offsets=[0, 64]) for key, value in h.items()
                                                         if key != "__metadata__"]),
        "offset beyond the file": changed_header(lambda h: first(h).update(data_offsets=[0, 2**40])),
        "negative offset": changed_header(lambda h: first(h).update(data_offsets=[-8, 64])),
        "offsets turned": changed_header(lambda h: first(h).update(data_offsets=[64, 0])),
        "a shape of 10^12": changed_header(lambda h: first(h).update(shape=[10**12])),
        "a shape that overflows": changed_header(lambda h: first(h).update(shape=[2**33, 2**33])),
        "a negative shape": changed_header(lambda h: first(h).update(shape=[-1])),
        "an unknown type": changed_header(lambda h: first(h).update(dtype="PICKLE")),
        "a million tensors": weights(lambda _: stored({f"t{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
                                                       for n in range(200_000)})),
        "tensors of another model": weights(lambda _: stored({"x": {"dtype": "F32", "shape": [1],
                                                                    "data_offsets": [0, 4]}}, bytes(4))),
        "a missing tensor": changed_header(lambda h: h.pop(next(key for key in h if key != "__metadata__"))),
        "configuration nested": text(c, deep),
        "configuration that is a list": text(c, "[]"),
        "configuration of numbers beyond any": text(c, '{"model": {"depth": 1e999}}'),
        "a million channels": config(channels=2**20),
        "a huge image": config(image_size=2**20),
        "a million distinct blocks": config(architecture="vanilla", depth=2**20),
        "depth below one": config(depth=0),
        "channels as text": config(channels="__import__('os')"),
        "an unknown field": config(__class__="os.system"),
        "an unknown backbone": config(backbone="../../etc"),
        "calibration nested": text(k, deep),
        "calibration of 10^12 images": calibration(images=10**12),
        "calibration of negative depth": calibration(depth=-1),
        "calibration of blanks": calibration(signals={"rank": " " * 1_000_000}),
        "calibration of an unknown signal": calibration(signals={"os.system": ""}),
        "a choice of nothing": calibration(choices=[[1.0, "patience", 0.1]]),
        "choices that are none": calibration(choices=[7]),
        "a sketch of zeros": calibration(pooled=base64.b64encode(bytes(4096)).decode()),
        "a sketch of ones": calibration(pooled=base64.b64encode(b"\xff" * 4096).decode()),
        "a sketch of pickle": calibration(pooled=base64.b64encode(gadget).decode()),
        "calibration of an unknown rule": calibration(rule="os.system"),
        "a link as weights": instead(w, lambda file: file.symlink_to("/etc/hostname")),
        "a link to itself": instead(w, lambda file: file.symlink_to(file)),
        "a pipe as weights": instead(w, lambda file: os.mkfifo(file)),
        "a pipe as manifest": instead(directory.MANIFEST, lambda file: os.mkfifo(file)),
        "a folder as weights": instead(w, lambda file: file.mkdir()),
        "a name that climbs": listed(lambda m: m["files"].update({"../../etc/hostname": {"bytes": 1, "sha256": ""}})),
        "an absolute name": listed(lambda m: m["files"].update({"/etc/hostname": {"bytes": 1, "sha256": ""}})),
        "files that are a list": listed(lambda m: m.update(files=list(m["files"]))),
        "facts that are a list": listed(lambda m: m["files"].update({w: [1, 2]})),
        "a manifest of 65 MB": text(directory.MANIFEST, " " * (65 * 2**20)),
        "a manifest nested": text(directory.MANIFEST, deep),
    }


def seal_again(root: Path) -> None:
    """Give a hostile run a manifest that fits, as its maker would."""
    if not (root / directory.MANIFEST).is_file():
        return
    with contextlib.suppress(ValueError):
        manifest = json.loads((root / directory.MANIFEST).read_text())
        for name in manifest["files"]:
            if (root / name).is_file() and not (root / name).is_symlink():
                manifest["files"][name] = directory.facts_of(root / name)
        (root / directory.MANIFEST).write_bytes(directory.manifest_bytes(manifest))


def hostile(seed: int) -> int:
    """F07."""
    failures = ran = 0
    with tempfile.TemporaryDirectory() as folder:
        marker = Path(folder) / "executed"
        cases = harms(marker)
        checkpoint.load("digits")    # what Python needs in any case is there before memory is measured
        for name, harm in cases.items():
            root = Path(folder) / "run"
            shutil.copytree(checkpoint.pretrained()["digits"], root)
            harm(root)
            if getattr(harm, "__name__", "") != "listed" and "manifest" not in name:
                seal_again(root)
            before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
            try:
                checkpoint.load(root)
                fault = "was accepted"
            except (ValueError, OSError):
                fault = ""
            except Exception as error:
                fault = f"raised {type(error).__name__}: {error}"
            seconds = time.monotonic() - started
            grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
            if seconds > LIMIT_SECONDS:
                fault += f" took {seconds:.1f} s"
            if grown > LIMIT_BYTES:
                fault += f" took {grown / 2**20:.0f} MB"
            if marker.exists():
                marker.rmdir()
                ran += 1
                fault += " was executed"
            if fault:
                failures += 1
                print(f"FAILURE {name}: {fault.strip()[:200]}")
            shutil.rmtree(root)
        control = Path(folder) / "control.pt"
        torch.save(Gadget(marker), control)
        torch.load(control, weights_only=False)
        executed = marker.exists()
    print(f"F07: {len(cases)} hostile files, {ran} executed, {failures} with a fault; control torch.load "
          f"{'executed' if executed else 'did not execute'} its file")
    record("F07", {"n": len(cases), "seed": seed, "failures": failures, "executed": ran,
                   "control": {"torch.load": {"n": 1, "executed": int(executed)}}})
    return int(bool(failures) or not executed)


def main() -> int:
    """Status 1 if a file did harm, or if the control's did not."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    return hostile(options.seed)


if __name__ == "__main__":
    sys.exit(main())
