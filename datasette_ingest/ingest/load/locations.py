"""Places where a work can be read, as indexes of open access name them, as requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from ..store.requests import RequestRow
from .rows import Given, required, row_json, unicode_row

STAGES = {"publishedVersion": "published", "acceptedVersion": "accepted", "submittedVersion": "submitted"}
"""The version of a location (DRIVER's vocabulary) -> release stage (fatcat's)."""

Place: TypeAlias = "tuple[str, str | None, str | None, str | None]"
"""(URL, version, licence, type of host)."""


class _Extra(msgspec.Struct, omit_defaults=True, gc=False):
    """What an index says about one place. `rank`: from 1 for the best place of the work."""

    rank: int
    license: str | None = None
    host_type: str | None = None


class _Others(msgspec.Struct, omit_defaults=True, gc=False):
    """The fields of a request that have no column."""

    ext_ids: Mapping[str, str]
    edit_extra: _Extra
    oa_status: str | None = None


def rows_of(
    places: Sequence[Place], *, source_id: str, ext_ids: Mapping[str, str], oa_status: str | None, given: Given
) -> list[RequestRow]:
    """The requests for one work. Raises Refused.

    :param places: best first; a URL that several of them have counts once
    """
    if len(places) > 1:
        first: dict[str, Place] = {}
        for place in places:
            first.setdefault(place[0], place)
        places = list(first.values())
    rows: list[RequestRow] = []
    for rank, (url, version, license, host_type) in enumerate(places, 1):
        others = row_json(_Others(ext_ids, _Extra(rank, license, host_type), oa_status))
        stage = STAGES.get(version) if version else None
        row = (given.ingest_type, url, given.source, source_id, given.actor, given.created, stage, others)
        if "\0" in url or not url.isascii() or not source_id.isascii():
            required(url, "the URL")
            unicode_row(row)
        rows.append(row)
    return rows
