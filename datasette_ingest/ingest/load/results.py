"""Results as JSON lines: FileIngestResult, as `export` and sandcrawler write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import msgspec
import pydantic

from ...sqlite import from_iso
from ..errors import STATUS_ALIASES, SUCCESS
from ..model import IngestResult
from ..store.requests import RequestRow
from .errors import Refused
from .jsonl import request_row
from .rows import Given, decoded, row_json
from .where import Where

_DECODER = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True)
class LoadedResult:
    """A request, what happened to it, and when."""

    row: RequestRow
    result: IngestResult
    when: datetime

    @property
    def result_key(self) -> tuple[str, str]:
        """What keys its result: (type, URL)."""
        return self.row[0], self.row[1]


def is_record(record: Any) -> bool:
    """Whether a JSON value looks like a result."""
    return isinstance(record, dict) and isinstance(record.get("request"), dict) and "status" in record


def read_result(line: bytes, given: Given, where: Where | None) -> LoadedResult | None:
    """The result of a line; None where it is not wanted. Raises Refused.

    Its time is that of `updated` or `timestamp` if the line has one, else of the last answer, else of the load.
    """
    document = decoded(line, _DECODER, dict)
    return None if where is not None and not where.holds(document) else result_of(document, given)


def result_of(document: dict[str, Any], given: Given) -> LoadedResult | None:
    """As `read_result`, of JSON that was read."""
    request = document.get("request")
    if not isinstance(request, dict):
        raise Refused("request is missing")
    if request.keys().isdisjoint(("source_id", "link_source_id")):  # nobody requested it: it has a URL, and that is all
        request = {**request, "source_id": request.get("base_url")}
    row = request_row(request, given)
    if row is None:
        return None
    try:
        _check_storable(document)
    except RecursionError:
        raise Refused("nested too deeply") from None
    status = document.get("status")
    if isinstance(status, str):
        document["status"] = STATUS_ALIASES.get(status, status)
    try:
        result = IngestResult.from_json({**document, "request": {**request, "ingest_type": row[0]}})
    except pydantic.ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        raise Refused(f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:200]) from None
    if result.hit != (result.status == SUCCESS):
        raise Refused(f"hit is {str(result.hit).lower()} and status {result.status[:40]!r}")
    return LoadedResult(row, result, _when(document, result, given))


def _check_storable(value: Any) -> None:
    """Raises Refused for a value within this JSON that SQLite cannot hold."""
    match value:
        case dict():
            for name, each in value.items():
                _check_storable(name)
                _check_storable(each)
        case list():
            for each in value:
                _check_storable(each)
        case str():
            row_json(value)
        case int() if not -(2**63) <= value < 2**63:
            raise Refused(f"{str(value)[:40]} is too large for an integer of SQLite")


def _when(document: Mapping[str, Any], result: IngestResult, given: Given) -> datetime:
    for name in ("updated", "timestamp"):
        text = document.get(name)
        if isinstance(text, str):
            try:
                return datetime.fromtimestamp(from_iso(text), timezone.utc)
            except (ValueError, OverflowError):
                raise Refused(f"{name} is {text[:40]!r}, which is no time") from None
    if result.terminal_dt is not None:
        try:
            return datetime.strptime(result.terminal_dt, "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)
        except ValueError:
            pass  # archives have such times
    return datetime.fromtimestamp(from_iso(given.created), timezone.utc)
