"""figshare, its own site and those of institutions: https://docs.figshare.com/

All of them have one API, at api.figshare.com. A site with a host name of its own is recognised by what its pages load.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ...errors import PlatformRestricted, PlatformScope
from ...model import FileEntry
from ...urls import mask, split
from ..manifest import DatasetPage, entry
from .base import PAGE_SIZE, ApiRequest, Dataset, Landing, ListingPage, listed, mapping, segments, text

NAME = "figshare"
API = "https://api.figshare.com/v2/articles"

_NO_DATASETS = frozenset({"collections", "projects", "authors", "categories", "search", "browse"})


def recognise(landing: Landing) -> Dataset | None:
    """`…/articles/TYPE/TITLE/ID/VERSION`; type, title and version may be missing."""
    parts, page = split(landing.url), landing.page
    path = segments(parts)
    if parts.host == "api.figshare.com" and path[:2] == ["v2", "articles"]:
        path = ["articles", *(segment for segment in path[2:] if segment != "versions")]
    if not path or not (_is_ours(parts.host) or (page is not None and _loads_figshare(page))):
        return None
    if path[0] in _NO_DATASETS:
        raise PlatformScope(f"{mask(landing.url)} is no single dataset")
    numbers = _numbers(path[1:]) if path[0] == "articles" else None
    return None if numbers is None else _dataset(*numbers)


def _is_ours(host: str) -> bool:
    return host == "figshare.com" or host.endswith(".figshare.com")


def _loads_figshare(page: DatasetPage) -> bool:
    return any(_is_ours(split(href).host) for href in page.hrefs)


def _numbers(path: list[str]) -> tuple[str, str | None] | None:
    """(id, version). Versions are small; a title may be a number too."""
    if not path or not path[-1].isdigit():
        return None
    if len(path) > 1 and path[-2].isdigit() and len(path[-2]) >= 3 and len(path[-1]) <= 3:
        return path[-2], path[-1]
    return path[-1], None


def _dataset(number: str, version: str | None) -> Dataset:
    url = f"{API}/{number}" + (f"/versions/{version}" if version else "")
    name = f"{number}.v{version}" if version else number
    return Dataset(NAME, name, ApiRequest(url, _read_article))


def _read_article(answer: Any, url: str) -> ListingPage:
    article = mapping(answer, url)
    if article.get("is_embargoed") is True or article.get("is_confidential") is True:
        raise PlatformRestricted(f"the files are not open, says {url}")
    if article.get("is_metadata_record") is True:
        return ListingPage()
    # Its own list of files is cut short; the whole one is in pages.
    return ListingPage(more=(_page(url, 1, frozenset()),))


def _page(url: str, number: int, seen: frozenset[str]) -> ApiRequest:
    read = partial(_read_page, article=url, number=number, seen=seen)
    return ApiRequest(f"{url}/files?page={number}&page_size={PAGE_SIZE}", read)


def _read_page(answer: Any, url: str, *, article: str, number: int, seen: frozenset[str]) -> ListingPage:
    files = listed(answer, url)
    names = [text(file.get("id")) or "" for file in files]
    new = tuple(_file(file, article) for file, name in zip(files, names, strict=True) if name not in seen)
    # A server that knows no pages gives the same files again.
    priority = len(files) == PAGE_SIZE and new
    return ListingPage(new, (_page(article, number + 1, seen.union(names)),) if priority else ())


def _file(file: Mapping[str, Any], base: str) -> FileEntry:
    elsewhere = file.get("is_link_only") is True
    return entry(
        text(file.get("name")),
        url=file.get("download_url"),
        base=base,
        size=None if elsewhere else file.get("size"),
        checksums=[("md5", file.get("supplied_md5")), ("md5", file.get("computed_md5"))],
        mimetype=file.get("mimetype"),
    )
