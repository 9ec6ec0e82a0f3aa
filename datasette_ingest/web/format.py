"""Numbers, times and values as a page says them. Pure; the live page's script says them alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl

from datasette.filters import Filters

CELL_LENGTH = 120


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def duration(seconds: float | None) -> str:
    """A length of time in at most two units: `45 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`; '' for None."""
    if seconds is None:
        return ""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    named = []
    for name, size in units:
        count, whole = divmod(whole, size)
        named.append((count, name))
    first = next(position for position, (count, _) in enumerate(named) if count)
    return " ".join(f"{count} {name}" for count, name in named[first : first + 2] if count)


def rate(rows_per_second: float | None) -> str:
    """Rows a second, or a minute where that is the readable number; '' for None."""
    if rows_per_second is None:
        return ""
    if rows_per_second >= 1 or rows_per_second == 0:
        return f"{rows_per_second:,.0f} rows/s" if rows_per_second >= 10 else f"{rows_per_second:.1f} rows/s"
    return f"{rows_per_second * 60:.1f} rows/min"


def moment(iso: str | None) -> str:
    """An ISO time for reading: `2026-11-30 13:36:00 UTC`."""
    if not iso:
        return ""
    text = iso.replace("T", " ").removesuffix("Z")
    return f"{text.partition('.')[0]} UTC" if iso.endswith("Z") else text


def sentence(text: str) -> str:
    """A text that ends as a sentence does."""
    stripped = text.rstrip()
    return stripped if not stripped or stripped.endswith((".", "!", "?", "…")) else stripped + "."


def cell(value: Any) -> str:
    """A value in a preview, short enough for a table cell."""
    if value is None:
        return ""
    if isinstance(value, (bytes, bytearray)):
        return f"<binary: {counted(len(value), 'byte')}>"
    text = str(value)
    return text if len(text) <= CELL_LENGTH else text[: CELL_LENGTH - 1] + "…"


def setting(value: Any) -> str:
    """A setting's value for reading; '' for one that is not set."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)


def filters_in_words(querystring: str) -> list[str]:
    """The filters one by one, as Datasette's own table page says them, and ours in words; others as written."""
    pairs = parse_qsl(querystring, keep_blank_values=True)
    given: dict[str, list[str]] = {}
    for key, value in pairs:
        given.setdefault(key, []).append(value)
    said = [_filter_in_words(key, value) for key, value in pairs if key not in _OWN]
    picked = len(given.get("_row", [])) + len(given.get("_rowid", []))
    if picked:
        said.append(counted(picked, "picked row"))
    said += [f"in error in job {job}" for job in given.get("_ingest_failed", [])]
    for job in given.get("_ingest_retry", []):
        said.append(f"worth another try after job {job} ({', '.join(given.get('_ingest_scope', ['errors']))})")
    for word in given.get("_ingest_status", []):
        said.append(f"outcome {word} in job {', '.join(given.get('_ingest_job', []))}")
    return said


_OWN = frozenset(
    {"_row", "_rowid", "_ingest_failed", "_ingest_retry", "_ingest_scope", "_ingest_status", "_ingest_job"}
)


def _filter_in_words(key: str, value: str) -> str:
    said: str = "" if key.startswith("_") else Filters([(key, value)]).human_description_en()
    return said.removeprefix("where ") or f"{key} = {value}"


def summed_up(parts: Iterable[str]) -> str:
    """`a, b and c`."""
    listed = list(parts)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}" if listed else ""
