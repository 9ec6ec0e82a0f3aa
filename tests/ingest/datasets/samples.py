"""Data platforms for tests: their pages, what their APIs answer, and the files behind them."""

from __future__ import annotations

import gzip
import hashlib
import json
import pathlib
import re
from typing import Any

from datasette_ingest.ingest.datasets.manifest import DatasetPage, read_dataset_page
from datasette_ingest.ingest.datasets.platforms import Landing

FOLDER = pathlib.Path(__file__).parent / "pages"
TODAY = "2026-11-30"

FILES = {
    "levels": b"dta-original\x00\x01",
    "readme": b"Read it all\n",
    "beetles": b"n,species\n1",
    "scan": b"\x89PNG\r\n\x1a\n\x00",
    "packed": gzip.compress(b"a,b\n1,2\n", mtime=0),
    "pollen": b"a,b\n1,2",
    "calls": b"RIFF12",
    "list": b"a\nb\n",
    "beaks": b"1,2,3",
    "outlines": b"x,y\n1,2\n",
    "gpkg": b"SQLite format 3\x00 glaciers",
}
"""The files that the lists name, by the word that stands between @ signs in their checksums."""

_DIGEST = re.compile(r"@(md5|sha1|sha256) (\w+)@")
_COMMENT = re.compile(r"<!--\n(.*?)-->\n", re.DOTALL)


def source(name: str) -> str:
    """A file of the folder with its digests filled in."""
    text = (FOLDER / name).read_text("utf-8")
    return _DIGEST.sub(lambda found: hashlib.new(found[1], FILES[found[2]]).hexdigest(), text)


def answer(name: str) -> Any:
    """What an API says."""
    return json.loads(source(name))


def page_source(name: str) -> tuple[str, list[str], bytes]:
    """(its URL, its Link headers, its bytes)."""
    text = source(name)
    comment = _COMMENT.match(text)
    assert comment is not None, name
    pairs = [line.partition(": ")[::2] for line in comment[1].splitlines()]
    links = [value for key, value in pairs if key == "link"]
    return dict(pairs)["url"], links, text[comment.end() :].encode("utf-8")


def page(name: str) -> DatasetPage:
    url, links, data = page_source(name)
    return read_dataset_page(data, url, "text/html; charset=utf-8", links)


def landing(name: str) -> Landing:
    """A landing page that was read."""
    found = page(name)
    return Landing(found.url, found, TODAY)
