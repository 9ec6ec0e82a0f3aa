"""Read the list of files that a dataset's page gives itself: schema.org's Dataset (https://schema.org/Dataset), and the
typed links of signposting (https://signposting.org/FAIR/, RFC 9264 for link sets).

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
from ..page.biblio import has_citation
from ..page.elements import read_metas
from ..page.json_ld import Node, by_id, dereferenced, first_text, nodes_of, objects, short, texts, types_of
from ..page.read import parse_page
from ..page.text import PageText, read_text
from ..page.typed_links import TypedLink, typed_links
from ..urls import parse, refers_to_itself, resolve, split

MAX_PATH = 1024
"""Longest path of a file in characters; the rest is cut off."""
MAX_SIZE = 2**49
"""Largest size that is believed: half a petabyte, of which ten thousand still fit into an SQLite integer."""
MAX_LISTED = 10_000
"""Files of one list."""
MAX_HREFS = 5000
"""Links of one page that are read to recognise its platform."""
MAX_REFERRED = 5
"""Link sets and descriptions, each, that a page may refer to."""
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
class DatasetPage:
    """A landing page as far as datasets are concerned."""

    url: str
    nodes: tuple[Node, ...] = ()
    """What its JSON-LD describes."""
    links: tuple[TypedLink, ...] = ()
    """Its Link headers and link elements, with absolute URLs."""
    hrefs: tuple[str, ...] = ()
    """Where its anchors, frames and scripts lead: absolute URLs, the first MAX_HREFS."""
    described: tuple[FileEntry, ...] = ()
    """The files of the dataset that its JSON-LD describes."""
    items: tuple[FileEntry, ...] = ()
    """The targets of its `item` links."""
    text: PageText | None = None
    data: bytes = field(default=b"", repr=False)

    def linksets(self) -> tuple[str, ...]:
        """URLs of link sets: files of their own with the page's links."""
        return self._targets("linkset", LINKSET)

    def descriptions(self) -> tuple[str, ...]:
        """URLs of descriptions of the page in JSON-LD, in files of their own."""
        return self._targets("describedby", JSON_LD)

    def _targets(self, rel: str, mimetype: str) -> tuple[str, ...]:
        found = dict.fromkeys(link.href for link in self.links if rel in link.rels and link.mimetype == mimetype)
        return tuple(islice(found, MAX_REFERRED))

    def mentions(self, text: str) -> bool:
        """Whether the page's source holds this (ASCII) text."""
        return text.encode("ascii", "replace") in self.data


def read_dataset_page(data: bytes, url: str, content_type: str, link_headers: Iterable[str] = ()) -> DatasetPage:
    """Parse a landing page. Of a page without an element, or of what is no HTML, only the Link headers are read."""
    parsed = parse_page(data, url, content_type, link_headers)
    links = _absolute(parsed.links if parsed else typed_links(link_headers, None, url), parsed.base if parsed else url)
    page = DatasetPage(url, links=links, items=linked_files(links, url), data=data)
    if parsed is None:
        return page
    return replace(
        page,
        nodes=parsed.nodes,
        hrefs=tuple(islice(_hrefs(parsed.root, parsed.base), MAX_HREFS)),
        described=described_files(parsed.nodes, url),
        text=read_text(parsed.root, has_citation=has_citation(read_metas(parsed.root))),
    )


def with_document(page: DatasetPage, value: Any) -> DatasetPage:
    """A page that is, or refers to, a document of JSON-LD: with what the document describes."""
    nodes = nodes_of(value)
    return replace(page, nodes=nodes, described=described_files(nodes, page.url))


def _absolute(links: Iterable[TypedLink], base: str) -> tuple[TypedLink, ...]:
    """The links to http(s) URLs, with a MIME type that can be one."""
    return tuple(
        replace(link, href=href, mimetype=_mimetype(link.mimetype) or "")
        for link in links
        if (href := absolute(link.href, base)) is not None
    )


def _hrefs(root: Any, base: str) -> Iterator[str]:
    for element in root.iter("a", "iframe", "script", "link", "form"):
        reference = element.get("href") or element.get("src") or element.get("action")
        url = absolute(reference, base) if reference else None
        if url is not None:
            yield url


# schema.org


def described_dataset(nodes: Iterable[Node], url: str) -> Node | None:
    """The Dataset that is described: of several the one whose own URL is the page's, else the first with files."""
    found = [node for node in nodes if "Dataset" in types_of(node)]
    own = [
        node
        for node in found
        if any(refers_to_itself(name, url) for key in ("url", "@id") for name in texts(node.get(key)))
    ]
    ranked = [*own, *found]
    return next((node for node in ranked if node.get("distribution")), ranked[0] if ranked else None)


def described_files(nodes: Iterable[Node], url: str) -> tuple[FileEntry, ...]:
    """The files in a Dataset's `distribution`; nothing where no node is a Dataset."""
    nodes = tuple(nodes)
    dataset = described_dataset(nodes, url)
    if dataset is None:
        return ()
    known, closed = by_id(nodes), _says_closed(dataset)
    items = islice(_items(dataset.get("distribution")), MAX_LISTED + 1)
    return tuple(_download(dereferenced(item, known), url, closed=closed) for item in items)


def _items(value: Any) -> Iterator[Node]:
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, Mapping):
            yield item
        elif isinstance(item, str) and item.strip():
            yield {"contentUrl": item}


def _download(item: Node, base: str, *, closed: bool) -> FileEntry:
    item = {short(str(key)): value for key, value in item.items()}
    return entry(
        first_text(item, "name"),
        url=first_text(item, "contentUrl", "url"),
        base=base,
        size=_content_size(item.get("contentSize")),
        checksums=_checksums(item),
        mimetype=first_text(item, "encodingFormat", "fileFormat"),
        restricted=closed or _says_closed(item),
    )


def _says_closed(node: Node) -> bool:
    value = node.get("isAccessibleForFree")
    return value is False or any(short(text).lower() == "false" for text in texts(value))


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
            yield (
                first_text(node, "propertyID", "algorithm", "spdx:algorithm", "name"),
                first_text(node, "value", "checksumValue", "spdx:checksumValue"),
            )
        for text in texts(value):
            labelled = _LABELLED_DIGEST.fullmatch(text)
            if labelled:
                yield labelled[1], labelled[2]


# Signposting


def linked_files(links: Iterable[TypedLink], url: str) -> tuple[FileEntry, ...]:
    """The targets of a page's `item` links."""
    items = dict.fromkeys(link for link in links if "item" in link.rels)
    return tuple(entry(link.title, url=link.href, base=url, mimetype=link.mimetype) for link in items)


def read_linkset(value: Any, *, base: str, page_url: str) -> tuple[FileEntry, ...]:
    """The `item` links of a link set: those of the page, or of the only thing that has any. Raises PlatformError."""
    if not isinstance(value, Mapping) or "linkset" not in value:
        raise PlatformError(f"no link set at {base}")
    contexts = [context for context in objects(value["linkset"]) if context.get("item")]
    own = [context for context in contexts if refers_to_itself(str(context.get("anchor") or page_url), page_url)]
    chosen = own or (contexts if len(contexts) == 1 else [])
    items = (item for context in chosen for item in objects(context["item"]))
    return tuple(
        entry(first_text(item, "title"), url=item.get("href"), base=base, mimetype=item.get("type"))
        for item in islice(items, MAX_LISTED + 1)
    )


# Entries of every list


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
    """A file entry from what a list says, whatever types its values have.

    Without a path it is named by its URL. `checksums` are (algorithm, hex digest); those of algorithms that are not
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
    parts = (part.strip() for part in _SLASHES.sub("/", text)[:MAX_PATH].split("/"))
    return "/".join(part for part in parts if part not in ("", ".", ".."))


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
