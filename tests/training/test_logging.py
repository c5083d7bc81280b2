"""The logbook holds each step once, whatever a kill or a power cut left behind."""

import json

from frost.training.logging import Logbook, read_logbook


def test_the_logbook_is_cut_back_to_the_checkpoint(tmp_path):
    path = tmp_path / "logbook.jsonl"
    with Logbook(path) as book:
        for step in range(1, 6):
            book.write({"step": step, "loss": 0.1 * step})
    with path.open("a") as file:
        file.write('{"step": 6, "lo')    # a kill in the middle of a line
    with Logbook(path, last_step=3) as book:
        book.write({"step": 4, "loss": 1.0})
    entries = read_logbook(path)
    assert [entry["step"] for entry in entries] == [1, 2, 3, 4]
    assert entries[2]["loss"] == 0.1 * 3     # numbers survive being rewritten
    assert entries[3] == {"step": 4, "loss": 1.0}
    assert json.loads(path.read_text().splitlines()[0]) == {"step": 1, "loss": 0.1}
    with path.open("ab") as file:
        file.write(b"\x00\xff\x00\n")      # what a power cut may leave behind the last checkpoint
    with Logbook(path, last_step=4) as book:
        assert book.last_step == 4
    assert len(read_logbook(path)) == 4
