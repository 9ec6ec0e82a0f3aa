"""Requests as JSON lines: IngestRequest, also with sandcrawler's names of fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pydantic

from ..model import IngestRequest
from ..store.requests import RequestRow, other_fields, row_of
from .errors import Refused
from .rows import Given, ReadEach, decoded, known_type, required, row_json, text_of, unicode_row
from .where import Where

_DECODER = msgspec.json.Decoder(dict[str, Any])
_NAMES = {
    "ingest_type": ("ingest_type",),
    "base_url": ("base_url",),
    "source": ("source", "link_source"),
    "source_id": ("source_id", "link_source_id"),
    "actor": ("actor", "ingest_request_source"),
}
_TEXT, _OBJECT = (str, type(None)), (dict, type(None))
_PLAIN: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("ingest_type", "base_url", "source", "link_source", "source_id", "link_source_id"), (str,)),
    **dict.fromkeys(("actor", "ingest_request_source"), (str,)),
    **dict.fromkeys(("release_stage", "as_of", "rel", "oa_status"), _TEXT),
    **dict.fromkeys(("ext_ids", "fatcat", "expect_hash", "edit_extra"), _OBJECT),
    "force_recrawl": (bool,),
    "max_capture_age_days": (int, float, type(None)),
}
"""Types with which a field passes IngestRequest unchanged. Lines with others are read by IngestRequest itself."""


def is_record(record: Any) -> bool:
    """Whether a JSON value looks like a request."""
    return isinstance(record, dict) and "base_url" in record and "request" not in record


class RequestReader:
    """A request of each line."""

    def __init__(self, given: Given, where: Where | None) -> None:
        self._given = given
        self._where = where

    def line(self, line: bytes) -> Sequence[RequestRow]:
        document = decoded(line, _DECODER, dict)
        if self._where is not None and not self._where.holds(document):
            return ()
        row = request_row(document, self._given)
        return () if row is None else (row,)

    def all_lines(self, lines: Sequence[bytes]) -> Sequence[RequestRow]:
        if b"" in lines:
            raise ReadEach
        return [row for line in lines for row in self.line(line)]


def request_row(document: dict[str, Any], given: Given) -> RequestRow | None:
    """The row of a request's JSON; None where its type is not wanted. Raises Refused.

    A line that names no source gets the given one; one that names no type is for the given one.
    """
    if not all(type(value) in _PLAIN.get(name, (type(value),)) for name, value in document.items()):
        return _checked(_by_model(document, given), given)
    kind, base_url, source, source_id, actor = (_first(document, names) for names in _NAMES.values())
    others = other_fields(document)
    row = (
        known_type(kind or given.ingest_type),
        base_url,
        source or given.source or "",
        source_id,
        given.actor if actor is None else actor,
        given.created,
        document.get("release_stage"),
        row_json(others) if others else None,
    )
    return _checked(row, given)


def _first(document: dict[str, Any], names: Sequence[str]) -> Any:
    return next((document[name] for name in names if name in document), None)


def _by_model(document: dict[str, Any], given: Given) -> RequestRow:
    """The row of any request that IngestRequest reads."""
    names = {name for spellings in _NAMES.values() for name in spellings if name != "base_url"}
    named = {name: value for name, value in document.items() if value is not None or name not in names}
    filled = {"ingest_type": given.ingest_type, **named}
    if not filled.keys() & set(_NAMES["actor"]):
        filled["actor"] = given.actor
    try:
        request = IngestRequest.from_json(filled)
    except pydantic.ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        raise Refused(f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:200]) from None
    row = row_of(request, created=given.created)
    if row is None:
        raise Refused("base_url is missing or blank")
    kind, base_url, source, source_id, *others = row
    return (known_type(kind), text_of(base_url), source or given.source or "", source_id, *others)


def _checked(row: RequestRow, given: Given) -> RequestRow | None:
    if given.only_type is not None and row[0] != given.only_type:
        return None
    for name, value in zip(("base_url", "source", "source_id"), row[1:4], strict=True):
        required(value, name)
    if "://***@" in row[1]:
        raise Refused("base_url has *** in the place of a password: export it with --passwords")
    return unicode_row(row)
