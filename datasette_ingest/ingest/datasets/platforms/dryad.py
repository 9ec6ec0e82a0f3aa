"""Dryad: https://datadryad.org/api

Its list of files is public; the files themselves need a login.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from ...model import FileEntry
from ...urls import split
from ..manifest import entry
from .base import PAGE_SIZE, ApiRequest, Dataset, Landing, ListingPage, api_link, escaped, listed, mapping, part, text

NAME = "dryad"
ROOT = "https://datadryad.org"
API = f"{ROOT}/api/v2/"

_PATH = re.compile(r"/(?:stash/)?dataset/(doi:10\.[0-9]+/[^/?]+)/?|/api/v2/datasets/(doi:10\.[0-9]+/[^/?]+)/?")


def recognise(landing: Landing) -> Dataset | None:
    """`datadryad.org/dataset/doi:…`, in older links `/stash/dataset/doi:…`."""
    parts = split(landing.url)
    if parts.host.removeprefix("www.") != "datadryad.org":
        return None
    match = _PATH.fullmatch(unquote(parts.target.partition("?")[0]))
    if match is None:
        return None
    name = match[1] or match[2]
    api = f"{ROOT}/api/v2/datasets/{escaped(name)}"
    return Dataset(NAME, name, ApiRequest(api, _read_dataset))


def _read_dataset(answer: Any, api: str) -> ListingPage:
    version = part(mapping(answer, api), "_links", "stash:version", "href")
    url = api_link(version, api, root=API)
    return ListingPage(more=(ApiRequest(f"{url}/files?per_page={PAGE_SIZE}", _read_page),))


def _read_page(answer: Any, url: str) -> ListingPage:
    page = mapping(answer, url)
    files = listed(part(page, "_embedded", "stash:files"), url)
    following = part(page, "_links", "next", "href")
    more = () if following is None else (ApiRequest(api_link(following, url, root=API), _read_page),)
    return ListingPage(tuple(_file(file) for file in files if file.get("status") != "deleted"), more)


def _file(file: Mapping[str, Any]) -> FileEntry:
    return entry(
        text(file.get("path")),
        url=part(file, "_links", "stash:download", "href"),
        base=ROOT,
        size=file.get("size"),
        checksums=[(file.get("digestType"), file.get("digest"))],
        mimetype=file.get("mimeType"),
    )
