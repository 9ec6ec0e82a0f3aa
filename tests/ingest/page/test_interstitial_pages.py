"""Pages of real products' structure that stand in the way, and pages that only look as if they did."""

from __future__ import annotations

import pathlib
import re
from dataclasses import dataclass

import pytest

from datasette_ingest.ingest.page.interstitials import interstitial
from datasette_ingest.ingest.page.read import read_page

PAGES = pathlib.Path(__file__).parent / "pages"
_FRONT = re.compile(rb"\A<!--\n(.*?)\n-->\n", re.DOTALL)


@dataclass(frozen=True)
class PageFile:
    """A page, and what its first comment says of it."""

    name: str
    url: str
    status: str
    scope: str
    data: bytes


def page_files(folder: str) -> list[PageFile]:
    found = []
    for path in sorted((PAGES / folder).rglob("*.html")):
        data = path.read_bytes()
        front = _FRONT.match(data)
        assert front is not None, path
        facts = dict(line.split(": ", 1) for line in front[1].decode().splitlines())
        name = str(path.relative_to(PAGES).with_suffix(""))
        found.append(
            PageFile(name, facts["url"], facts.get("status", "none"), facts.get("scope", ""), data[front.end() :])
        )
    return found


INTERSTITIALS = page_files("interstitials")
KINDS = ("blocked-wall", "blocked-captcha", "blocked-cookie", "blocked-forbidden", "soft-404", "js-required")


def verdict(page: PageFile, target: str = "pdf") -> str:
    text = read_page(page.data, page.url, "text/html; charset=utf-8", target=target).text
    assert text is not None
    found = interstitial(page.url, text)
    return "none" if found is None else found.status


@pytest.mark.parametrize("page", INTERSTITIALS, ids=lambda page: page.name)
def test_a_page_is_the_interstitial_that_it_is_or_none(page: PageFile) -> None:
    assert verdict(page) == page.status


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_ten_pages_of_each_kind_and_twenty_that_are_none(kind: str) -> None:
    assert sum(page.status == kind for page in INTERSTITIALS) >= 10
    assert sum(page.status == "none" for page in INTERSTITIALS) >= 20


@pytest.mark.parametrize("page", [page for page in INTERSTITIALS if page.status != "none"], ids=lambda page: page.name)
def test_an_interstitial_is_reported_with_its_url(page: PageFile) -> None:
    text = read_page(page.data, page.url, "text/html; charset=utf-8", target="pdf").text
    assert text is not None
    found = interstitial(page.url, text)
    assert found is not None
    assert page.url in found.message
