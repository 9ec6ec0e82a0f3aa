"""The Retry-After header, in every form in which servers send it (RFC 9110, 10.2.3)."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

LONGEST = 30 * 86400.0
"""Wishes beyond a month, in seconds, are read as a month."""

_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?")


def retry_after(value: bytes | None, *, now: datetime) -> float | None:
    """Seconds from `now`, between 0 and LONGEST, or None where the header is missing or says nothing.

    Reads whole and broken numbers, negative ones (0), and dates in the three forms of HTTP.
    """
    text = (value or b"").decode("latin-1").strip()
    if not text:
        return None
    if _NUMBER.fullmatch(text):
        # Thirty digits are a valid header and no duration.
        return min(max(float(text[:30]), 0.0), LONGEST)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    try:
        seconds = (moment - now).total_seconds()
    except OverflowError:
        return LONGEST
    return min(max(seconds, 0.0), LONGEST)
