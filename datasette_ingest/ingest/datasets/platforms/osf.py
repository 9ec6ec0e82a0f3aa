"""OSF: https://developer.osf.io/

Lists the files of a project or registration in OSF's own storage, not those in storages that it only links to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...errors import PlatformError, PlatformScope
from ...model import FileEntry
from ...urls import split
from ..manifest import entry
from .base import PAGE_SIZE, ApiRequest, Dataset, Landing, ListingPage, api_link, listed, mapping, part, segments, text

NAME = "osf"
API = "https://api.osf.io/v2/"

_GUID = re.compile(r"[a-z0-9]{5}")
_NO_GUIDS = frozenset({"about", "login", "terms"})
_WITH_FILES = frozenset({"nodes", "registrations"})


def recognise(landing: Landing) -> Dataset | None:
    """`osf.io/GUID`, and the pages below it."""
    parts = split(landing.url)
    path = segments(parts)
    if parts.host.removeprefix("www.") != "osf.io" or not path:
        return None
    guid = path[0].lower()
    if not _GUID.fullmatch(guid) or guid in _NO_GUIDS:
        return None
    url = f"{API}guids/{guid}/"
    return Dataset(NAME, guid, ApiRequest(url, _read_guid))


def _read_guid(answer: Any, url: str) -> ListingPage:
    """The project or registration that a GUID is for: its files are the next request."""
    data = part(mapping(answer, url), "data")
    kind, name = text(part(data, "type")), text(part(data, "id"))
    if kind is None or name is None or not name.isalnum():
        raise PlatformError(f"the answer of {url} does not say what it is about")
    if kind not in _WITH_FILES:
        raise PlatformScope(f"{url} is one of OSF's {kind!r}, which are no datasets")
    files = f"{API}{kind}/{name}/files/osfstorage/?page%5Bsize%5D={PAGE_SIZE}"
    return ListingPage(more=(ApiRequest(files, _read_folder),))


def _read_folder(answer: Any, url: str) -> ListingPage:
    found = mapping(answer, url)
    items = listed(found.get("data"), url)
    folders = [item for item in items if part(item, "attributes", "kind") == "folder"]
    inner = [part(item, "relationships", "files", "links", "related", "href") for item in folders]
    following = part(found, "links", "next")
    further = [api_link(href, url, root=API) for href in (*inner, *([] if following is None else [following]))]
    files = tuple(_file(item) for item in items if part(item, "attributes", "kind") != "folder")
    return ListingPage(files, tuple(ApiRequest(link, _read_folder) for link in further))


def _file(item: Mapping[str, Any]) -> FileEntry:
    about = part(item, "attributes")
    hashes = part(about, "extra", "hashes")
    return entry(
        text(part(about, "materialized_path")) or text(part(about, "name")),
        url=part(item, "links", "download"),
        base=API,
        size=part(about, "size"),
        checksums=[(name, part(hashes, name)) for name in ("md5", "sha256")],
    )
