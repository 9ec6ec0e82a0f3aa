"""Dataverse, wherever it is installed: https://guides.dataverse.org/en/latest/api/native-api.html

Recognised by paths that no other software has. Of a table that was converted on upload the original is listed: the size
and the checksum that the API gives are the original's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlencode

from ...errors import Platform404, PlatformScope
from ...model import FileEntry
from ...urls import mask, split
from ..manifest import DatasetPage, entry
from .base import ApiRequest, Dataset, Landing, ListingPage, listed, mapping, part, text

NAME = "dataverse"

_PAGE = re.compile(
    r"(?P<root>(?:/[^/?]+)*?)/(?P<page>dataset|file|dataverse)\.xhtml$|(?P<api>(?:/[^/?]+)*?)/api/datasets/:persistentId/?$"
)
_NUMBER = re.compile(r"[0-9]+\.[0-9]+")
_DOI = re.compile(r"doi:10\.[0-9]+/.+")


def recognise(landing: Landing) -> Dataset | None:
    """`…/dataset.xhtml?persistentId=doi:…`, and a file's page, which names its dataset."""
    url = landing.url
    path, _, query = split(url).target.partition("?")
    match = _PAGE.fullmatch(path)
    if match is None:
        return None
    if match["page"] == "dataverse":
        raise PlatformScope(f"{mask(url)} is a collection of datasets")
    wanted = parse_qs(query)
    root = split(url).origin + (match["root"] or match["api"] or "")
    if match["page"] == "file":
        name = _dataset_of_file(wanted, landing.page)
        return None if name is None else _dataset(root, name, None, landing.today)
    name = next(iter(wanted.get("persistentId", ())), None)
    return None if name is None else _dataset(root, name, next(iter(wanted.get("version", ())), None), landing.today)


def _dataset_of_file(wanted: Mapping[str, list[str]], page: DatasetPage | None) -> str | None:
    """The page of a file links to its dataset; before it is read, a DOI of the usual form holds the dataset's."""
    for href in page.hrefs if page is not None else ():
        path, _, query = split(href).target.partition("?")
        if path.endswith("/dataset.xhtml") and (names := parse_qs(query).get("persistentId")):
            return names[0]
    name = next(iter(wanted.get("persistentId", ())), "")
    parent = name.rpartition("/")[0]
    return parent if page is not None and _DOI.fullmatch(parent) else None


def _dataset(root: str, name: str, version: str | None, today: str) -> Dataset:
    # ":draft" and the like are for editors.
    numbered = f"/versions/{version}" if version and _NUMBER.fullmatch(version) else "/"
    url = f"{root}/api/datasets/:persistentId{numbered}?{urlencode({'persistentId': name})}"
    return Dataset(NAME, name, ApiRequest(url, partial(_read, root=root, today=today)))


def _read(answer: Any, url: str, *, root: str, today: str) -> ListingPage:
    data = mapping(part(mapping(answer, mask(url)), "data"), mask(url))
    version = data.get("latestVersion") if "latestVersion" in data else data
    if part(version, "versionState") == "DEACCESSIONED":
        raise Platform404(f"the dataset was withdrawn, says {mask(url)}")
    return ListingPage(tuple(_file(file, root, today) for file in listed(part(version, "files"), mask(url))))


def _file(file: Mapping[str, Any], root: str, today: str) -> FileEntry:
    data = file.get("dataFile")
    original = text(part(data, "originalFileFormat"))
    name = (text(part(data, "originalFileName")) if original else None) or text(file.get("label"))
    folder = text(file.get("directoryLabel"))
    number = text(part(data, "id"))
    url = f"{root}/api/access/datafile/{number}" if number and number.isdigit() else None
    converted = original is not None and part(data, "originalFileSize") is not None
    checksum = part(data, "checksum")
    return entry(
        f"{folder}/{name}" if folder and name else name,
        url=f"{url}?format=original" if url and original else url,
        base=root,
        size=part(data, "originalFileSize") if converted else None if original else part(data, "filesize"),
        checksums=[("md5", part(data, "md5")), (part(checksum, "type"), part(checksum, "value"))],
        mimetype=original or part(data, "contentType"),
        restricted=file.get("restricted") is True or (text(part(data, "embargo", "dateAvailable")) or "") > today,
    )
