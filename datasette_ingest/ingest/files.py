"""What a body is: its MIME type by content, whether a PDF is complete, its digests in one pass."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from .facts import FileMeta
from .xml_encoding import by_first_bytes, is_ebcdic

HEAD_BYTES = 8 * 1024
"""How many bytes of the beginning `sniff` reads."""
TAIL_BYTES = 2 * 1024
"""How many bytes of the end `has_pdf_end` and `sniff` read."""
PDF_MARK_WITHIN = 1024
"""The PDF header may begin this far into a file (ISO 32000-1, Annex H.3, note 13)."""

PDF = "application/pdf"
HTML = "text/html"
XHTML = "application/xhtml+xml"
HTML_TYPES = frozenset({HTML, XHTML})
XML = "application/xml"
JATS = "application/jats+xml"
TEI = "application/tei+xml"
TEXT = "text/plain"
JSON = "application/json"
UNKNOWN = "application/octet-stream"

EXTENSIONS: dict[str, str] = {
    PDF: ".pdf",
    HTML: ".html",
    XHTML: ".xhtml",
    XML: ".xml",
    JATS: ".jats.xml",
    TEI: ".tei.xml",
    TEXT: ".txt",
    JSON: ".json",
    UNKNOWN: "",
    "application/gzip": ".gz",
    "application/x-bzip2": ".bz2",
    "application/x-xz": ".xz",
    "application/x-7z-compressed": ".7z",
    "application/vnd.rar": ".rar",
    "application/zstd": ".zst",
    "application/zip": ".zip",
    "application/x-tar": ".tar",
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/tiff": ".tif",
    "image/webp": ".webp",
    "image/vnd.djvu": ".djvu",
    "image/svg+xml": ".svg",
    "application/postscript": ".ps",
    "application/rtf": ".rtf",
    "audio/mpeg": ".mp3",
    "audio/wav": ".wav",
    "video/mp4": ".mp4",
    "video/webm": ".webm",
    "application/ogg": ".ogg",
    "application/vnd.sqlite3": ".sqlite",
    "application/epub+zip": ".epub",
    "application/vnd.oasis.opendocument.text": ".odt",
    "application/vnd.oasis.opendocument.spreadsheet": ".ods",
    "application/vnd.oasis.opendocument.presentation": ".odp",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/msword": ".doc",
    "application/vnd.ms-excel": ".xls",
    "application/vnd.ms-powerpoint": ".ppt",
    "application/x-ole-storage": ".ole",
    "application/rss+xml": ".rss",
    "application/rdf+xml": ".rdf",
    "application/atom+xml": ".atom",
    "application/x-sitemap+xml": ".xml",
    "application/xslt+xml": ".xsl",
    "application/x-xsd+xml": ".xsd",
    "text/x-tex": ".tex",
}
"""How the name of a file of each type that `sniff` knows ends."""

_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x1f\x8b", "application/gzip"),
    (0, b"BZh", "application/x-bzip2"),
    (0, b"\xfd7zXZ\x00", "application/x-xz"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (0, b"Rar!\x1a\x07", "application/vnd.rar"),
    (0, b"\x28\xb5\x2f\xfd", "application/zstd"),
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (8, b"WEBP", "image/webp"),
    (0, b"AT&TFORM", "image/vnd.djvu"),
    (0, b"%!PS", "application/postscript"),
    (0, b"{\\rtf", "application/rtf"),
    (0, b"ID3", "audio/mpeg"),
    (8, b"WAVE", "audio/wav"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
    (0, b"OggS", "application/ogg"),
    (257, b"ustar", "application/x-tar"),
    (0, b"SQLite format 3\x00", "application/vnd.sqlite3"),
)

_ZIP_MEMBERS: tuple[tuple[bytes, str], ...] = (
    (b"mimetypeapplication/epub+zip", "application/epub+zip"),
    (b"mimetypeapplication/vnd.oasis.opendocument.text", "application/vnd.oasis.opendocument.text"),
    (b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet", "application/vnd.oasis.opendocument.spreadsheet"),
    (b"mimetypeapplication/vnd.oasis.opendocument.presentation", "application/vnd.oasis.opendocument.presentation"),
    (b"word/", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    (b"xl/", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    (b"ppt/", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
)

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLE_STREAMS: tuple[tuple[bytes, str], ...] = (
    ("WordDocument".encode("utf-16-le"), "application/msword"),
    ("Workbook".encode("utf-16-le"), "application/vnd.ms-excel"),
    ("PowerPoint Document".encode("utf-16-le"), "application/vnd.ms-powerpoint"),
)

_XML_ROOTS: dict[str, str] = {
    "rss": "application/rss+xml",
    "rdf": "application/rdf+xml",
    "feed": "application/atom+xml",
    "svg": "image/svg+xml",
    "urlset": "application/x-sitemap+xml",
    "sitemapindex": "application/x-sitemap+xml",
    "stylesheet": "application/xslt+xml",
    "schema": "application/x-xsd+xml",
    "tei": TEI,
    "teicorpus": TEI,
    "tei.2": TEI,
    "pmc-articleset": JATS,
}
"""Local name of the root element, lower-case -> MIME type."""

_HTML_TAGS = frozenset(
    re.findall(
        r"\w+",
        """a abbr address area aside audio b base big blockquote body br button canvas caption center cite code col dd del
    details dialog dir div dl dt em embed fieldset figure font footer form frame frameset h1 h2 h3 h4 h5 h6 head header
    hr html i iframe img input ins label legend li link main map mark menu meta nav noframes noscript object ol option
    p param picture pre q s samp script section select small source span strong style sub summary sup table tbody td
    template textarea tfoot th thead time title tr track tt u ul var video""",
    )
)

_PDF_MARK = re.compile(rb"%PDF-\d")
_PDF_BODY = re.compile(rb"\d\s+\d+\s+obj\b|startxref|%%EOF")
_HTML_DOCUMENT = re.compile(rb"<(?:!doctype\s+html|html|head|body|title)[\s>]", re.IGNORECASE)
_PROLOGUE = re.compile(r"\s+|<\?.*?\?>|<!--.*?-->", re.DOTALL)
_DOCTYPE = re.compile(
    r"<!doctype\s+([^\s>\[]+)((?:[^\[>\"']|\"[^\"]*\"|'[^']*')*)(\[.*?\]\s*)?>", re.IGNORECASE | re.DOTALL
)
_ROOT = re.compile(r"<([A-Za-z_][\w.\-]*:)?([A-Za-z_][\w.\-]*)((?:[^<>\"']|\"[^\"]*\"|'[^']*')*)/?>?", re.DOTALL)
_JATS_SIGN = re.compile(
    r"article-type\s*=|dtd-version\s*=|<front[\s>]|<journal-meta[\s>]|<article-meta[\s>]|//(?:NLM|JATS)?//?DTD (?:JATS|Journal)",
    re.IGNORECASE,
)
_JSON = re.compile(r"[\[{]\s*(?:[\"\[{\]}]|-?\d)")
_TEXT_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")


def sniff(head: bytes, tail: bytes = b"") -> str:
    """The MIME type of a body by its first HEAD_BYTES and last TAIL_BYTES, whatever its label.

    HTML is recognised as in WHATWG MIME sniffing (https://mimesniff.spec.whatwg.org/), XML by its root element. An
    unknown body is `application/octet-stream`.
    """
    head = head[:HEAD_BYTES]
    if not head:
        return UNKNOWN
    if _is_pdf(head, tail):
        return PDF
    for offset, magic, mimetype in _MAGIC:
        if head.startswith(magic, offset):
            return mimetype
    if head.startswith(b"PK\x03\x04"):
        return next((kind for member, kind in _ZIP_MEMBERS if member in head or member in tail), "application/zip")
    if head.startswith(_OLE):
        return next((kind for stream, kind in _OLE_STREAMS if stream in head), "application/x-ole-storage")
    return _sniff_text(head)


def has_pdf_end(tail: bytes) -> bool:
    """Whether the last bytes of a PDF contain its end mark."""
    return b"%%EOF" in tail[-TAIL_BYTES:]


def _is_pdf(head: bytes, tail: bytes) -> bool:
    mark = _PDF_MARK.search(head, 0, PDF_MARK_WITHIN + 6)
    if mark is None or mark.start() > PDF_MARK_WITHIN:
        return False
    before = head[: mark.start()].strip(b"\xef\xbb\xbf\x00 \t\r\n\f")
    if not before:
        return True
    if _HTML_DOCUMENT.search(before):
        return False
    # A page or a text may mention "%PDF-1.4"; a PDF has objects after it.
    return bool(_PDF_BODY.search(head, mark.end()) or _PDF_BODY.search(tail))


def _sniff_text(head: bytes) -> str:
    if is_ebcdic(head) and by_first_bytes(head) is None:
        return XML
    text = _decode(head).lstrip("\ufeff \t\r\n\f\x00")
    if text.startswith("<"):
        return _sniff_markup(text)
    if _HTML_DOCUMENT.search(head[:1024]):
        return HTML
    if _JSON.match(text):
        return JSON
    if text.startswith(("\\documentclass", "\\documentstyle")):
        return "text/x-tex"
    return UNKNOWN if _TEXT_CONTROL.search(head) else TEXT


def _sniff_markup(text: str) -> str:
    declared = text.startswith("<?xml")
    doctype, position = _prologue(text)
    root = _ROOT.match(text, position)
    if root is None:
        return _sniff_rootless(text, declared=declared, doctype=doctype)
    prefix, local = root[1], root[2].lower()
    if local == "html" or doctype == "html":
        return XHTML if declared and "http://www.w3.org/1999/xhtml" in text[:2048] else HTML
    if local == "article" and _JATS_SIGN.search(text[: HEAD_BYTES // 2]):
        return JATS
    if local in _XML_ROOTS:
        return _XML_ROOTS[local]
    if declared or doctype:
        return XML
    is_html = local == "article" or (prefix is None and (local in _HTML_TAGS or "-" in local))
    return HTML if is_html else XML


def _prologue(text: str) -> tuple[str, int]:
    """The root's name in the document type declaration, lower-case, or ""; and where the root element begins."""
    doctype, position = "", 0
    while True:
        found = _PROLOGUE.match(text, position)
        if found is None and not doctype and (found := _DOCTYPE.match(text, position)):
            doctype = found[1].lower()
        if found is None:
            return doctype, position
        position = found.end()


def _sniff_rootless(text: str, *, declared: bool, doctype: str) -> str:
    if doctype == "html" or re.match(r"<!doctype\s+html", text, re.IGNORECASE):
        return HTML
    if declared or doctype or re.match(r"<!DOCTYPE\s", text):
        return XML
    # A comment that does not end within the head, or "<" without a name: browsers render it.
    return HTML if text.startswith(("<!--", "</")) else TEXT


def _decode(head: bytes) -> str:
    """The head as text, which may end within a character."""
    encoding = by_first_bytes(head)
    return head.decode("latin-1" if encoding is None else encoding.codec, "replace")


@dataclass(frozen=True)
class Digests:
    """Hex digests of one body and its size in bytes."""

    sha1hex: str
    sha256hex: str
    md5hex: str
    size_bytes: int

    def meta(self, mimetype: str) -> FileMeta:
        return FileMeta(self.sha1hex, self.sha256hex, self.md5hex, self.size_bytes, mimetype)


class Digester:
    """Three digests in one pass over a body's pieces."""

    def __init__(self) -> None:
        self._hashes = (hashlib.sha1(), hashlib.sha256(), hashlib.md5())
        self._size = 0

    def update(self, piece: bytes | memoryview) -> None:
        self._size += len(piece)
        for algorithm in self._hashes:
            algorithm.update(piece)

    def result(self) -> Digests:
        sha1, sha256, md5 = (algorithm.hexdigest() for algorithm in self._hashes)
        return Digests(sha1, sha256, md5, self._size)


def digest(pieces: Iterable[bytes]) -> Digests:
    """The digests of a body in memory or on disk."""
    digester = Digester()
    for piece in pieces:
        digester.update(piece)
    return digester.result()
