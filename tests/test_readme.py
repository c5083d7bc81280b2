"""The README stays short and lists every room; the examples run as they stand."""

import subprocess
import sys

import pytest

from documents import ROOT

README = (ROOT / "README.md").read_text()
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_the_readme_has_at_most_eighty_lines():
    assert README.count("\n") <= 80


def test_the_tree_lists_every_room():
    tree = README.split("## The tree")[1].split("```")[1]
    listed = [line.split()[1] for line in tree.splitlines() if line.startswith(("├", "└"))]
    rooms = [f"{path.name}/" for path in (ROOT / "src" / "frost").iterdir() if path.is_dir()]
    assert sorted(listed) == sorted(set(rooms) - {"__pycache__/"})


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(example, tmp_path):
    assert example.read_text().count("\n") <= 40
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, cwd=tmp_path, timeout=110,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert "adaptive" in done.stdout
    assert "fixed depth" in done.stdout
    assert (tmp_path / "runs" / example.stem / "MANIFEST.json").exists()    # saved, and loaded again
