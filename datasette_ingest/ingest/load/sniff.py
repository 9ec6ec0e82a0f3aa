"""Which format the beginning of a file looks like."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import jsonl, openalex, results, unpaywall
from .errors import BadInput, Refused
from .rows import parsed

RECORDS: dict[str, Callable[[Any], bool]] = {
    "unpaywall": unpaywall.is_record,
    "openalex": openalex.is_record,
    "results": results.is_record,
    "jsonl": jsonl.is_record,
}
"""Format of JSON lines -> whether a value looks like one of its records."""
DELIMITERS = {"csv": ",", "tsv": "\t"}
SAMPLE = 100
"""Lines at the beginning by which a file is judged."""


def check(lines: Iterable[bytes], wanted: str) -> None:
    """Refuse a file that is of another format than the named one, or of none.

    :param lines: its first lines
    :raises BadInput: which says what it looks like
    """
    sample = [line for line in lines if line.strip()][:SAMPLE]
    if not sample:
        return  # lines that cannot be read: each is refused
    seen = looks_like(sample)
    if wanted in DELIMITERS:
        if seen in RECORDS or seen == _ARRAY:
            raise BadInput(f"it is not {wanted}: it looks like {_named(seen)}", 1)
        return
    if seen == wanted:
        return
    if seen is not None:
        raise BadInput(f"it is not {wanted}: it looks like {_named(seen)}", 1)
    values = [value for value in map(_value, sample) if value is not None]
    if not values:
        raise BadInput(f"it is not {wanted}: its first lines are no JSON", 1)
    raise BadInput(f"it is not {wanted}: its first lines are JSON of no format that is known here", 1)


_ARRAY = "a JSON array"


def looks_like(sample: Sequence[bytes]) -> str | None:
    """The name of a format, or what it is otherwise; None where that cannot be told."""
    values = [value for value in map(_value, sample) if value is not None]
    found = [name for name, is_record in RECORDS.items() if any(map(is_record, values))]
    if found:
        return found[0] if len(found) == 1 else max(found, key=lambda name: sum(map(RECORDS[name], values)))
    first = sample[0].lstrip()
    if first.startswith(b"["):
        return _ARRAY
    if first[:1] == b"{":
        return "one JSON object over many lines" if not values else None
    if first[:1] == b"<":
        return "XML or HTML"
    return next((name for name, mark in DELIMITERS.items() if mark.encode() in first), None)


def _named(seen: str) -> str:
    if seen == _ARRAY:
        return "one JSON array, where each line must be an object: jq -c '.[]' makes it so"
    if seen in RECORDS or seen in DELIMITERS:
        return f"{seen} (--format {seen})"
    return seen


def _value(line: bytes) -> Any:
    try:
        value = parsed(line)
    except Refused:
        return None
    return value if isinstance(value, dict) else None
