"""Zenodo and other repositories that run Invenio: https://developers.zenodo.org/, https://inveniordm.docs.cern.ch/reference/rest_api_index/

Recognised by `/records/ID` together with a link to the API's record on the page; zenodo.org by its host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ...errors import PlatformError, PlatformRestricted, PlatformScope
from ...model import FileEntry
from ...urls import mask, split
from ..manifest import DatasetPage, entry, whole
from .base import ApiRequest, Dataset, Landing, ListingPage, escaped, listed, mapping, part, segments, text

NAME = "invenio"

_HOSTS = {"zenodo.org": "zenodo", "www.zenodo.org": "zenodo", "sandbox.zenodo.org": "zenodo"}
_ID = re.compile(r"[0-9]+|[0-9a-z]{5}-[0-9a-z]{5}|[0-9a-f]{32}")
_NO_RECORDS = frozenset({"communities", "search", "collection"})
_OPEN = frozenset({"open", "public", ""})


def recognise(landing: Landing) -> Dataset | None:
    """`…/records/ID`, in older versions `…/record/ID`, and the API's own `…/api/records/ID`."""
    parts, page = split(landing.url), landing.page
    path = segments(parts)
    platform = _HOSTS.get(parts.host)
    if platform and path[:1] and path[0] in _NO_RECORDS:
        raise PlatformScope(f"{mask(landing.url)} is no single record")
    is_api = path[:1] == ["api"]
    path = path[1:] if is_api else path
    if len(path) < 2 or path[0] not in ("record", "records") or not _ID.fullmatch(path[1]):
        return None
    if not platform and not is_api and not (page is not None and _links_record(page, path[1])):
        return None
    api = f"{parts.origin}/api/records/{path[1]}"
    return Dataset(platform or NAME, path[1], ApiRequest(api, _read_record))


def _links_record(page: DatasetPage, record: str) -> bool:
    wanted = f"/api/records/{record}"
    return any(split(link.href).target == wanted for link in page.links) or page.mentions(wanted)


def _read_record(answer: Any, api: str) -> ListingPage:
    record = mapping(answer, api)
    state = [
        part(record, "metadata", "access_right"),
        part(record, "access", "files"),
        part(record, "access", "status"),
    ]
    closed = [word for word in map(text, state) if word is not None and word.lower() not in (*_OPEN, "metadata-only")]
    files = record.get("files")
    if isinstance(files, list) and (files or not closed):
        return ListingPage(_files(listed(files, api), api, closed=bool(closed)))
    if closed:
        raise PlatformRestricted(f"the files are {closed[0]}, says {api}")
    if part(files, "enabled") is False or part(record, "access", "status") == "metadata-only":
        return ListingPage()
    entries = part(files, "entries")
    if isinstance(entries, Mapping) and entries and len(entries) == whole(part(files, "count")):
        return ListingPage(_files(listed(list(entries.values()), api), api))
    return ListingPage(more=(ApiRequest(f"{api}/files", partial(_read_files, api=api)),))


def _read_files(answer: Any, url: str, *, api: str) -> ListingPage:
    return ListingPage(_files(listed(part(mapping(answer, url), "entries"), url), api))


def _files(files: Sequence[Mapping[str, Any]], api: str, *, closed: bool = False) -> tuple[FileEntry, ...]:
    return tuple(_file(file, api, closed=closed) for file in files)


def _file(file: Mapping[str, Any], api: str, *, closed: bool) -> FileEntry:
    name = text(file.get("key")) or text(file.get("filename"))
    if name is None:
        raise PlatformError(f"a file without a name in the list of {api}")
    algorithm, colon, digest = (text(file.get("checksum")) or "").partition(":")
    return entry(
        name,
        url=_address(file, name, api),
        base=api,
        size=file.get("size", file.get("filesize")),
        checksums=[(algorithm, digest) if colon else ("md5", algorithm)],
        mimetype=file.get("mimetype"),
        restricted=closed,
    )


def _address(file: Mapping[str, Any], name: str, api: str) -> str:
    """Its `content` link, else `self` where that is the content (Zenodo), else a bucket's, else what both would say."""
    link = text(part(file, "links", "content"))
    if link is None and (own := text(part(file, "links", "self"))) is not None:
        # In InvenioRDM `self` is the file's description.
        link = own if own.endswith("/content") or "/api/records/" not in own else None
    if link is None and (bucket := text(file.get("bucket"))):
        link = f"{split(api).origin}/api/files/{escaped(bucket)}/{escaped(name)}"
    return link or f"{api}/files/{escaped(name)}/content"
