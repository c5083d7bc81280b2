"""What is said when a write fails, and how two processes are kept apart."""

import errno
import os
import subprocess
import sys

import pytest
from safetensors import SafetensorError

from frost.directory import alone_with, check_writable, explained, lock


def failure(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(("error", "part"), [
    (failure(errno.ENOSPC), "Make room"), (failure(errno.EDQUOT), "Make room"),
    (SafetensorError("Error: No space left on device (os error 28)"), "Make room"),
    (failure(errno.EROFS), "Choose another place"), (failure(errno.EACCES), "Choose another place"),
    (failure(errno.EPERM), "permissions"), (SafetensorError("Read-only file system (os error 30)"), "permissions"),
    (failure(errno.EIO), "See to the disk"), (SafetensorError("of another kind"), "See to the disk")])
def test_the_advice_fits_the_failure(tmp_path, error, part):
    with pytest.raises(OSError, match="could not be written") as refused, explained(tmp_path):
        raise error
    assert part in str(refused.value)
    assert ("Make room" in str(refused.value)) == (part == "Make room")


def test_a_folder_that_takes_no_files_is_refused(tmp_path, monkeypatch):
    check_writable(tmp_path)
    assert list(tmp_path.iterdir()) == []

    def refuse(*_, **__):
        raise failure(errno.EROFS)

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(OSError, match=r"Read-only file system.*another place"):
        check_writable(tmp_path)


def test_a_lock_keeps_others_out_and_goes_with_its_file(tmp_path):
    with (tmp_path / "file").open("w") as ours, (tmp_path / "file").open("w") as theirs:
        lock(ours.fileno(), "taken")
        with pytest.raises(ValueError, match="taken"):
            lock(theirs.fileno(), "taken")
    with (tmp_path / "file").open("w") as again:
        lock(again.fileno(), "taken")


def test_a_file_system_without_locks_is_up_to_the_user(tmp_path, monkeypatch):
    def unsupported(*_):
        raise failure(errno.EOPNOTSUPP)

    monkeypatch.setattr("fcntl.flock", unsupported)
    with (tmp_path / "file").open("w") as file:
        lock(file.fileno(), "taken")


def test_a_locked_folder_holds_no_trace_of_it(tmp_path):
    code = (f"from pathlib import Path\nfrom frost.directory import alone_with\n"
            f"with alone_with(Path({str(tmp_path)!r}), 'taken'): pass")
    with alone_with(tmp_path, "taken"):
        assert list(tmp_path.iterdir()) == []
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ValueError: taken" in other.stderr
    with alone_with(tmp_path, "taken"):
        pass
