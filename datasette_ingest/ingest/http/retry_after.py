"""Parse the Retry-After header in every form that servers send (RFC 9110, 10.2.3)."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

LONGEST = 30 * 86400.0
"""A month, in seconds. Longer times are read as this."""

_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?")


def retry_after(value: bytes | None, *, now: datetime) -> float | None:
    """Seconds from `now`, between 0 and LONGEST; None if the header is missing or cannot be parsed.

    Accepts integers and decimals, negative ones as 0, and the three date formats of HTTP.
    """
    text = (value or b"").decode("latin-1").strip()
    if not text:
        return None
    if _NUMBER.fullmatch(text):
        # A valid header may have hundreds of digits, which float() takes long to read.
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
