"""Rows of a web archive's index: read in every form that servers write, and the choice of one capture. Pure.

https://github.com/internetarchive/wayback/tree/master/wayback-cdx-server and https://pywb.readthedocs.io/ document
the two servers whose answers are read here.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property

from ..facts import Cdx

_FIELDS_7 = ("urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length")
_FIELDS_11 = (*_FIELDS_7[:6], "redirect", "robotflags", "length", "offset", "filename")
_OTHER_NAMES = {"url": "original", "mime": "mimetype", "status": "statuscode"}
"""pywb's and Common Crawl's names of fields -> the Internet Archive's."""
REVISIT = "warc/revisit"
FTP_OK = 226


class UnreadableRows(ValueError):
    """The answer of an index is in no form that is known, such as an HTML page."""


@dataclass(frozen=True)
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

    @cached_property
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
