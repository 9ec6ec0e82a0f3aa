"""Read an XML document: what it is, the work that it holds, its text, and the same document in UTF-8.

Runs in a process of the pool. Opens no file and asks no server, whatever the document names.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lxml import etree

from ..page.biblio import Biblio
from ..page.text import count_words
from ..urls import mask_texts
from ..xml_encoding import XmlEncoding, encodings
from . import xml_biblio
from .xml_parsing import Unreadable, parsed
from .xml_text import MAX_TEXT, line, local, paragraphs

HEAD_BYTES = 1024
MAX_CALLS = 4_000
"""Calls one inside the other that reading a text may take."""

_JATS_NAMESPACE = re.compile(r"https?://(?:[a-z]+\.)*nlm\.nih\.gov(?:/|$)")
_JATS_DOCTYPE = re.compile(
    r"-//(?:NLM|NISO|ES|SCIELO)\b.*\bDTD\b.*\b(?:JATS|Journal|Archiving|Article|SPS)", re.IGNORECASE
)
_TEI_NAMESPACE = "http://www.tei-c.org/ns/1.0"
_TEI_ROOTS = frozenset({"tei", "teicorpus", "tei.2"})
_JATS_PARTS = frozenset({"front", "front-stub", "body", "back", "article-meta", "journal-meta"})

# What stands in text that is called Latin-1 and is windows-1252.
_CONTROLS = {byte: bytes([byte]).decode("cp1252", "ignore") or None for byte in range(0x80, 0xA0)}


@dataclass(frozen=True)
class XmlRead:
    """What was read of one document."""

    status: str = "success"
    """`success`; `parse-error`, `bad-namespaces`, `bad-entities`, `text-too-large`."""
    dialect: str | None = None
    encoding: str | None = None
    biblio: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    word_count: int | None = None
    utf8: bytes | None = None
    """The document in UTF-8, without document type, its entities as their text: the same tree otherwise. None where it
    would not be the same."""


def read_xml(data: bytes, content_type: str = "") -> XmlRead:
    """Read a document. Never raises for what it contains; memory and time are the caller's to limit."""
    # The parser takes 256 elements one inside the other; a text is read by a function that calls itself.
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, MAX_CALLS))
    try:
        return _in_its_encoding(data, content_type)
    finally:
        sys.setrecursionlimit(before)


def _in_its_encoding(data: bytes, content_type: str) -> XmlRead:
    for encoding in encodings(data[:HEAD_BYTES], content_type):
        try:
            utf8 = b"".join(encoding.utf8([data]))
            break
        except UnicodeDecodeError:
            continue
    else:
        return XmlRead(status="parse-error")
    try:
        tree, status = parsed(utf8)
    except Unreadable:
        return XmlRead(status="parse-error", encoding=encoding.name)
    return _read(tree, encoding, status)


def dialect_of(tree: Any) -> str:
    """`jats`, `tei`, `scielo` or `other`: by the root element, its namespace and, if that leaves it open, its parts.

    SciELO's is JATS that says which version of the SciELO Publishing Schema it follows.
    """
    root = tree.getroot()
    namespace, name = etree.QName(root).namespace, local(root)
    if name in _TEI_ROOTS and namespace in (None, _TEI_NAMESPACE):
        return "tei"
    if namespace is not None and not _JATS_NAMESPACE.match(namespace):
        return "other"
    if name == "pmc-articleset":
        return "jats"
    if name == "article" and (namespace is not None or _is_jats(tree)):
        return "scielo" if (root.get("specific-use") or "").startswith("sps-") else "jats"
    return "other"


def _is_jats(tree: Any) -> bool:
    root, public = tree.getroot(), tree.docinfo.public_id or ""
    if public:
        return bool(_JATS_DOCTYPE.search(public))
    return any(name in root.attrib for name in ("article-type", "dtd-version")) or not _JATS_PARTS.isdisjoint(
        map(local, root)
    )


def _read(tree: Any, encoding: XmlEncoding, status: str) -> XmlRead:
    dialect = dialect_of(tree)
    root = tree.getroot()
    text, biblio, references = _READERS.get(dialect, _other)(root)
    facts = biblio.to_json() | ({"references": references} if references else {})
    if encoding.name == "iso-8859-1":
        text = text.translate(_CONTROLS)
        facts = {name: _translated(value) for name, value in facts.items()}
    if len(text) > MAX_TEXT:
        text, status = text[:MAX_TEXT], "text-too-large"
    tree.docinfo.clear()
    return XmlRead(
        status=status,
        dialect=dialect,
        encoding=encoding.name,
        biblio=mask_texts(facts),
        text=text,
        word_count=count_words(text),
        utf8=etree.tostring(tree, encoding="UTF-8", xml_declaration=True) if status in _SAME_TREE else None,
    )


_SAME_TREE = frozenset({"success", "text-too-large"})


def _translated(value: Any) -> Any:
    return value.translate(_CONTROLS) if isinstance(value, str) else value


# What each dialect calls its parts


def _jats(root: Any) -> tuple[str, Biblio, int]:
    articles = [root] if local(root) == "article" else list(root.iter("{*}article"))
    text = "\n\n".join(part for article in articles for part in _jats_text(article))
    if len(articles) != 1:
        return text, Biblio(), 0
    return text, xml_biblio.jats(articles[0]), xml_biblio.jats_references(articles[0])


def _jats_text(article: Any) -> Iterator[str]:
    for name in ("front", "front-stub"):
        for front in article.iterfind(f"{{*}}{name}"):
            meta = front.find("{*}article-meta")
            yield from _jats_front(front if meta is None else meta)
    yield from paragraphs(
        part for name in ("body", "back", "floats-group") for part in article.iterfind(f"{{*}}{name}")
    )
    for name in ("sub-article", "response"):
        for inner in article.iterfind(f"{{*}}{name}"):
            yield from _jats_text(inner)


def _jats_front(meta: Any) -> Iterator[str]:
    yield from paragraphs(meta.iterfind("{*}title-group"))
    names = ", ".join(author.name for author in xml_biblio.jats_authors(meta))
    if names:
        yield names
    yield from paragraphs(
        part for name in ("abstract", "trans-abstract", "kwd-group") for part in meta.iterfind(f"{{*}}{name}")
    )


def _tei(root: Any) -> tuple[str, Biblio, int]:
    documents = [root] if local(root) != "teicorpus" else [d for d in root if local(d) in _TEI_ROOTS]
    text = "\n\n".join(part for document in documents for part in _tei_text(document))
    if len(documents) != 1:
        return text, Biblio(), 0
    return text, xml_biblio.tei(documents[0]), xml_biblio.tei_references(documents[0])


def _tei_text(document: Any) -> Iterator[str]:
    titles = [line(title) for title in document.iterfind("{*}teiHeader/{*}fileDesc/{*}titleStmt/{*}title")]
    yield from filter(None, dict.fromkeys(titles))
    yield from paragraphs(document.iterfind("{*}teiHeader/{*}profileDesc/{*}abstract"))
    yield from paragraphs(document.iterfind("{*}text"))


def _other(root: Any) -> tuple[str, Biblio, int]:
    return "\n\n".join(paragraphs([root], known=False)), xml_biblio.other(root), 0


_READERS = {"jats": _jats, "scielo": _jats, "tei": _tei}
