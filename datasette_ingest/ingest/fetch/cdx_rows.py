"""Rows of a web archive's index: read in every form that servers write, and the choice of one capture. Pure.

https://github.com/internetarchive/wayback/tree/master/wayback-cdx-server and https://pywb.readthedocs.io/ document
the two servers whose answers are read here.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from ..facts import Cdx
from ..urls import resolve as resolve_url
from ..urls import same_page, without_fragment

_FIELDS_7 = ("urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length")
_FIELDS_11 = (*_FIELDS_7[:6], "redirect", "robotflags", "length", "offset", "filename")
_OTHER_NAMES = {"url": "original", "mime": "mimetype", "status": "statuscode"}
"""pywb's and Common Crawl's names of fields -> the Internet Archive's."""
REVISIT = "warc/revisit"
FTP_OK = 226


class UnreadableRows(ValueError):
    """The answer of an index is in no form that is known, such as an HTML page."""


@dataclass(frozen=True, slots=True)
class CdxRow:
    """One capture, as an index lists it. None where it says `-`, or nothing that can be read."""

    url: str
    """As it was captured. It may contain spaces and other characters that a URL does not have."""
    timestamp: str
    """14 digits, UTC; a time that exists."""
    status: int | None = None
    """The HTTP status; of a revisit that of the capture that it repeats, if that is known."""
    mimetype: str | None = None
    """As the server declared it, likewise; `warc/revisit` where it is not known."""
    digest: str | None = None
    """As the index has it: base32, hex, or anything else."""
    length: int | None = None
    """Bytes of the compressed WARC record."""
    offset: int | None = None
    filename: str | None = None
    revisits: CdxRow | None = None
    """The capture with a body of its own that this one repeats."""
    is_revisit: bool = False

    @property
    def captured_at(self) -> datetime:
        return moment(self.timestamp)

    @property
    def is_ok(self) -> bool:
        return self.status is not None and (200 <= self.status < 300)

    @property
    def is_redirect(self) -> bool:
        return self.status is not None and 300 <= self.status < 400

    @property
    def sha1hex(self) -> str | None:
        """The digest in hexadecimal, if it is a SHA-1."""
        return sha1hex_of(self.digest)

    def record(self, sha1hex: str | None = None) -> Cdx:
        """The row as a fact. `sha1hex`: that of the body as it was read."""
        return Cdx(
            url=self.url,
            datetime=self.timestamp,
            sha1hex=sha1hex,
            cdx_sha1hex=self.sha1hex,
            mimetype=self.mimetype,
            warc_path=self.filename,
            warc_csize=self.length,
            warc_offset=self.offset,
        )


def moment(digits: str) -> datetime:
    """The time of a timestamp of 1 to 14 digits; what is missing is the earliest.

    :raises ValueError: for a time that does not exist
    """
    padded = digits + "00000101000000"[len(digits) :]
    if not re.fullmatch("[0-9]{14}", padded):
        raise ValueError(f"not a timestamp: {digits[:20]!r}")
    return datetime.strptime(padded, "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)


def sha1hex_of(digest: str | None) -> str | None:
    """`sha1:ABC…`, base32 or hexadecimal -> 40 hexadecimal digits; None for anything else."""
    text = (digest or "").removeprefix("sha1:")
    if re.fullmatch("[0-9A-Fa-f]{40}", text):
        return text.lower()
    if len(text) != 32:
        return None
    try:
        return base64.b32decode(text, casefold=True).hex()
    except binascii.Error:
        return None


# Reading


def read_rows(text: str) -> list[CdxRow]:
    """The captures of an index's answer: JSON with a header row, JSON lines, CDXJ, or lines separated by blanks.

    Rows that cannot be read, such as those of a time that does not exist, are left out. Revisits are resolved.

    :raises UnreadableRows: when the answer is none of these
    """
    text = text.strip("\ufeff \r\n\t")
    if not text:
        return []
    if text.startswith("<"):
        raise UnreadableRows("the answer is a page, not a list of captures")
    records = _json_array(text) if text.startswith("[") else _lines(text)
    return resolve([row for record in records if (row := _row(record)) is not None])


def _json_array(text: str) -> Iterable[Mapping[str, Any]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableRows("the answer is cut off, or not JSON") from error
    names: Sequence[str] | None = None
    for values in document:
        if isinstance(values, dict):
            yield _renamed(values)
        elif not isinstance(values, list):
            raise UnreadableRows("the answer is JSON, but not a list of captures")
        elif not values:
            return  # what follows an empty row is the key of the next page
        elif names is None and "timestamp" in values:
            names = [str(name) for name in values]
        else:
            yield dict(zip(names or _names(len(values)), values, strict=False))


def _lines(text: str) -> Iterable[Mapping[str, Any]]:
    names: Sequence[str] | None = None
    is_readable = False
    for line in text.splitlines():
        if not line.strip():
            return
        words = line.split(" ")
        record: Mapping[str, Any] | None
        if line.startswith("{"):
            record = _json_line(line)
            if record is not None and "timestamp" not in record:
                # {"message": "No Captures found for: …"}
                if "no captures" in line.lower():
                    return
                raise UnreadableRows(f"the index says {line[:200]}")
        elif len(words) > 2 and words[2].startswith("{"):
            record = _json_line(line.split(" ", 2)[2])
            record = record and {"timestamp": words[1], **record}
        elif line.strip().startswith("CDX "):
            names, record = [_LETTERS.get(letter, letter) for letter in line.split()[1:]], {}
        elif "timestamp" in words and "urlkey" in words:
            names, record = words, {}
        else:
            record = _words(words, names or _form(words))
        is_readable = is_readable or record is not None
        if record:
            yield record
    if not is_readable:
        raise UnreadableRows(f"the answer is not a list of captures: {text[:100]!r}")


_LETTERS = dict(zip("NbamskrMSVg", _FIELDS_11, strict=True))
"""The letters of a header line ` CDX N b a …`: https://iipc.github.io/warc-specifications/specifications/cdx-format/"""


def _json_line(text: str) -> Mapping[str, Any] | None:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _renamed(record) if isinstance(record, dict) else None


def _renamed(record: Mapping[str, Any]) -> Mapping[str, Any]:
    return {_OTHER_NAMES.get(name, name): value for name, value in record.items()}


def _names(count: int) -> Sequence[str]:
    return _FIELDS_11 if count >= len(_FIELDS_11) else _FIELDS_7


def _form(words: Sequence[str]) -> Sequence[str]:
    """Whether a line has 7 or 11 columns. Blanks within the URL make more words of it."""
    extra = len(words) - len(_FIELDS_11)
    is_long = extra >= 0 and ("/" in words[3 + extra] or words[3 + extra] == "-") and _CODE.fullmatch(words[4 + extra])
    return _FIELDS_11 if is_long else _FIELDS_7


_CODE = re.compile(r"\d{3}|-")


def _words(words: Sequence[str], names: Sequence[str]) -> Mapping[str, Any] | None:
    extra = len(words) - len(names)
    if extra < 0 or "original" not in names:
        return None
    at = names.index("original")
    columns = [*words[:at], " ".join(words[at : at + extra + 1]), *words[at + extra + 1 :]]
    return dict(zip(names, columns, strict=True))


_SURROGATE = re.compile(r"[\ud800-\udfff]")
"""JSON can name halves of characters, which no database stores."""


def _row(record: Mapping[str, Any]) -> CdxRow | None:
    def text(name: str) -> str | None:
        value = record.get(name)
        if value in (None, "", "-") or _SURROGATE.search(str(value)):
            return None
        return str(value)

    def number(name: str) -> int | None:
        value = text(name)
        return int(value) if value is not None and re.fullmatch("[0-9]{1,18}", value) else None

    url, timestamp = text("original"), text("timestamp") or ""
    try:
        moment(timestamp)
    except ValueError:
        return None
    if url is None or len(timestamp) != 14:
        return None
    mimetype = (text("mimetype") or "").lower() or None
    status = number("statuscode") or None
    if status is None and url.startswith("ftp://"):
        status = FTP_OK
    return CdxRow(
        url=url,
        timestamp=timestamp,
        status=status,
        mimetype=mimetype,
        digest=text("digest"),
        length=number("length") or None,
        offset=number("offset"),
        filename=text("filename"),
        is_revisit=mimetype == REVISIT,
    )


def resolve(rows: Sequence[CdxRow]) -> list[CdxRow]:
    """The rows, each revisit with status and type of the capture that it repeats: the latest before it with the same
    digest, else any."""
    originals: dict[str, list[CdxRow]] = {}
    for row in rows:
        if not row.is_revisit and row.digest is not None:
            originals.setdefault(row.digest, []).append(row)

    def resolved(row: CdxRow) -> CdxRow:
        found = originals.get(row.digest or "", [])
        if not row.is_revisit or not found:
            return row
        before = [other for other in found if other.timestamp <= row.timestamp]
        original = max(before, key=lambda other: (other.url == row.url, other.timestamp)) if before else found[0]
        return replace(row, status=original.status, mimetype=original.mimetype, revisits=original)

    return [resolved(row) for row in rows]


# Choosing


def best(
    rows: Iterable[CdxRow], url: str, *, near: datetime | None = None, mimetypes: Collection[str] = ()
) -> CdxRow | None:
    """The capture to take for a URL, or None where there are no rows.

    A capture of a page or a redirect comes before one of an error, and the URL itself before its http, https and www
    variants: index rows of variants mixed up look like endless redirects. Then counts the nearness to a time; without
    one the HTTP status, the wanted type, a body of its own, and the newest.

    :param url: in its normal form
    """

    def key(row: CdxRow) -> tuple[Any, ...]:
        is_error = row.status is not None and row.status >= 400
        fits = is_error, not is_same_url(row.url, url)
        taste = not row.is_ok, row.status or 999, row.mimetype not in mimetypes, row.is_revisit
        newest = -row.captured_at.timestamp()
        if near is None:
            return *fits, *taste, newest
        return *fits, abs((row.captured_at - near).total_seconds()), *taste, newest

    return min(rows, key=key, default=None)


def is_same_url(captured: str, url: str) -> bool:
    """Whether a capture is of exactly this URL, in another spelling perhaps: `http://h:80` is `http://h/`."""
    return captured == url or without_fragment(resolve_url(captured) or captured) == without_fragment(url)


def is_variant(captured: str, url: str) -> bool:
    """Whether a capture is of this URL, but for the scheme, `www.`, one final slash and doubled slashes."""
    one, other = (resolve_url(re.sub("(?<=[^:/])/{2,}", "/", text)) for text in (captured, url))
    return captured == url or (one is not None and other is not None and same_page(one, other))
