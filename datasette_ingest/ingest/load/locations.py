"""Places where a work can be read, as indexes of open access name them, as requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from ..json_object import json_text
from ..store.requests import RequestRow
from .rows import Given, required, unicode_row

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
    places: Iterable[Place], *, source_id: str, ext_ids: Mapping[str, str], oa_status: str | None, given: Given
) -> list[RequestRow]:
    """The requests for one work. Raises Refused.

    :param places: best first; a URL that several of them have counts once
    """
    rows: list[RequestRow] = []
    urls: set[str] = set()
    kind, source, actor, created = given.ingest_type, given.source or "", given.actor, given.created
    for url, version, license, host_type in places:
        if url in urls:
            continue
        urls.add(url)
        others = _Others(ext_ids, _Extra(len(urls), license, host_type), oa_status)
        stage = STAGES.get(version) if version else None
        row = (kind, required(url, "the URL"), source, source_id, actor, created, stage, json_text(others))
        rows.append(row if url.isascii() and source_id.isascii() else unicode_row(row))
    return rows
