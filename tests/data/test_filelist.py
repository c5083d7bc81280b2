"""A list is read once, as it comes; what is no list is refused."""

import os
import threading
import time
from pathlib import Path

import pytest

from frost.data.filelist import LONGEST_LINE, Failure, asked_files, count_files


def read(listed: Path) -> list:
    return list(asked_files([], listed))


def test_lines_are_names_of_any_bytes(tmp_path):
    listed = tmp_path / "list.txt"
    listed.write_bytes(b"a.png\r\n\n  \n b c.png\n\xff.png\nlast.png")
    assert read(listed) == ["a.png", " b c.png", os.fsdecode(b"\xff.png"), "last.png"]
    assert count_files([], listed) == 4


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    listed = tmp_path / "list.txt"
    listed.write_bytes(b"\xef\xbb\xbfa.png\nb.png\n")
    assert read(listed) == ["a.png", "b.png"]


@pytest.mark.parametrize("end", ["/dev/zero", "/dev/full"])
def test_a_list_without_an_end_is_refused(end):
    with pytest.raises(ValueError, match=r"line 1 of /dev/.* is longer than 65,536 bytes; .* one path a line"):
        read(Path(end))


def test_a_line_may_be_as_long_as_the_limit(tmp_path):
    listed = tmp_path / "list.txt"
    listed.write_text("x" * LONGEST_LINE + "\n" + "y" * LONGEST_LINE)
    assert [len(name) for name in read(listed)] == [LONGEST_LINE] * 2
    listed.write_text("a\n" + "y" * (LONGEST_LINE + 1) + "\nb\n")
    with pytest.raises(ValueError, match="line 2 of"):
        read(listed)


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\0\0", "a.png\n".encode("utf-16")])
def test_what_is_no_list_of_paths_is_refused(tmp_path, content):
    (tmp_path / "list").write_bytes(content)
    with pytest.raises(ValueError, match="holds a zero byte"):
        read(tmp_path / "list")


def test_a_pipe_is_read_once_and_not_counted(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text("a.png\nb.png\n"))
    writer.start()
    assert count_files([Path("c.png")], tmp_path / "pipe") is None
    assert list(asked_files([Path("c.png")], tmp_path / "pipe")) == ["c.png", "a.png", "b.png"]
    writer.join()


def test_a_pipe_where_nothing_comes_is_left_when_somebody_asks_to_stop(tmp_path):
    ours, theirs = os.pipe()
    os.write(theirs, b"a.png\nhalf a na")
    asked = []
    names = asked_files([], Path(f"/dev/fd/{ours}"), lambda: bool(asked))
    assert next(names) == "a.png"
    asked.append("stop")
    started = time.monotonic()
    assert list(names) == []
    assert time.monotonic() - started < 5
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("name", ["nowhere.txt", "."])
def test_a_list_that_cannot_be_opened_is_a_mistake(tmp_path, name):
    with pytest.raises(ValueError, match=r"cannot be opened: .*one path a line"):
        read(tmp_path / name)


def test_a_folder_without_images_is_told(tmp_path):
    assert [type(file) for file in asked_files([tmp_path])] == [Failure]
