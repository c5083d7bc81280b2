"""Joining a Ray cluster, or starting one on this machine; every way in which that fails is a sentence."""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

PATIENCE = 12.0    # seconds that an address has to answer
SOCKET_SECONDS = 4.0
PROBE = ("import sys; from ray._raylet import GcsClient; "
         "GcsClient(address=sys.argv[1]).internal_kv_keys(b'', None, 8)")


def needed(module: str = "ray") -> Any:
    """Ray, or one of its parts; a ValueError that names the extra where it is missing."""
    from importlib import import_module
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(f"this needs Ray, the extra 'cluster' ({error.name} is missing); from a clone: "
                         "pip install -c constraints.txt -e '.[cluster]'") from None


@contextmanager
def joined(address: str) -> Iterator[Any]:
    """A cluster while the block runs: the one at an address, or one of this machine's own for an empty address.

    A process that has joined already stays where it is.
    """
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")    # notices on standard error, of this process and others
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray = needed()
    needed("ray.data")
    with redirect_stdout(sys.stderr):    # where Ray prints what it has to say; results have the output for themselves
        if ray.is_initialized():
            yield ray
            return
        _start(ray, address)
        try:
            yield ray
        finally:
            ray.shutdown()


def _start(ray: Any, address: str) -> None:
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)    # failures come back as exceptions
    try:
        ray.init(address=address or "local", include_dashboard=None if address else False, log_to_driver=False,
                 logging_level=logging.ERROR)
    except ConnectionError as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"no Ray cluster was found at '{address}' ({first}); start one with ray start --head, or "
                         "leave the address away.") from None


def check_address(address: str) -> None:
    """Refuse an address where nothing, or something that is not Ray, answers."""
    found = re.fullmatch(r"(ray://)?(\[[0-9a-fA-F:]+\]|[^:/\s]+):(\d{1,5})", address)
    if found is None or int(found[3]) > 65_535:
        raise ValueError(f"a Ray address is HOST:PORT, auto, or ray://HOST:PORT; got '{address}'.")
    try:
        socket.create_connection((found[2].strip("[]"), int(found[3])), SOCKET_SECONDS).close()
    except OSError as error:
        raise ValueError(f"nothing answers at {address} ({error.strerror or error}); is the cluster's head running, "
                         "and is this its port? (ray start --head prints it)") from None
    if found[1]:
        return    # Ray's client has a limit of its own
    try:
        probe = subprocess.run([sys.executable, "-c", PROBE, address], capture_output=True, timeout=PATIENCE,
                               check=False)
        answers = probe.returncode == 0
    except subprocess.TimeoutExpired:
        answers = False
    if not answers:
        raise ValueError(f"what listens at {address} does not answer as Ray does; give the address that ray start "
                         "--head prints, and the same version of Ray everywhere.")


def cpus(ray: Any) -> int:
    """The processors of the cluster."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))
