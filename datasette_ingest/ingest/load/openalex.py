"""OpenAlex's works: a JSON object a line, as in its snapshot (https://docs.openalex.org/api-entities/works/work-object)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ..identifiers import find_doi
from ..store.requests import RequestRow
from .locations import Place, rows_of
from .rows import required
from .works import WorksReader


class Venue(msgspec.Struct, gc=False):
    """The journal, repository or the like of a location."""

    type: str | None = None


class Location(msgspec.Struct, gc=False):
    """A place where the work can be found."""

    is_oa: bool | None = None
    landing_page_url: str | None = None
    pdf_url: str | None = None
    license: str | None = None
    version: str | None = None
    source: Venue | None = None

    @property
    def url(self) -> str | None:
        return self.pdf_url or self.landing_page_url


class OpenAccess(msgspec.Struct, gc=False):
    oa_status: str | None = None
    oa_url: str | None = None


class Identifiers(msgspec.Struct, gc=False):
    pmid: str | None = None
    pmcid: str | None = None


class Work(msgspec.Struct, gc=False):
    """The fields of a work that are read."""

    id: str | None = None
    doi: str | None = None
    ids: Identifiers | None = None
    open_access: OpenAccess | None = None
    best_oa_location: Location | None = None
    locations: list[Location] | None = None


def is_record(record: Any) -> bool:
    """Whether a JSON value looks like a work."""
    return isinstance(record, dict) and str(record.get("id")).startswith("https://openalex.org/W")


class OpenAlexReader(WorksReader[Work]):
    """Each open location with a URL, the best first, then the work's `oa_url` if it is another."""

    kind = Work
    locations = "locations"

    def rows(self, work: Work) -> Sequence[RequestRow]:
        only_locations = self.where is not None and bool(self.where.of_location)
        places = list(_places(work, only_locations))
        if not places:
            return ()
        return rows_of(
            places,
            source_id=required(work.id, "id"),
            ext_ids=_ext_ids(work),
            oa_status=work.open_access.oa_status if work.open_access else None,
            given=self.given,
        )


def _places(work: Work, only_locations: bool) -> Iterator[Place]:
    """:param only_locations: leave out what stands outside `locations`: conditions on locations were given"""
    open_ones = [each for each in work.locations or () if each.is_oa]
    best = work.best_oa_location
    if best is not None and not only_locations:
        open_ones.insert(0, best)
    elif best is not None:
        open_ones.sort(key=lambda each: each.url != best.url)
    for each in open_ones:
        url = each.url
        if url and not url.isspace():
            yield url, each.version, each.license, each.source.type if each.source else None
    if not only_locations and work.open_access and work.open_access.oa_url and not work.open_access.oa_url.isspace():
        yield work.open_access.oa_url, None, None, None


def _ext_ids(work: Work) -> dict[str, str]:
    """The work's identifiers without the addresses of their resolvers."""
    found = {"doi": find_doi(work.doi) if work.doi else None}
    if work.ids is not None:
        found |= {"pmid": _last_part(work.ids.pmid), "pmcid": _last_part(work.ids.pmcid)}
    return {name: value for name, value in found.items() if value}


def _last_part(url: str | None) -> str | None:
    return url.rstrip("/").rpartition("/")[2] if url else None
