"""The documentation as data: its pages, and what stands in them."""

from __future__ import annotations

import pathlib
import re
import textwrap

PROJECT = pathlib.Path(__file__).resolve().parents[1]
DOCS = PROJECT / "docs"
PAGES = {
    path.relative_to(PROJECT).as_posix(): path
    for path in (PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md")))
}

FIRST_COMMANDS = [
    "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/datasette ingest demo",
    "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest",
]


def text(page: str) -> str:
    return PAGES[page].read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """The contents of the page's code blocks in this language; '' for those that name none."""
    return [content for named, content in fenced(page) if named == language]


def fenced(page: str) -> list[tuple[str, str]]:
    """(language, content) of each code block, in order, those within lists as well."""
    found = re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", text(page), re.MULTILINE | re.DOTALL)
    return [(language, textwrap.dedent(content)) for _, language, content in found]


def without_blocks(page: str) -> str:
    """The page's sentences, tables and headings."""
    return re.sub(r"^( *)```.*?^\1```$", "", text(page), flags=re.MULTILINE | re.DOTALL)


def headings(page: str) -> list[str]:
    return re.findall(r"^#+ (.+)$", without_blocks(page), re.MULTILINE)


def first_cells(page: str) -> set[str]:
    """The words in code type that begin a row of a table of the page."""
    return set(re.findall(r"^\| `([^`]+)`", text(page), re.MULTILINE))
