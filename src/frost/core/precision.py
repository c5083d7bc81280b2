"""Where a model runs, and in which precision."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import chain
from typing import Literal, cast, get_args

import torch
from torch import Tensor, nn

Precision = Literal["float32", "bf16"]
TRIAL = "import torch; a = torch.ones(256, 256, dtype=torch.bfloat16); a @ a"    # large enough for tiles


Device = Literal["auto", "cpu", "cuda", "mps"]


def resolve_device(asked: Device) -> torch.device:
    """A GPU if there is one, unless the user says otherwise: here, or for `auto` in the environment (FROST_DEVICE).

    The environment is what the option `--device` of every verb sets, so that it reaches whatever a verb runs. There is
    no GPU on our machines: `cuda` and `mps` are untested.
    """
    asked = cast(Device, os.environ.get("FROST_DEVICE", asked)) if asked == "auto" else asked
    if asked not in get_args(Device):
        raise ValueError(f"device is one of {', '.join(get_args(Device))}; got '{asked}'.")
    is_there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if asked == "auto":
        return torch.device(next(name for name in ("cuda", "mps", "cpu") if is_there[name]))
    if not is_there[asked]:
        raise ValueError(f"device is {asked}, but torch sees no such GPU here; set it to auto or cpu.")
    return torch.device(asked)


def synchronize(device: torch.device) -> None:
    """Return when the device has done all that it was given: a clock must not stop before."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def resolve_precision(asked: Literal["auto", "float32", "bf16"], device: torch.device) -> Precision:
    """bf16 where the hardware multiplies it: emulated, it is far slower than float32."""
    if asked == "float32" or (asked == "auto" and device.type == "mps"):
        return "float32"
    if device.type == "cuda":
        return "bf16" if asked == "bf16" or torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    if asked == "auto":
        return "bf16" if torch.cpu._is_avx512_bf16_supported() and bf16_fault() is None else "float32"
    fault = bf16_fault()
    if fault is not None:
        raise ValueError(f"precision is bf16, but {fault}; set it to float32, or ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 "
                         "in the environment.")
    return asked


@cache
def bf16_fault() -> str | None:
    """Why this CPU must not be asked for bf16, or None: where it announces tiles (AMX), a product is tried once.

    Tried in a process of its own, about two seconds: some virtual machines announce tiles that they do not have, and
    the first product ends the process with an illegal instruction.
    """
    if not torch.cpu._is_amx_tile_supported():
        return None
    # in a session of its own: Ctrl-C is for us and must not pass for a fault
    trial = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, check=False, start_new_session=True)
    if trial.returncode == 0:
        return None
    end = signal.Signals(-trial.returncode).name if trial.returncode < 0 else f"status {trial.returncode}"
    return f"this CPU announces AMX and a product in bf16 ends a process with {end}"


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Forward passes inside run in this precision; weights, optimizer and losses stay in float32."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()


def device_of(model: nn.Module) -> torch.device:
    """Where a model is; one without any tensor is on the CPU."""
    return next((part.device for part in chain(model.parameters(), model.buffers())), torch.device("cpu"))


def dtype_of(model: nn.Module) -> torch.dtype:
    """The precision of a model's weights; one without any is in PyTorch's default."""
    found = (part.dtype for part in chain(model.parameters(), model.buffers()) if part.is_floating_point())
    return next(found, torch.get_default_dtype())


def at_least_float32(values: Tensor) -> Tensor:
    """What losses and scores are computed in: half precisions go up, double stays."""
    return values.to(torch.promote_types(values.dtype, torch.float32))
