"""A dataset's page -> the files that it lists itself: schema.org's Dataset (https://schema.org/Dataset), and the typed
links of signposting (https://signposting.org/FAIR/, RFC 9264 for link sets).

Everything here comes from a hostile page: values of any type and size, which `entry` makes harmless.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any
from urllib.parse import unquote

from ..errors import NOT_TRIED, BadScheme, InvalidUrl, PlatformError, PlatformRestricted
from ..model import FileEntry, digest_name
from ..page.html import base_of, parse_html
from ..page.json_ld import Node, json_ld, nodes_of, objects, short, texts, types_of
from ..page.link_header import read_link_headers
from ..page.text import PageText, read_text
from ..urls import parse, resolve, same_page, split

MAX_PATH = 1024
"""Longest path of a file in characters; the rest is cut off."""
MAX_SIZE = 2**49
"""Sizes beyond this, half a petabyte, are no sizes; ten thousand of them still fit into an SQLite integer."""
MAX_LISTED = 10_000
"""Files of one list; larger datasets are told by their archives, not by a list."""
MAX_HREFS = 5000
"""Links of one page that are looked at to recognise its platform."""
MAX_REFERRED = 5
"""Link sets and descriptions, each, that a page may send us to."""
MAX_LINKS = 10_000
"""Typed links of one page that are read."""
LINKSET = "application/linkset+json"
JSON_LD = "application/ld+json"

_DIGEST_LENGTHS = {"md5": 32, "sha1": 40, "sha256": 64}
_HEX = re.compile(r"[0-9a-f]+")
_MIMETYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,100}/[a-z0-9!#$&^_.+-]{1,100}")
_BYTES = re.compile(r"([0-9]{1,18})\s*(?:b|byte|bytes)?", re.IGNORECASE)
_LABELLED_DIGEST = re.compile(r"\s*(md5|sha-?1|sha-?256)\s*[:=]\s*([0-9a-f]+)\s*", re.IGNORECASE)
_SLASHES = re.compile(r"[/\\]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class PageLink:
    """A typed link of a page: an absolute URL, relations and MIME type in lower case."""

    url: str
    rels: frozenset[str]
    mimetype: str = ""
    title: str = ""


@dataclass(frozen=True)
class DatasetPage:
    """A landing page as far as datasets are concerned."""

    url: str
    nodes: tuple[Node, ...] = ()
    """What its JSON-LD describes."""
    links: tuple[PageLink, ...] = ()
    """Its Link headers and link elements."""
    hrefs: tuple[str, ...] = ()
    """Where its anchors, frames and scripts lead: absolute URLs, the first MAX_HREFS."""
    described: tuple[FileEntry, ...] = ()
    """The files of the dataset that its JSON-LD describes."""
    items: tuple[FileEntry, ...] = ()
    """The targets of its `item` links."""
    text: PageText | None = None
    data: bytes = field(default=b"", repr=False)

    def mentions(self, text: str) -> bool:
        """Whether the page's source holds this (ASCII) text."""
        return text.encode("ascii", "replace") in self.data


def read_dataset_page(data: bytes, url: str, content_type: str, link_headers: Iterable[str] = ()) -> DatasetPage:
    """Parse a landing page. One without an element, or that is no HTML, has nothing but its Link headers."""
    root = parse_html(data, content_type)
    base = url if root is None else base_of(root, url)
    links = [
        PageLink(href, link.rels, link.mimetype, link.title)
        for link in read_link_headers(link_headers)
        if not link.anchor or _is_page(link.anchor, url)
        if (href := absolute(link.href, url)) is not None
    ]
    if root is None:
        return DatasetPage(url, links=tuple(links), items=linked_files(links, url), data=data)
    links += islice(_link_elements(root, base), MAX_LINKS)
    nodes = json_ld(root)
    return DatasetPage(
        url=url,
        nodes=nodes,
        links=tuple(links),
        hrefs=tuple(islice(_hrefs(root, base), MAX_HREFS)),
        described=described_files(nodes, url),
        items=linked_files(links, url),
        text=read_text(root, has_citation=False),
        data=data,
    )


def with_document(page: DatasetPage, value: Any) -> DatasetPage:
    """A page that is, or refers to, a document of JSON-LD: with what the document describes."""
    nodes = nodes_of(value)
    return replace(page, nodes=nodes, described=described_files(nodes, page.url))


def _link_elements(root: Any, base: str) -> Iterator[PageLink]:
    for element in root.iter("link"):
        href = absolute(element.get("href"), base)
        if href is not None:
            rels = frozenset((element.get("rel") or "").lower().split())
            yield PageLink(href, rels, _mimetype(element.get("type")) or "", element.get("title") or "")


def _hrefs(root: Any, base: str) -> Iterator[str]:
    for element in root.iter("a", "iframe", "script", "link", "form"):
        reference = element.get("href") or element.get("src") or element.get("action")
        url = absolute(reference, base) if reference else None
        if url is not None:
            yield url


def _is_page(anchor: str, url: str) -> bool:
    href = absolute(anchor, url)
    return href is not None and same_page(href, url)


# schema.org


def described_dataset(nodes: Iterable[Node], url: str) -> Node | None:
    """The Dataset that is described: of several the one whose own URL is the page's, else the first with files."""
    found = [node for node in nodes if "Dataset" in types_of(node)]
    own = [
        node for node in found if any(_is_page(name, url) for key in ("url", "@id") for name in texts(node.get(key)))
    ]
    ranked = [*own, *found]
    return next((node for node in ranked if node.get("distribution")), ranked[0] if ranked else None)


def described_files(nodes: Iterable[Node], url: str) -> tuple[FileEntry, ...]:
    """The files in a Dataset's `distribution`; nothing where no node is a Dataset."""
    nodes = tuple(nodes)
    dataset = described_dataset(nodes, url)
    if dataset is None:
        return ()
    by_id = {name: node for node in nodes if isinstance(name := node.get("@id"), str)}
    closed = _says_closed(dataset)
    items = islice(_items(dataset.get("distribution")), MAX_LISTED + 1)
    return tuple(_download(item, by_id, url, closed=closed) for item in items)


def _items(value: Any) -> Iterator[Node]:
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, Mapping):
            yield item
        elif isinstance(item, str) and item.strip():
            yield {"contentUrl": item}


def _download(item: Node, by_id: Mapping[str, Node], base: str, *, closed: bool) -> FileEntry:
    name = item.get("@id")
    if isinstance(name, str) and not item.keys() - {"@id", "@type"}:
        # Described elsewhere in the graph.
        item = by_id.get(name, item)
    item = {short(str(key)): value for key, value in item.items()}
    reference = next(texts(item.get("contentUrl")), None) or next(texts(item.get("url")), None)
    return entry(
        next(texts(item.get("name")), None),
        url=reference,
        base=base,
        size=_content_size(item.get("contentSize")),
        checksums=_checksums(item),
        mimetype=next(texts(item.get("encodingFormat")), None) or next(texts(item.get("fileFormat")), None),
        restricted=closed or _says_closed(item),
    )


def _says_closed(node: Node) -> bool:
    return any(
        text.lower() in ("false", "https://schema.org/false") for text in texts(node.get("isAccessibleForFree"))
    ) or (node.get("isAccessibleForFree") is False)


def _content_size(value: Any) -> int | None:
    """Bytes; None for "1.2 MB", which is rounded and fits no file."""
    if isinstance(value, Mapping):
        value = value.get("value")
    if isinstance(value, str):
        match = _BYTES.fullmatch(value.strip())
        return whole(match[1]) if match else None
    return whole(value)


def _checksums(item: Node) -> Iterator[tuple[Any, Any]]:
    for name in _DIGEST_LENGTHS:
        yield name, item.get(name)
    for key in ("identifier", "additionalProperty", "checksum", "spdx:checksum"):
        value = item.get(key)
        for node in objects(value):
            algorithm = next(
                (node[k] for k in ("propertyID", "algorithm", "spdx:algorithm", "name") if k in node), None
            )
            digest = next((node[k] for k in ("value", "checksumValue", "spdx:checksumValue") if k in node), None)
            yield next(texts(algorithm), None), digest
        for text in texts(value):
            labelled = _LABELLED_DIGEST.fullmatch(text)
            if labelled:
                yield labelled[1], labelled[2]


# Signposting


def linked_files(links: Iterable[PageLink], url: str) -> tuple[FileEntry, ...]:
    """The targets of a page's `item` links."""
    items = dict.fromkeys(link for link in links if "item" in link.rels)
    return tuple(entry(link.title, url=link.url, base=url, mimetype=link.mimetype) for link in items)


def linksets(page: DatasetPage) -> tuple[str, ...]:
    """Where the page's links stand, if they are in a file of their own."""
    return _targets(page, "linkset", (LINKSET,))


def descriptions(page: DatasetPage) -> tuple[str, ...]:
    """Where the page is described in JSON-LD, if that is a file of its own."""
    return _targets(page, "describedby", (JSON_LD,))


def _targets(page: DatasetPage, rel: str, mimetypes: tuple[str, ...]) -> tuple[str, ...]:
    found = dict.fromkeys(link.url for link in page.links if rel in link.rels and link.mimetype in mimetypes)
    return tuple(islice(found, MAX_REFERRED))


def read_linkset(value: Any, *, base: str, page_url: str) -> tuple[FileEntry, ...]:
    """The `item` links of a link set: those of the page, or of the only thing that has any. Raises PlatformError."""
    if not isinstance(value, Mapping) or "linkset" not in value:
        raise PlatformError(f"no link set at {base}")
    contexts = [context for context in objects(value["linkset"]) if context.get("item")]
    own = [context for context in contexts if _is_page(str(context.get("anchor") or page_url), page_url)]
    chosen = own or (contexts if len(contexts) == 1 else [])
    items = (item for context in chosen for item in objects(context["item"]))
    return tuple(
        entry(next(texts(item.get("title")), None), url=item.get("href"), base=base, mimetype=item.get("type"))
        for item in islice(items, MAX_LISTED + 1)
    )


# What every list has in common


def entry(
    path: Any,
    *,
    url: Any,
    base: str,
    size: Any = None,
    checksums: Iterable[tuple[Any, Any]] = (),
    mimetype: Any = None,
    restricted: bool = False,
) -> FileEntry:
    """A file by what a list says of it, whatever types its values have.

    Without a path it is called by its URL. `checksums` are (algorithm, hex digest); those of algorithms that are not
    known, or of the wrong length, are left out.
    """
    href, status = _address(url, base)
    name = clean_path(path if isinstance(path, str) else "") or clean_path(_name_of(href)) or "file"
    return FileEntry(
        path=name,
        url=href,
        size=whole(size),
        checksums=dict(filter(None, (_digest(algorithm, digest) for algorithm, digest in checksums))),
        mimetype=_mimetype(mimetype),
        status=PlatformRestricted.status if restricted else status,
    )


def _address(url: Any, base: str) -> tuple[str | None, str]:
    if not isinstance(url, str) or not url.strip():
        return None, PlatformError.status
    try:
        return parse(url.strip(), base), NOT_TRIED
    except (InvalidUrl, BadScheme) as error:
        return None, error.status


def absolute(reference: Any, base: str) -> str | None:
    """The http(s) URL of a reference, or None."""
    return resolve(reference.strip(), base) if isinstance(reference, str) else None


def clean_path(path: str) -> str:
    """A path that leads nowhere but down: without `.`, `..`, empty parts, control characters or lone surrogates."""
    text = _CONTROL.sub("", path[: 4 * MAX_PATH]).encode("utf-8", "replace").decode("utf-8")
    return "/".join(_parts_down(_SLASHES.sub("/", text)[:MAX_PATH]))


def _parts_down(path: str) -> list[str]:
    parts = (part.strip() for part in path.split("/"))
    return [part for part in parts if part not in ("", ".", "..")]


def _name_of(url: str | None) -> str:
    if url is None:
        return ""
    parts = [part for part in split(url).target.partition("?")[0].split("/") if part]
    # …/files/data.csv/content, …/data.csv/download: the name stands before the verb.
    if len(parts) > 1 and parts[-1].lower() in ("content", "download"):
        parts.pop()
    return unquote(parts[-1]) if parts else ""


def whole(value: Any) -> int | None:
    """A size in bytes from a number or its digits; None for what is none."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) <= 20:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SIZE else None


def _digest(algorithm: Any, digest: Any) -> tuple[str, str] | None:
    if not isinstance(algorithm, str) or not isinstance(digest, str):
        return None
    name = digest_name(algorithm)
    text = digest.strip().lower()
    return (name, text) if len(text) == _DIGEST_LENGTHS.get(name) and _HEX.fullmatch(text) else None


def _mimetype(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    text = value.partition(";")[0].strip().lower()
    return text if _MIMETYPE.fullmatch(text) else None


def read_json(data: bytes, where: str) -> Any:
    """The JSON of an answer. Raises PlatformError for anything else, and for JSON that is nested without end."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise PlatformError(f"no JSON at {where}") from error
