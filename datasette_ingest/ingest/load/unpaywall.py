"""Unpaywall's snapshot: a JSON object a line for each DOI (https://unpaywall.org/data-format, version 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..store.requests import RequestRow
from .locations import Place, rows_of
from .rows import required
from .works import WorksReader


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


class UnpaywallReader(WorksReader[Record]):
    """Each location with a URL, the best first; the PDF's URL or else the landing page's."""

    kind = Record
    locations = "oa_locations"

    def rows(self, work: Record) -> Sequence[RequestRow]:
        if not work.oa_locations:
            return ()
        places = _places(work.oa_locations)
        doi = required(work.doi, "doi")
        return rows_of(places, source_id=doi, ext_ids={"doi": doi}, oa_status=work.oa_status, given=self.given)


def _places(locations: list[Location]) -> list[Place]:
    if len(locations) > 1:
        locations = sorted(locations, key=_is_not_best)
    return [
        (url, place.version, place.license, place.host_type)
        for place in locations
        if (url := place.url_for_pdf or place.url_for_landing_page or place.url) and not url.isspace()
    ]


def _is_not_best(place: Location) -> bool:
    return not place.is_best
