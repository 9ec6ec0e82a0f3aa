"""Reads PDFs by PDFium: metadata, text, and a picture of the first page. Only in a process of a pool: it is native code."""

from __future__ import annotations

import ctypes
import io
import mmap
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium
from PIL import Image

from ..identifiers import DOI_PREFIX, find_doi
from .pdf_read import PdfRead, Picture

HEADER_BYTES = 1024
"""The header is within so many bytes (PDF 1.7, Annex H, implementation note 13)."""
MOST_PAGES = 3000
"""Text of later pages is not read."""
MOST_CHARS = 10_000_000
"""Text beyond is cut off: twenty times that of a long thesis."""
TEXT_SECONDS = 20.0
"""After so long no further page is begun."""
PICTURE_SIDE = 400
"""The longer side of the picture, in pixels."""
MOST_VALUE_CHARS = 2000
"""A longer value of the metadata is cut off."""

_KEYS = {"title": "Title", "author": "Author", "subject": "Subject", "keywords": "Keywords", "creator": "Creator",
         "producer": "Producer"}  # fmt: skip
"""Keys in our metadata and in the document information dictionary (PDF 1.7, 14.3.3)."""
_DOI_KEYS = ("doi", "DOI", "WPS-ARTICLEDOI")
_DOI_TEXTS = ("subject", "title", "keywords")
"""Where publishers write it among other words, as `doi:10.…`."""
_DOI_IN_TEXT = re.compile(rf"\bdoi[:\s./a-z]*({DOI_PREFIX}/[^\s\"<>]+)", re.IGNORECASE)
_DOI_IN_XMP = re.compile(
    rb"<(?:prism|pdfx|crossmark|dc):(?:doi|DOI|identifier|WPS-ARTICLEDOI)\b[^>]{0,200}>([^<]{1,300})<"
    rb"|\bprism:doi=[\"']([^\"']{1,300})[\"']"
)
_XMP_BEGINS, _XMP_ENDS = b"<rdf:RDF", b"</rdf:RDF>"
"""An XMP packet stands uncompressed in the file, so that programs find it (XMP, part 3, 2.3)."""
MOST_PACKETS, MOST_PACKET_BYTES = 20, 1024 * 1024
"""Pictures in a file have packets, too."""
_DATE = re.compile(
    r"(?:D:)?(\d{4})(?:-?(\d\d)(?:-?(\d\d)(?:T?(\d\d)(?::?(\d\d)(?::?(\d\d)(?:\.\d+)?)?)?)?)?)?"
    r"(?:(Z)[0-9']*|([+-])(\d\d)[':]?(\d\d)?'?)?"
)
_FORMS = {pdfium.FORMTYPE_ACRO_FORM: "acroform", pdfium.FORMTYPE_XFA_FULL: "xfa",
          pdfium.FORMTYPE_XFA_FOREGROUND: "xfa"}  # fmt: skip
_MAY_BE_REPAIRED = frozenset({"bad-pdf", "empty-page0"})
_NEEDS_PASSWORD = frozenset({pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY})
_HYPHEN = re.compile("[\x02\ufffe\xad](?:\r?\n)?")
"""How PDFium marks a hyphen at the end of a line; and the soft hyphen."""
_NO_TEXT = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f\ufffe\uffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def read(source: bytes | str, *, with_text: bool, with_picture: bool) -> PdfRead:
    data = source if isinstance(source, bytes) else _mapped(source)
    found = _read(data, with_text=with_text, with_picture=with_picture)
    if found.status not in _MAY_BE_REPAIRED or found.metadata.get("encrypted"):
        return found
    # PDFium looks for the objects themselves only where it finds no table of them, not where the table is wrong.
    repaired = _read(data[:].replace(b"startxref", b"startxxxx"), with_text=with_text, with_picture=with_picture)
    if repaired.status in _MAY_BE_REPAIRED:
        return found
    return replace(repaired, metadata={**repaired.metadata, "repaired": True})


def _read(data: bytes | mmap.mmap, *, with_text: bool, with_picture: bool) -> PdfRead:
    if b"%PDF-" not in data[:HEADER_BYTES]:
        return PdfRead("not-pdf")
    memory = data if isinstance(data, bytes) else (ctypes.c_char * len(data)).from_buffer(data)
    document = pdfium.FPDF_LoadMemDocument64(memory, len(data), None)
    if not document:
        return PdfRead("bad-pdf", metadata={"encrypted": True} if pdfium.FPDF_GetLastError() in _NEEDS_PASSWORD else {})
    with closing(pypdfium2.PdfDocument(document)) as pdf:
        if len(pdf) == 0:
            return PdfRead("empty-pdf", page_count=0)
        return _Reading(pdf, data).read(with_text=with_text, with_picture=with_picture)


def _mapped(path: str) -> mmap.mmap:
    """The bytes of a file, without copying them."""
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)  # a read-only one cannot be given to C


class _Reading:
    """One open document. `faults` are the statuses of what went wrong; the first in FAULTS is that of the whole."""

    FAULTS = ("empty-page0", "parse-error", "error-timeout", "text-too-large", "bad-unicode")

    def __init__(self, pdf: pypdfium2.PdfDocument, data: bytes | mmap.mmap) -> None:
        self._pdf = pdf
        self._data = data
        self._faults: set[str] = set()

    def read(self, *, with_text: bool, with_picture: bool) -> PdfRead:
        metadata, created = self._metadata()
        height, width = self._size()
        picture = self._picture() if with_picture and height else None
        text = self._text(metadata) if with_text else None
        version = self._pdf.get_version()
        return PdfRead(
            next((fault for fault in self.FAULTS if fault in self._faults), "success"),
            page_count=len(self._pdf),
            text=text,
            # page by page: a list of all words takes thirty times the bytes of the text
            word_count=None if text is None else sum(len(page.split()) for page in text.split("\f")),
            page0_height=height,
            page0_width=width,
            permanent_id=self._permanent_id(),
            created=created,
            version=f"{version // 10}.{version % 10}" if version else None,
            metadata=metadata,
            picture=picture,
        )

    def _metadata(self) -> tuple[dict[str, Any], str | None]:
        """What the file says of itself, and when it was made."""
        found = {name: self._value(key) for name, key in _KEYS.items()}
        dates = {name: self._value(key) for name, key in (("created", "CreationDate"), ("modified", "ModDate"))}
        created = iso_date(dates["created"])
        found["created"] = "" if created else dates["created"]
        found["modified"] = iso_date(dates["modified"]) or dates["modified"]
        found["doi"] = self._doi(found) or ""
        metadata: dict[str, Any] = {name: value for name, value in found.items() if value}
        if pdfium.FPDF_GetSecurityHandlerRevision(self._pdf) != -1:
            metadata["encrypted"] = True
        form = _FORMS.get(self._pdf.get_formtype())
        return metadata | ({"form": form} if form else {}), created

    def _value(self, key: str) -> str:
        name = key.encode() + b"\0"
        text = self._decoded(lambda buffer, size: pdfium.FPDF_GetMetaText(self._pdf, name, buffer, size), 1)
        return " ".join(text.split())[:MOST_VALUE_CHARS]

    def _doi(self, found: dict[str, str]) -> str | None:
        candidates = [self._value(key) for key in _DOI_KEYS]
        for packet in self._packets():
            in_packet = (match[1] or match[2] for match in _DOI_IN_XMP.finditer(packet))
            candidates += (value.decode("utf-8", "replace") for value in in_packet)
        for name in _DOI_TEXTS:
            candidates += _DOI_IN_TEXT.findall(found[name])
        return next((doi for text in candidates if (doi := find_doi(text))), None)

    def _packets(self) -> Iterator[bytes]:
        end = 0
        for _ in range(MOST_PACKETS):
            begin = self._data.find(_XMP_BEGINS, end)
            end = self._data.find(_XMP_ENDS, begin, begin + MOST_PACKET_BYTES)
            if begin < 0 or end < 0:
                return
            yield self._data[begin:end]

    def _permanent_id(self) -> str | None:
        size = pdfium.FPDF_GetFileIdentifier(self._pdf, pdfium.FILEIDTYPE_PERMANENT, None, 0)
        buffer = ctypes.create_string_buffer(size)
        pdfium.FPDF_GetFileIdentifier(self._pdf, pdfium.FILEIDTYPE_PERMANENT, buffer, size)
        return buffer.raw[:-1].hex() or None  # it ends with a zero byte

    def _size(self) -> tuple[float | None, float | None]:
        """Height and width of the first page, whose content is not looked at."""
        try:
            width, height = self._pdf.get_page_size(0)
        except pypdfium2.PdfiumError:
            width = height = 0.0
        if not (0 < width < float("inf") and 0 < height < float("inf")):
            self._faults.add("empty-page0")
            return None, None
        return round(height, 2), round(width, 2)

    def _picture(self) -> Picture | None:
        try:
            with closing(self._pdf[0]) as page:
                image = page.render(scale=PICTURE_SIDE / max(page.get_size()), rev_byteorder=True).to_pil()
        except pypdfium2.PdfiumError:
            self._faults.add("empty-page0")
            return None
        image.thumbnail((PICTURE_SIDE, PICTURE_SIDE), Image.Resampling.BILINEAR)  # a pixel more where it was rounded up
        content = io.BytesIO()
        try:
            image.save(content, "WEBP", quality=70)
        except OSError:  # how Pillow says that its encoder failed
            self._faults.add("parse-error")
            return None
        return Picture(image.width, image.height, content.getvalue())

    def _text(self, metadata: dict[str, Any]) -> str:
        """The pages' text, with a form feed between them. Where it is not all, `text_cut` and `text_pages` say how many
        characters and pages there are of it."""
        ends, pages, size = time.monotonic() + TEXT_SECONDS, [], 0
        for number in range(len(self._pdf)):
            if time.monotonic() > ends:
                self._faults.add("error-timeout")
                break
            if number == MOST_PAGES or size > MOST_CHARS:
                self._faults.add("text-too-large")
                break
            pages.append(clean_text(self._page_text(number)))
            size += len(pages[-1]) + 1
        text = "\f".join(pages) if any(map(str.strip, pages)) else ""
        if len(text) > MOST_CHARS:
            self._faults.add("text-too-large")
        if self._faults & {"error-timeout", "text-too-large"}:
            text = text[:MOST_CHARS]
            metadata |= {"text_cut": len(text), "text_pages": len(pages)}
        return text

    def _page_text(self, number: int) -> str:
        try:
            with closing(self._pdf[number]) as page, closing(page.get_textpage()) as text:
                left, bottom, right, top = page.get_bbox()
                return self._decoded(
                    lambda buffer, size: pdfium.FPDFText_GetBoundedText(
                        text, left, top, right, bottom, buffer and ctypes.cast(buffer, _SHORTS), size // 2
                    ),
                    2,
                )
        except pypdfium2.PdfiumError:
            self._faults.add("parse-error" if number else "empty-page0")
            return ""

    def _decoded(self, get: Callable[[Any, int], int], unit: int) -> str:
        """A text of PDFium's, in UTF-16: `get` is asked for its size, in units of so many bytes, then for the text."""
        size = get(None, 0) * unit
        if size <= 0:
            return ""
        buffer = ctypes.create_string_buffer(size)
        get(buffer, size)
        text = buffer.raw.decode("utf-16-le", "surrogatepass").rstrip("\0")
        if _SURROGATE.search(text):
            self._faults.add("bad-unicode")
            text = _SURROGATE.sub("\ufffd", text)
        return text


_SHORTS = ctypes.POINTER(ctypes.c_ushort)


def clean_text(text: str) -> str:
    """Words that were divided at the end of a line in one piece; without control characters.

    PDFium marks a hyphen at the end of a line. It is left out before a small letter: `detec-` `tion` is more frequent than
    a compound that was divided at its hyphen.
    """

    def join(match: re.Match[str]) -> str:
        before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
        if before.isalpha() and after.islower():
            return ""
        return "-" if before.isalnum() and after.isalnum() else match[0][1:]

    return _NO_TEXT.sub("", _HYPHEN.sub(join, text)).replace("\r\n", "\n").replace("\r", "\n")


def iso_date(text: str) -> str | None:
    """A date of the document information dictionary (PDF 1.7, 7.9.4) or of ISO 8601 as ISO 8601, as exact as it is: in UTC
    if it names its time zone. None where it is neither."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second, utc, sign, zone_hour, zone_minute = match.groups()
    zone = "+00:00" if utc else f"{sign}{zone_hour}:{zone_minute or '00'}" if sign else ""
    try:
        whole = datetime.fromisoformat(
            f"{year}-{month or '01'}-{day or '01'}T{hour or '00'}:{minute or '00'}:{second or '00'}{zone}"
        )
        if hour is None:
            return "-".join(part for part in (year, month, day) if part)
        if not zone:
            return whole.isoformat()
        return whole.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")
    except (ValueError, OverflowError):
        return None
