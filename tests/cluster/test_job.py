"""What a cluster's job is asked for, where its answers go, and what is refused; without a cluster."""

import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cluster_extras import needs
from frost.checkpoint import load
from frost.cli import main
from frost.cluster import identity as identities
from frost.cluster.dataset import BLOCKS
from frost.cluster.identity import check_same, identity
from frost.cluster.job import block_rows, blocks_waiting
from frost.cluster.joining import check_address
from frost.cluster.worker import Task, Unread, Worker, row_group
from frost.halting.budget import Budget

needs("ray", "cluster")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from frost.cluster.answerfolder import answer_folder, ranges  # noqa: E402 - needs pyarrow when it is used
from frost.cluster.listed import listed_rows  # noqa: E402

ORIGIN = {"run": "digits", "files": "abc"}


def answers(rows, error=None):
    return pa.table({"file": [f"{row}.png" for row in rows], "error": pa.array([error] * len(rows), pa.string()),
                     "row": pa.array(list(rows), pa.int64())})


def picture(path, shade=90):
    Image.fromarray(np.full((8, 8), shade, np.uint8)).save(path)
    return str(path)


def task(**changes):
    return Task("digits", identity(load("digits")), Budget(), 8, 1, "image", "file")._replace(**changes)


@pytest.mark.parametrize(("numbers", "expected"), [([], []), ([3, 4, 5, 9], [(3, 6), (9, 10)]), ([2, 0, 1], [(0, 3)])])
def test_row_numbers_are_kept_as_ranges(numbers, expected):
    assert ranges(np.array(numbers, dtype=np.int64)) == expected


def test_a_row_that_comes_twice_is_written_once(tmp_path):
    with answer_folder(tmp_path / "out", ORIGIN, 6, 2) as folder:
        assert folder.add(answers([0, 1, 2])) == 3
        assert folder.add(answers([2, 3, 3])) == 1
    assert sorted(pq.read_table(tmp_path / "out")["file"].to_pylist()) == ["0.png", "1.png", "2.png", "3.png"]


def test_a_second_job_knows_what_is_there(tmp_path):
    with answer_folder(tmp_path / "out", ORIGIN, 6, 2) as folder:
        folder.add(answers([4, 1], error="no image"))
    (tmp_path / "out" / ".part-000001.parquet.tmp").write_bytes(b"torn")
    with answer_folder(tmp_path / "out", ORIGIN, 6, 2) as folder:
        assert folder.done.tolist() == [False, True, False, False, True, False]
        assert folder.failed == 2
        folder.add(answers([0]))
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_answers_of_another_job_are_not_mixed_in(tmp_path):
    with answer_folder(tmp_path / "out", ORIGIN, 2, 1) as folder:
        folder.add(answers([0]))
    with (pytest.raises(ValueError, match="was made with files = 'abc', not 'xyz'; choose another --out"),
          answer_folder(tmp_path / "out", {**ORIGIN, "files": "xyz"}, 2, 1)):
        pass


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match="is no file of answers"), answer_folder(tmp_path, ORIGIN, 2, 1):
        pass


def test_a_damaged_part_is_named(tmp_path):
    with answer_folder(tmp_path / "out", ORIGIN, 2, 1) as folder:
        folder.add(answers([0]))
    part = next((tmp_path / "out").iterdir())
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"part-000000.parquet is damaged"), answer_folder(tmp_path / "out", ORIGIN, 2,
                                                                                           1):
        pass


def test_two_jobs_do_not_write_to_one_folder(tmp_path):
    with (answer_folder(tmp_path / "out", ORIGIN, 2, 1), pytest.raises(ValueError, match="another process is writing"),
          answer_folder(tmp_path / "out", ORIGIN, 2, 1)):
        pass


def test_a_list_becomes_blocks_of_what_is_left(tmp_path):
    (tmp_path / "list").write_text("a.png\nb.png\nc.png\n")
    blocks = listed_rows(tmp_path / "list").blocks(np.array([0, 2]), 1)
    assert [block.column("row").to_pylist() for block in blocks] == [[0], [2]]
    assert blocks[1].column("image").to_pylist()[0].endswith("/c.png")


def test_parquet_files_are_read_where_their_rows_are_needed(tmp_path):
    images = [Path(picture(tmp_path / f"{number}.png")).read_bytes() for number in range(3)]
    pq.write_table(pa.table({"id": [7, 8, 9], "image": images}), tmp_path / "in.parquet", row_group_size=2)
    listed = listed_rows(tmp_path / "in.parquet")
    assert listed.table.column("file").to_pylist() == ["7", "8", "9"]
    assert listed.table.column("group").to_pylist() == [0, 0, 1]
    assert row_group(str(tmp_path / "in.parquet"), "image", 1) == images[2:]


def test_parquet_files_without_keys_are_refused(tmp_path):
    pq.write_table(pa.table({"pixels": [1]}), tmp_path / "in.parquet")
    with pytest.raises(ValueError, match="no column of keys: one of file, key, id, path; it has pixels"):
        listed_rows(tmp_path / "in.parquet")


def test_blocks_are_small_beside_the_job_but_fill_the_slots():
    assert block_rows(1_000_000, 8, 64) * 8 * BLOCKS <= 12_500
    assert block_rows(100, 8, 64) * BLOCKS >= 64


def test_more_blocks_wait_in_a_job_that_is_large():
    assert blocks_waiting(20_000, 1, block_rows(20_000, 1, 64)) == 6
    assert blocks_waiting(1_000, 2, block_rows(1_000, 2, 64)) == 1


def test_a_worker_reads_files_bytes_pixels_and_arrays(tmp_path):
    worker = Worker(task())
    name = picture(tmp_path / "a.png")
    pixels = np.full((8, 8, 3), 90, np.uint8)
    found = [worker._input(value) for value in (name, (tmp_path / "a.png").read_bytes(), pixels)]
    assert all(torch.equal(value, found[0]) for value in found)
    assert worker._input(np.zeros((1, 8, 8), np.float32)).shape == (1, 8, 8)
    assert isinstance(worker._input(str(tmp_path / "none.png")), Unread)


def test_a_worker_with_other_weights_is_refused():
    ours = task().identity
    with pytest.raises(ValueError, match=r"other weights of digits than the driver .*copy the same run"):
        Worker(task(identity=ours._replace(weights="0" * 64)))


def test_a_worker_with_another_version_of_the_package_is_refused(monkeypatch):
    run = load("digits")
    theirs = identity(run)
    monkeypatch.setattr(identities, "package_hash", lambda: "1" * 64)
    with pytest.raises(ValueError, match=r"another version of frost .* install the same frost on every machine"):
        check_same(identity(run), theirs, "digits")


@pytest.mark.parametrize("address", ["", "nowhere", "host:99999", "a b:1"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ValueError, match="a Ray address is HOST:PORT"):
        check_address(address)


def test_an_address_where_nothing_listens_is_a_sentence():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ValueError, match=rf"nothing answers at 127.0.0.1:{port} \(Connection refused\)"):
        check_address(f"127.0.0.1:{port}")


@pytest.mark.slow
def test_an_address_where_something_else_listens_is_a_sentence(monkeypatch):
    monkeypatch.setattr("frost.cluster.joining.PATIENCE", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        threading.Thread(target=lambda: [silent.accept() for _ in range(9)], daemon=True).start()
        with pytest.raises(ValueError, match="does not answer as Ray does"):
            check_address(f"127.0.0.1:{silent.getsockname()[1]}")


def test_the_command_without_ray_names_the_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "list").write_text("a.png\n")
    assert main(["predict", "digits", "--list", str(tmp_path / "list"), "--out", str(tmp_path / "o"), "--ray"]) == 2
    assert "needs Ray, the extra 'cluster'" in capsys.readouterr().err


def test_the_command_wants_a_list_and_a_folder(capsys):
    assert main(["predict", "digits", "a.png", "--ray"]) == 2
    assert "name what to answer by --list" in capsys.readouterr().err


def test_options_of_a_cluster_belong_to_it(capsys):
    assert main(["predict", "digits", "a.png", "--actors", "2"]) == 2
    assert "--actors and --block belong to --ray" in capsys.readouterr().err


DYING = """
import asyncio, sys
import pyarrow as pa
from frost.checkpoint import load
from frost.cluster.identity import identity
from frost.cluster.worker import Task, Worker
from frost.halting.budget import Budget

worker = Worker(Task("digits", identity(load("digits")), Budget(), 8, 1, "image", "file"))
opened = worker.engine.worker.engine.open

def broken():
    session = opened()
    session.advance = lambda: (_ for _ in ()).throw(MemoryError())
    return session
worker.engine.worker.engine.open = broken

async def answers():
    async for table in worker(pa.table({"file": ["a"], "image": [sys.argv[1]]})):
        print(table)
asyncio.run(answers())
"""


def test_a_dead_engine_ends_its_process(tmp_path):
    done = subprocess.run([sys.executable, "-c", DYING, picture(tmp_path / "a.png")], capture_output=True, timeout=60,
                          check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"Traceback" not in done.stderr
