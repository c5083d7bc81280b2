"""`frost export` says what is wrong in a line; what it writes is tested in `tests/exporting`."""

import pytest

from frost.cli import main

pytest.importorskip("onnxruntime")


@pytest.mark.parametrize(("words", "sentence"), [
    (["digits"], "name a run and a folder"), (["--check", "nowhere"], "there is no package at nowhere"),
    (["digits", "--check", "nowhere"], "no RUN or --out beside it"),
    (["addition", "--out", "nowhere", "--examples", "image.png"], "--examples takes image files")])
def test_export_says_what_is_wrong(words, sentence, capsys):
    assert main(["export", *words]) == 2
    assert sentence in capsys.readouterr().err
