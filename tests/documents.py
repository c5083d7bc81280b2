"""What the tests of the documents read: pages, and the code in them."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
LONG = "<!-- long -->"      # on the line before a block: too long for a test


class Block(NamedTuple):
    """Fenced text of a page."""

    page: Path
    language: str
    code: str
    is_long: bool


def name_of(page: Path) -> str:
    """A page as the tests call it."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """All fenced blocks, in order."""
    pattern = rf"^({re.escape(LONG)}\n)?```(\w*)\n(.*?)^```$"
    return [Block(page, language, code, bool(mark))
            for mark, language, code in re.findall(pattern, page.read_text(), re.M | re.S)]


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)


def code_spans(page: Path) -> list[str]:
    """What stands between backticks in the text, each on one line."""
    return [re.sub(r"\s+", " ", span) for span in re.findall(r"`([^`]+)`", prose(page))]
