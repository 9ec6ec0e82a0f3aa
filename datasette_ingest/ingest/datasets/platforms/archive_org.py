"""Items of the Internet Archive: https://archive.org/developers/metadata-schema/

Only the list of an item's files and the files themselves are fetched, never its page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote

from ...errors import Platform404, PlatformRestricted, PlatformScope
from ...model import FileEntry
from ...urls import split
from ..manifest import entry
from .base import ApiRequest, Dataset, Landing, ListingPage, escaped, listed, mapping, part, segments, text

NAME = "archive.org"
ROOT = "https://archive.org"

_ITEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_FIRST = frozenset({"details", "download", "metadata"})
# What the archive adds to what was given to it.
_ADDED = re.compile(
    r"_(?:meta|files|reviews)\.xml$|_meta\.sqlite$|_archive\.torrent$|^__ia_thumb\.jpg$|_itemimage\.jpg$"
)


def recognise(landing: Landing) -> Dataset | None:
    """`archive.org/details/ITEM`, with or without a file behind it."""
    parts = split(landing.url)
    path = segments(parts)
    if parts.host.removeprefix("www.") != "archive.org" or len(path) < 2 or path[0] not in _FIRST:
        return None
    item = unquote(path[1])
    if not _ITEM.fullmatch(item):
        return None
    api = f"{ROOT}/metadata/{item}"
    return Dataset(NAME, item, ApiRequest(api, partial(_read, item=item)), has_page=False)


def _read(answer: Any, api: str, *, item: str) -> ListingPage:
    found = mapping(answer, api)
    if not found:
        raise Platform404(f"there is no item {item}, says {api}")
    if found.get("is_dark") is True:
        raise PlatformRestricted(f"the item is not shown to the public, says {api}")
    if part(found, "metadata", "mediatype") == "collection":
        raise PlatformScope(f"{item} is a collection of items, says {api}")
    closed = part(found, "metadata", "access-restricted-item") in ("true", True)
    files = listed(found.get("files"), api)
    return ListingPage(tuple(_file(file, item, closed=closed) for file in files if _was_given(file, item)))


def _was_given(file: Mapping[str, Any], item: str) -> bool:
    name = text(file.get("name")) or ""
    if file.get("source", "original") != "original" or file.get("format") == "Metadata":
        return False
    return not _ADDED.search(name.removeprefix(item))


def _file(file: Mapping[str, Any], item: str, *, closed: bool) -> FileEntry:
    name = text(file.get("name"))
    return entry(
        name,
        url=f"{ROOT}/download/{item}/{escaped(name, safe='/')}" if name else None,
        base=ROOT,
        size=file.get("size"),
        checksums=[(algorithm, file.get(algorithm)) for algorithm in ("md5", "sha1")],
        restricted=closed or file.get("private") in ("true", True),
    )
