"""Code in the documents and examples runs as it stands."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "docs" / "guide.md"]
BLOCKS = [(page, language, code) for page in PAGES
          for language, code in re.findall(r"^```(python|console)\n(.*?)^```", page.read_text(), re.M | re.S)]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run_in_order(page, tmp_path):
    blocks = [code for where, language, code in BLOCKS if where == page and language == "python"]
    assert blocks
    done = subprocess.run([sys.executable, "-c", "\n".join(blocks)], capture_output=True, text=True, cwd=tmp_path,
                          timeout=110)
    assert done.returncode == 0, done.stderr


COMMANDS = [(page, line[2:]) for page, language, code in BLOCKS if language == "console"
            for line in code.splitlines() if line.startswith("$ frost ") and " demo" not in line]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=lambda value: getattr(value, "name", value))
def test_commands_print_what_the_page_shows(page, command):
    shown = next(code for where, language, code in BLOCKS if where == page and f"$ {command}\n" in code)
    expected = shown.split(f"$ {command}\n")[1].split("\n$ ")[0].strip()
    done = subprocess.run([sys.executable, "-m", *shlex.split(command)], capture_output=True, text=True, timeout=110)
    assert (done.stdout + done.stderr).strip() == expected


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(example, tmp_path):
    assert example.read_text().count("\n") <= 40
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, cwd=tmp_path, timeout=110)
    assert done.returncode == 0, done.stderr
    assert "adaptive" in done.stdout
    assert "fixed depth" in done.stdout
    assert (tmp_path / "runs" / example.stem / "MANIFEST.json").exists()    # saved, and loaded again


def test_every_page_links_to_what_exists():
    for page in [*PAGES, *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_in_the_text_work_as_they_stand(page):
    """`frost.a.b` is reached by `import frost`, or is a module; an import in the text can be typed."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    for dotted in set(re.findall(r"`(frost(?:\.\w+)+)", text)):
        code = f"import frost\ntry:\n    {dotted}\nexcept AttributeError:\n    import {dotted}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{page.name}: {dotted}"
    for line in set(re.findall(r"`(from frost[\w.]* import \w+)`", text)):
        done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{page.name}: {line}"
