"""A cluster that loses a machine, an actor, its job, a replica: what is answered, how often, and to the same bits.

    .venv-cluster/bin/python campaigns/cluster.py [--only machines …]

Several machines are simulated on this one by ray.cluster_utils.Cluster: a head without processors, and two nodes with
one each. Figures go to docs/results/campaigns.json; `make test-cluster` runs the same with fewer images.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

RUN, BUDGET, DEPTH = "cifar100-cpu", ("--mean-depth", "2.1"), 2.1
ONE_THREAD = {"OMP_NUM_THREADS": "1", "RAY_DEDUP_LOGS": "0"}
PATIENCE = 240.0     # seconds for anything


def images(folder: Path, count: int, seed: int) -> Path:
    """So many smooth pictures as PNG files, and a list of their names."""
    folder.mkdir()
    generator = np.random.default_rng(seed)
    for number in range(count):
        small = Image.fromarray(generator.integers(0, 256, (6, 6, 3), dtype=np.uint8))
        small.resize((32, 32), Image.Resampling.BICUBIC).save(folder / f"{number:06d}.png", compress_level=1)
    listed = folder.with_suffix(".txt")
    listed.write_text("".join(f"{folder}/{number:06d}.png\n" for number in range(count)))
    return listed


@contextlib.contextmanager
def machines(nodes: int = 2, processors: int = 1) -> Iterator[Any]:
    """A head and some nodes, as processes of this machine."""
    from ray.cluster_utils import Cluster

    os.environ.update(ONE_THREAD)
    store = {"object_store_memory": 150 * 2**20}
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **store})
    try:
        found.workers = [found.add_node(num_cpus=processors, **store) for _ in range(nodes)]
        found.wait_for_nodes()
        found.store = store
        yield found
    finally:
        found.shutdown()


class Job:
    """`frost predict --ray` as a process of its own; with a folder for counts, its workers note each answer."""

    def __init__(self, address: str, listed: Path, out: Path, slots: int, counts: Path) -> None:
        counts.mkdir(exist_ok=True)
        self.out = out
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--drive", address, str(counts), "predict", RUN, *BUDGET, "--batch", str(slots),
             "--list", str(listed), "--out", str(out), "--ray", address, "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **ONE_THREAD})

    @property
    def written(self) -> int:
        """Rows in the folder."""
        from frost.cluster.answerfolder import facts_of
        return sum(stop - start for file in self.out.glob("part-*.parquet") for start, stop in facts_of(file).rows)

    def wait_for(self, rows: int) -> None:
        """Until so many rows are written."""
        until = time.monotonic() + PATIENCE
        while self.written < rows:
            if self.process.poll() is not None or time.monotonic() > until:
                self.process.kill()
                complaint = self.process.communicate()[1]
                raise RuntimeError(f"the job ended or hung before {rows} rows: {complaint[-800:]}")
            time.sleep(0.02)

    def end(self) -> dict[str, Any]:
        """Its summary, when it has ended."""
        out, complaint = self.process.communicate(timeout=PATIENCE)
        if self.process.returncode:
            raise RuntimeError(f"status {self.process.returncode}: {complaint[-800:]}")
        found: dict[str, Any] = json.loads(out)
        return found


def computed(counts: Path) -> int:
    """Answers that any worker has given, in all jobs with these counts."""
    return sum(file.stat().st_size for file in counts.iterdir())


def counting(counts: str) -> Callable[[], None]:
    """What a worker does first: have each answer leave a byte in a file of its own."""
    def count() -> None:
        import os

        from frost.cluster.worker import Worker
        real = Worker._answer
        mark = os.open(f"{counts}/{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def counted(self: Any, place: Any) -> Any:
            found = real(self, place)
            os.write(mark, b".")
            return found
        Worker._answer = counted
    return count


def drive(address: str, counts: str, words: list[str]) -> int:
    """In a job's process: join the cluster with workers that count, then be `frost`."""
    import ray

    from frost import cli

    ray.init(address=address, log_to_driver=False, runtime_env={"worker_process_setup_hook": counting(counts)})
    return cli.main(words)


def alone(listed: Path, slots: int, out: Path) -> dict[str, tuple[str, ...]]:
    """The answers of one process, by file."""
    subprocess.run([sys.executable, "-m", "frost", "predict", RUN, *BUDGET, "--batch", str(slots), "--list",
                    str(listed), "--out", str(out)], check=True, capture_output=True, env={**os.environ, **ONE_THREAD})
    with out.open() as stream:
        return {row["file"]: (row["label"], row["class"], row["confidence"], row["depth"], row["score"])
                for row in csv.DictReader(stream)}


def fault(out: Path, expected: dict[str, tuple[str, ...]]) -> str:
    """What is wrong with the answers in a folder; nothing if every key is there once, to the same bits."""
    import pyarrow.parquet as pq

    rows = pq.read_table(out).to_pylist()
    keys = Counter(row["file"] for row in rows)
    if set(keys) != set(expected) or max(keys.values()) > 1:
        return f"{len(keys)} keys of {len(expected)}, {max(keys.values())} times at most"
    other = sum(expected[row["file"]] != (str(row["label"]), row["class"], repr(row["confidence"]), str(row["depth"]),
                                          repr(row["score"])) for row in rows)
    return f"{other} answers differ" if other else ""


def actors() -> list[int]:
    """The processes of actors of Ray Data on this machine that this process has started, however far down."""
    parents, found = {}, []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parents[int(place.name)] = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if (place / "cmdline").read_bytes().startswith((b"ray::MapWorker", b"ray::ServeReplica")):
                found.append(int(place.name))
    return [number for number in found if os.getpid() in _above(number, parents)]


def _above(number: int, parents: dict[int, int]) -> Iterator[int]:
    while number in parents:
        number = parents[number]
        yield number


def losing_machines(found: Any, listed: Path, expected: dict[str, tuple[str, ...]], slots: int, folder: Path) -> str:
    """One job that loses a node at a third and an actor at two thirds; the cluster has both nodes again afterwards."""
    job = Job(found.address, listed, folder / "out", slots, folder / "counts")
    job.wait_for(len(expected) // 3)
    found.remove_node(found.workers.pop(), allow_graceful=False)
    job.wait_for(2 * len(expected) // 3)
    victims = actors()
    if victims:
        os.kill(random.choice(victims), signal.SIGKILL)
    job.end()
    found.workers.append(found.add_node(num_cpus=1, **found.store))
    found.wait_for_nodes()
    return "no actor was there to be killed" if not victims else fault(folder / "out", expected)


def losing_the_job(found: Any, listed: Path, expected: dict[str, tuple[str, ...]], slots: int,
                   folder: Path) -> tuple[str, float]:
    """A job killed at half and run again: what is wrong, and the part of all rows that was computed twice."""
    out, counts = folder / "out", folder / "counts"
    job = Job(found.address, listed, out, slots, counts)
    job.wait_for(len(expected) // 2)
    job.process.kill()
    job.process.communicate()
    again = Job(found.address, listed, out, slots, counts)
    summary = again.end()
    wrong = fault(out, expected) or ("" if summary["before"] >= len(expected) // 2 else "it began anew")
    return wrong, computed(counts) / len(expected) - 1


def control_of_checkpoints(found: Any, listed: Path, folder: Path) -> float:
    """Ray's own checkpoints with blocks as they come, killed when half is computed: the part of it that is lost."""
    counts, kept = folder / "counts", folder / "kept"
    counts.mkdir(parents=True)
    process = subprocess.Popen([sys.executable, __file__, "--control", found.address, str(counts), str(listed),
                                str(kept)], env={**os.environ, **ONE_THREAD}, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    count, until = len(listed.read_text().splitlines()), time.monotonic() + PATIENCE
    while computed(counts) < count // 2 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    process.kill()
    process.communicate()
    import pyarrow.parquet as pq

    saved = sum(pq.read_metadata(file).num_rows for file in kept.rglob("*.parquet")) if kept.exists() else 0
    return 1 - saved / max(computed(counts), 1)


def drive_control(address: str, counts: str, listed: str, kept: str) -> int:
    """In the control's process."""
    import ray
    from ray.data.checkpoint import CheckpointConfig

    import frost

    ray.init(address=address, log_to_driver=False, runtime_env={"worker_process_setup_hook": counting(counts)})
    context = ray.data.DataContext.get_current()
    context.checkpoint_config = CheckpointConfig("file", f"{kept}/checkpoint")
    names = Path(listed).read_text().splitlines()
    dataset = ray.data.from_items([{"file": name, "image": name} for name in names], override_num_blocks=2)
    # one actor, for the other processor reads
    answers = frost.cluster.predict(dataset, RUN, mean_depth=DEPTH, rows=len(names) // 2)
    answers.write_parquet(f"{kept}/answers")
    return 0


@contextlib.contextmanager
def setting(count: int, seed: int) -> Iterator[tuple[Any, Path, Path, dict[str, tuple[str, ...]]]]:
    """A cluster, a folder, a list of images and what one process answers."""
    with tempfile.TemporaryDirectory() as name, machines() as found:
        listed = images(Path(name) / "images", count, seed)
        yield found, Path(name), listed, alone(listed, 64, Path(name) / "alone.csv")


def _campaign_machines(count: int, times: int, seed: int) -> int:
    faults = []
    with setting(count, seed) as (found, folder, listed, expected):
        for number in range(times):
            (place := folder / f"{number}").mkdir()
            faults.append(losing_machines(found, listed, expected, 64, place))
            print(f"machines {number}: {faults[-1] or 'every key once, to the same bits'}", flush=True)
    failures = sum(map(bool, faults))
    record("R01", {"n": times, "images": count, "seed": seed, "failures": failures})
    return failures


def _campaign_job(count: int, times: int, seed: int) -> int:
    faults, parts = [], []
    with setting(count, seed) as (found, folder, listed, expected):
        for number in range(times):
            (place := folder / f"{number}").mkdir()
            wrong, part = losing_the_job(found, listed, expected, 64, place)
            faults.append(wrong or ("" if part <= 0.02 else f"{part:.1%} computed twice"))
            parts.append(part)
            print(f"job {number}: {faults[-1] or 'whole'}, {part:.2%} computed twice", flush=True)
        lost = control_of_checkpoints(found, listed, folder / "control")
    print(f"control, Ray's checkpoints with large blocks: {lost:.0%} of what was computed is lost")
    record("R02", {"n": times, "images": count, "seed": seed, "failures": sum(map(bool, faults)),
                   "computed twice": round(max(parts), 4),
                   "control": {"checkpoints of large blocks": {"lost": round(lost, 4)}}})
    return sum(map(bool, faults)) or int(lost <= 0.02)


def record(name: str, results: dict[str, Any], script: str = "cluster.py") -> None:
    """Write the figures beside those of other campaigns."""
    from hostile_data import record as write

    write(name, {**results, "command": f".venv-cluster/bin/python campaigns/{script}"})


CAMPAIGNS: dict[str, Callable[[int, int, int], int]] = {
    "machines": _campaign_machines, "job": _campaign_job}


def main() -> int:
    """Status 1 if one fails."""
    if sys.argv[1:2] == ["--drive"]:
        return drive(sys.argv[2], sys.argv[3], sys.argv[4:])
    if sys.argv[1:2] == ["--control"]:
        return drive_control(*sys.argv[2:6])
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=CAMPAIGNS, default=list(CAMPAIGNS))
    options = parser.parse_args()
    random.seed(options.seed)
    failures = [CAMPAIGNS[name](options.images, options.times, options.seed) for name in options.only]
    return int(any(failures))


if __name__ == "__main__":
    sys.exit(main())
