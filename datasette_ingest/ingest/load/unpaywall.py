"""Unpaywall's snapshot: a JSON object a line for each DOI (https://unpaywall.org/data-format, version 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..store.requests import RequestRow
from .locations import Place, rows_of
from .rows import Given, Read, converted, decoded, required
from .where import Where


class Location(msgspec.Struct, gc=False):
    """A place where the work can be read."""

    url: str | None = None
    url_for_pdf: str | None = None
    url_for_landing_page: str | None = None
    license: str | None = None
    version: str | None = None
    host_type: str | None = None
    is_best: bool | None = None


class Record(msgspec.Struct, gc=False):
    """The fields of a record that are read."""

    doi: str | None = None
    oa_status: str | None = None
    oa_locations: list[Location] | None = None


def is_record(record: Any) -> bool:
    """Whether a JSON value looks like a line of the snapshot."""
    return isinstance(record, dict) and "oa_locations" in record and "doi" in record


def reader(given: Given, where: Where | None) -> Read:
    """What reads a line: each location with a URL, the best first; the PDF's URL or else the landing page's."""
    decoder = msgspec.json.Decoder(Record)

    def read(line: bytes) -> list[RequestRow]:
        if where is None:
            record = decoded(line, decoder, Record)
        else:
            wanted = where.filter(line, "oa_locations")
            if wanted is None:
                return []
            record = converted(wanted, Record)
        if not record.oa_locations:
            return []
        doi = required(record.doi, "doi")
        return rows_of(
            _places(record.oa_locations), source_id=doi, ext_ids={"doi": doi}, oa_status=record.oa_status, given=given
        )

    return read


def _places(locations: list[Location]) -> Iterator[Place]:
    for place in sorted(locations, key=_is_not_best) if len(locations) > 1 else locations:
        url = place.url_for_pdf or place.url_for_landing_page or place.url
        if url and not url.isspace():
            yield url, place.version, place.license, place.host_type


def _is_not_best(place: Location) -> bool:
    return not place.is_best
