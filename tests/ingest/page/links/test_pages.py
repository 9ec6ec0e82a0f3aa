"""Hand-made pages of many platforms: the full text is found past each page's traps, and nothing where there is none.

Each file under pages/ begins with a comment of `key: value` lines that say what is on it; a key may repeat:

- `url`: the page's own address; `link`: an HTTP Link header that came with it; `trap`: what is hard about it.
- `pdf`, `xml`, `html`: where the full text of that type is (any of them, if the key repeats), or `none`.
- `dead`: a link that answers 404, so that the one after it has to do.
- `wrong`: a PDF on the page that is another work, or no work at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pytest
from lxml import etree

from datasette_ingest.ingest.errors import IngestError
from datasette_ingest.ingest.page.read import read_page
from datasette_ingest.ingest.urls import parse, without_fragment

PAGES = Path(__file__).parents[1] / "pages"
TYPES = ("pdf", "xml", "html")
TRIED = 5
"""How many candidates a crawl tries with its default settings."""
NONE = "none"
# "html: self" is about the page's scope, not about its links.
SELF = "self"

_FRONT_MATTER = re.compile(r"\s*<!--\n(.*?)-->\n?", re.DOTALL)
_INNER_URL = re.compile(r"(?<=[=('\"])(?:https?:|/|[\w-]+/)[^'\"&)]+")
_SCRIPT_URL = re.compile(r"https?://[^\s\"'<>\\]+")
_KEYS = frozenset({"url", "link", "trap", "dead", "wrong", *TYPES})


@dataclass(frozen=True)
class PageFile:
    """A page as a server would send it, and what its front matter says of it."""

    name: str
    """Folder and file name, without the ending."""
    data: bytes
    """The page, without its front matter."""
    url: str
    links: tuple[str, ...]
    """Values of its HTTP Link headers."""
    expected: dict[str, tuple[str, ...]]
    """Type -> URLs of its full text; empty where there is none."""
    dead: frozenset[str]
    wrong: frozenset[str]
    trap: str


def load(path: Path) -> PageFile:
    """Read a page file. Raises ValueError for front matter that is missing, or has a key or a value that it should not."""
    text = path.read_text(encoding="utf-8")
    front = _FRONT_MATTER.match(text)
    if front is None:
        raise ValueError(f"{path.name} has no front matter")
    values: dict[str, list[str]] = {}
    for line in front[1].strip().splitlines():
        key, colon, value = line.strip().partition(": ")
        if not colon or key not in _KEYS:
            raise ValueError(f"{path.name}: what is {line!r}?")
        values.setdefault(key, []).append(value.strip())
    (url,) = values["url"]
    return PageFile(
        name=f"{path.parent.name}/{path.stem}",
        data=text[front.end() :].encode(),
        url=normal(url),
        links=tuple(values.get("link", ())),
        expected={
            target: tuple(normal(value) for value in values[target] if value != NONE)
            for target in TYPES
            if target in values and values[target] != [SELF]
        },
        dead=frozenset(normal(value) for value in values.get("dead", ())),
        wrong=frozenset(normal(value) for value in values.get("wrong", ())),
        trap=" ".join(values.get("trap", ())),
    )


def normal(url: str, base: str | None = None) -> str:
    """A URL as candidates have it: parsed, without its fragment."""
    return without_fragment(parse(url, base))


def found(page: PageFile, target: str, limit: int | None = None) -> list[str]:
    """The URLs of a page's first candidates, best first, without those that are dead."""
    read = read_page(page.data, page.url, "text/html; charset=utf-8", target=target, links=page.links)
    # A candidate that is no URL stays as it was written; nothing fetches it.
    urls = [without_fragment(candidate.url) for candidate in read.candidates[:limit] if "://" in candidate.url]
    return [url for url in urls if url not in page.dead]


PLATFORMS = [load(path) for path in sorted(PAGES.glob("platforms/*.html"))]
WITHOUT = [load(path) for path in sorted(PAGES.glob("without/*.html"))]
FULL_TEXTS = [
    pytest.param(page, target, id=f"{page.name}-{target}")
    for page in PLATFORMS
    for target, urls in page.expected.items()
    if urls
]
NOTHINGS = [
    pytest.param(page, target, id=f"{page.name}-{target}")
    for page in PLATFORMS + WITHOUT
    for target, urls in page.expected.items()
    if not urls
]


@pytest.mark.parametrize(("page", "target"), FULL_TEXTS)
def test_the_first_candidate_alive_is_the_full_text(page: PageFile, target: str) -> None:
    assert (found(page, target, TRIED) or [NONE])[0] in page.expected[target], page.trap


@pytest.mark.parametrize("page", [page for page in PLATFORMS if page.wrong], ids=lambda page: page.name)
def test_no_other_file_comes_before_the_full_text(page: PageFile) -> None:
    urls = found(page, "pdf")
    first = min((urls.index(url) for url in page.expected["pdf"] if url in urls), default=len(urls))
    assert page.wrong.isdisjoint(urls[:first]), page.trap


@pytest.mark.parametrize(("page", "target"), NOTHINGS)
def test_a_page_without_full_text_has_no_candidate(page: PageFile, target: str) -> None:
    assert found(page, target) == [], page.trap


@pytest.mark.parametrize("page", PLATFORMS + WITHOUT, ids=lambda page: page.name)
def test_what_tempts_is_on_the_page(page: PageFile) -> None:
    assert page.trap
    assert page.wrong <= set(_links(page))


def test_there_are_pages_of_each_kind() -> None:
    assert all("pdf" in page.expected for page in PLATFORMS + WITHOUT)
    assert not any(page.expected["pdf"] for page in WITHOUT)
    assert all(page.wrong for page in WITHOUT)
    assert len(PLATFORMS) >= 34
    assert len(WITHOUT) >= 24


def _links(page: PageFile) -> Iterator[str]:
    """Every URL that a page names: in attributes, inside their values (a query, a line of script), and in scripts."""
    root = etree.fromstring(page.data, etree.HTMLParser(encoding="utf-8"))
    base = normal(root.xpath("string(//base/@href)"), page.url)
    values: Sequence[str] = root.xpath("//@*")
    inner = [text for value in values for text in _INNER_URL.findall(unquote(value))]
    scripts: Sequence[str] = root.xpath("//script/text()")
    for text in (*values, *inner, *(url for script in scripts for url in _SCRIPT_URL.findall(script))):
        with suppress(IngestError):
            yield normal(text, base)
