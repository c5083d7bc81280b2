"""The documents hold: their code runs, their commands parse, their names and links exist."""

import importlib
import re
import shlex
import subprocess
import sys

import pytest

import frost
from documents import DOCS, PAGES, ROOT, blocks, code_spans, name_of, prose
from frost.cli import VERBS, parser
from frost.commands.describe import describe
from frost.config import override
from frost.recipes import recipe

TASKS = [page for page in PAGES if page.parent in (ROOT, DOCS, DOCS / "guides")
         and page.name not in ("changelog.md", "decisions.md")]
PYTHON = [page for page in PAGES if any(block.language == "python" for block in blocks(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", PYTHON, ids=name_of)
def test_python_blocks_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    ran = 0
    for block in blocks(page):
        if block.language == "python" and not block.is_long:
            exec(compile(block.code, name_of(page), "exec"), namespace)
            ran += 1
    assert ran or all(block.is_long for block in blocks(page) if block.language == "python")


CONSOLE = [(block, line[2:]) for page in PAGES for block in blocks(page) if block.language == "console"
           for line in block.code.splitlines() if line.startswith("$ frost ") and not block.is_long]


@pytest.mark.slow
@pytest.mark.parametrize(("block", "command"), CONSOLE, ids=[command for _, command in CONSOLE])
def test_commands_print_what_the_page_shows(block, command):
    expected = block.code.split(f"$ {command}\n")[1].split("$ ")[0].strip()
    done = subprocess.run([sys.executable, "-m", *shlex.split(command)], capture_output=True, text=True, timeout=110,
                          check=False)
    assert (done.stdout + done.stderr).strip() == expected


def commands(page):
    """Every `frost VERB …` of a page with more than a verb; what stands in brackets is given, N and D are numbers."""
    lines = [line.removeprefix("$ ") for block in blocks(page) for line in block.code.splitlines()]
    found = [line.split(" #")[0] for line in lines if line.startswith("frost ")]
    found += [span for span in code_spans(page) if span.startswith("frost ")]
    words = [shlex.split(command.replace("[", "").replace("]", ""))[1:] for command in found]
    return [["2" if word in ("N", "D") else word for word in line] for line in words if len(line) > 1]


COMMANDS = [(page, words) for page in PAGES for words in commands(page)]


@pytest.mark.parametrize(("page", "words"), COMMANDS,
                         ids=[f"{name_of(page)}: {' '.join(words)}" for page, words in COMMANDS])
def test_every_command_parses(page, words):
    """With its settings, where they are those of today: a page of decisions may name what left the code."""
    assert words[0] in VERBS
    arguments = parser(words[:1]).parse_args(words)
    settings = [setting for setting in getattr(arguments, "assignments", []) if "…" not in setting]
    if page in TASKS and settings and words[0] == "train":
        override(recipe(arguments.recipe), settings)
    if page in TASKS and settings and words[0] == "describe":
        describe(arguments.model, settings)


def test_a_command_that_does_not_parse_is_noticed():
    with pytest.raises(SystemExit):
        parser(["train"]).parse_args(["train", "digits"])     # --out is missing


@pytest.mark.parametrize("page", TASKS, ids=name_of)
def test_settings_in_the_text_exist(page):
    for span in code_spans(page):
        path = re.match(r"((?:model|train|halting|runtime)(?:\.[a-z_]+)+)(?:=\S+)?$", span)
        config = recipe("digits")
        for part in path[1].split(".") if path else []:
            assert hasattr(config, part), span
            config = getattr(config, part)


@pytest.mark.parametrize("page", TASKS, ids=name_of)
def test_names_in_the_text_work_as_they_stand(page):
    """`frost.a.b` is reached by `import frost`, or is a module; an import in the text can be typed."""
    for dotted in re.findall(r"`(frost(?:\.\w+)+)", prose(page)):
        thing = frost
        for part in dotted.split(".")[1:]:
            thing = getattr(thing, part, None)
        assert thing is not None or importlib.import_module(dotted)
    for module, name in re.findall(r"`from (frost[\w.]*)\s+import\s+(\w+)`", prose(page)):
        assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


def anchors(page):
    """Of the headings, as the site and GitHub make them."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page):
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text()):
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_lines_are_at_most_120_characters(page):
    assert [line for line in page.read_text().splitlines() if len(line) > 120] == []


def test_every_page_is_in_the_navigation():
    listed = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES if page.parent != ROOT)


def test_the_reference_has_every_public_name_once():
    reference = "".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    shown = re.findall(r"^::: frost\.(\w+)$", reference, re.M)
    assert sorted(shown) == frost.__all__


def test_decisions_are_numbered_without_a_gap():
    pages = sorted((DOCS / "decisions").glob("*.md"))
    numbers = [[int(number) for number in re.findall(r"^### (\d+)\. ", page.read_text(), re.M)] for page in pages]
    assert all(page == sorted(page, reverse=True) for page in numbers)     # newest first
    listed = [int(number) for number in re.findall(r"^- \[(\d+)\. ", (DOCS / "decisions.md").read_text(), re.M)]
    assert sorted(number for page in numbers for number in page) == sorted(listed) == list(range(1, len(listed) + 1))
