"""Two hosts of one training, of which one is cut off: F04's promise for a frozen process, across machines.

    python campaigns/hosts.py [--times 5]        # as root, with Debian's iproute2

Each host is a network namespace of this machine, joined to the other by one cable (a veth pair), and runs torchrun as
on a real cluster. The cable is pulled in the middle of a training: each side must say so, with exit status 75 of its
training, within the timeout; afterwards both go on with --resume, to the same bits as a training that nobody disturbed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from groups import TIMEOUT, is_same, lines, words
from hostile_data import record

ADDRESSES = ("10.231.77.1", "10.231.77.2")
CABLE = "cable"              # the name of the interface on both sides
SLACK = 10.0                 # seconds: torchrun looks every few, and a training has F04's five
PATIENCE = 180.0


def is_possible() -> bool:
    """Whether namespaces can be made here."""
    return os.geteuid() == 0 and shutil.which("ip") is not None and not _ip("netns", "list", check=False).returncode


@contextmanager
def two_hosts() -> Iterator[tuple[str, str]]:
    """Two namespaces with a cable between them."""
    hosts = (f"frost-{os.getpid()}-a", f"frost-{os.getpid()}-b")
    try:
        for host in hosts:
            _ip("netns", "add", host)
        _ip("link", "add", CABLE, "netns", hosts[0], "type", "veth", "peer", "name", CABLE, "netns", hosts[1])
        for host, address in zip(hosts, ADDRESSES, strict=True):
            _ip("-n", host, "address", "add", f"{address}/24", "dev", CABLE)
            _ip("-n", host, "link", "set", "lo", "up")
        plug(hosts, True)
        yield hosts
    finally:
        for host in hosts:
            _ip("netns", "delete", host, check=False)


def plug(hosts: tuple[str, str], is_in: bool) -> None:
    """Plug the cable in at both sides, or pull it at one, which cuts both off."""
    for host in hosts if is_in else hosts[1:]:
        _ip("-n", host, "link", "set", CABLE, "up" if is_in else "down")


def train(hosts: tuple[str, str], out: Path, resume: bool = False) -> list[subprocess.Popen[bytes]]:
    """torchrun on both hosts, one training process each."""
    port = random.randrange(20_000, 60_000)
    return [subprocess.Popen(
        ["ip", "netns", "exec", host, sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank",
         str(rank), "--nproc-per-node", "1", "--master-addr", ADDRESSES[0], "--master-port", str(port), "-m", "frost",
         *words(out, "runtime.save_every=2", resume=resume)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": CABLE, "TORCH_CPP_LOG_LEVEL": "ERROR"})
        for rank, host in enumerate(hosts)]


def cut_off(hosts: tuple[str, str], whole: Path, out: Path, after: int) -> str:
    """Pull the cable after so many steps, plug it in again and go on; what is wrong."""
    members = train(hosts, out)
    until = time.monotonic() + PATIENCE
    while len(lines(out)) < after and time.monotonic() < until and all(member.poll() is None for member in members):
        time.sleep(0.02)
    plug(hosts, False)
    began = time.monotonic()
    complaints, seconds = [], []
    for member in members:
        try:
            complaints.append(member.communicate(timeout=TIMEOUT + SLACK + 20)[1].decode(errors="replace"))
        except subprocess.TimeoutExpired:
            member.kill()
            complaints.append(member.communicate()[1].decode(errors="replace"))
        seconds.append(time.monotonic() - began)
    plug(hosts, True)
    for rank, complaint in enumerate(complaints):
        if "exitcode  : 75" not in complaint or "--resume" not in complaint:
            return f"host {rank} did not say that the other is gone: {complaint[-600:]}"
    if max(seconds) > TIMEOUT + SLACK:
        return f"noticed after {max(seconds):.1f} s"
    again = train(hosts, out, resume=True)
    words_of = [member.communicate(timeout=PATIENCE)[1].decode(errors="replace") for member in again]
    if any(member.returncode for member in again):
        return "did not go on: " + " | ".join(found[:600] for found in words_of)
    return "" if is_same(out, whole) else "went on to other bits"


def undisturbed(hosts: tuple[str, str], out: Path) -> None:
    """The training that the others are compared with."""
    for member in train(hosts, out):
        _, complaint = member.communicate(timeout=PATIENCE)
        if member.returncode:
            raise RuntimeError(complaint.decode(errors="replace")[-1000:])


def _ip(*words: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["ip", *words], check=check, capture_output=True)


def main() -> int:
    """Status 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    if not is_possible():
        print("hosts: needs root and iproute2, for network namespaces")
        return 1
    random.seed(options.seed)
    faults = []
    with tempfile.TemporaryDirectory() as folder, two_hosts() as hosts:
        whole = Path(folder) / "whole"
        undisturbed(hosts, whole)
        for number in range(options.times):
            faults.append(cut_off(hosts, whole, Path(folder) / str(number), random.randint(2, 10)))
            print(f"hosts {number}: {faults[-1] or 'both said so, and went on to the same bits'}", flush=True)
    record("hosts", {"n": options.times, "seed": options.seed, "failures": sum(map(bool, faults)),
                     "control": "F04's, without a timeout", "command": "python campaigns/hosts.py"})
    return int(any(faults))


if __name__ == "__main__":
    sys.exit(main())
