"""Numbers of a database's requests and results: a page with a curve, and JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

import pydantic
from datasette.utils.asgi import Response

from ... import compat
from ...jobs.errors import NotAllowed
from ...jobs.service import turns
from ...jobs.service.permissions import Actor
from ...web import access, api, requests
from ...web.responses import as_json, render
from ...web.urls import Links
from .. import stats as numbers
from ..advice import advice, meaning
from ..stats import Day, Ended, FailingHost, Requested
from . import search

TABLES = (numbers.REQUESTS, numbers.RESULTS)
LIMIT_MS = 1000.0
"""How long all the queries of an answer may take together."""
DAYS_LISTED = 31


class Status(pydantic.BaseModel):
    status: str
    ingest_type: str
    results: int
    due: int = pydantic.Field(description="Results whose next try has come")
    meaning: str
    advice: str = pydantic.Field(description="What a person can do about it")


class Stats(api.Answer):
    """Numbers of requests and results. A part is null where counting it took too long; `cut` names these."""

    database: str
    requests: list[Requested] | None
    statuses: list[Status] | None
    days: list[Day] | None = pydantic.Field(description="How many results and hits there were at the end of each day")
    hosts: list[FailingHost] | None
    cut: list[str]


async def stats(datasette: Any, request: Any) -> Response:
    requests.require_method(request, "GET")
    database = requests.database_of(datasette, request)
    await access.require_results(datasette, request.actor, database, TABLES)
    async with turns.turn(datasette, request.actor):
        found = await _counted(datasette.databases[database])
    statuses: list[Ended] | None = found["statuses"]
    shown = None if statuses is None else [_status(each) for each in statuses]
    if requests.wants_json(request):
        parts = {name: None if rows is None else [asdict(row) for row in rows] for name, rows in found.items()}
        cut = [name for name, rows in found.items() if rows is None]
        return as_json(
            {
                "ok": True,
                "database": database,
                **parts,
                "statuses": None if shown is None else [each.model_dump() for each in shown],
                "cut": cut,
            }
        )
    context = {**found, "statuses": shown, "chart": chart(found["days"] or []), "listed_days": DAYS_LISTED}
    context["is_searchable"] = await search.is_searchable(datasette, request.actor, database)
    context["total"] = None if found["requests"] is None else _total(found["requests"])
    return await render(datasette, request, "ingest_stats.html", context, database=database)


async def database_links(datasette: Any, actor: Actor, database: str) -> list[dict[str, str]]:
    """Items for a database's menu: this page, where there are results that the actor may read."""
    db = datasette.databases.get(database)
    if db is None or database in compat.INTERNAL_DATABASES or not await compat.read(db, numbers.has_any):
        return []
    try:
        await access.require_results(datasette, actor, database, TABLES)
    except NotAllowed:
        return []
    return [
        {
            "href": Links(datasette).stats(database),
            "label": "Requests and results",
            "description": "How many files were found, by source, status and host",
        }
    ]


def _status(each: Ended) -> Status:
    return Status(**asdict(each), meaning=meaning(each.status), advice=advice(each.status))


async def _counted(db: Any) -> dict[str, Any]:
    """Part -> its rows; None where the time was over."""
    end = time.monotonic() + LIMIT_MS / 1000
    found: dict[str, Any] = {}
    for part, count in numbers.PARTS.items():
        left = (end - time.monotonic()) * 1000
        try:
            found[part] = await compat.read(db, count, limit_ms=left) if left > 1 else None
        except compat.Interrupted:
            found[part] = None
    return found


def _total(rows: Sequence[Requested]) -> tuple[int, int, int]:
    """(requests, tried, hits)"""
    return sum(row.requests for row in rows), sum(row.tried for row in rows), sum(row.hits for row in rows)


# ---- the curve --------------------------------------------------------------------------------------------------

WIDTH, HEIGHT = 600.0, 160.0


@dataclass(frozen=True)
class Chart:
    """Two areas over the days, as points of SVG polygons: all results that were tried, and the hits among them."""

    tried: str
    hits: str
    first: str
    last: str
    most: int
    width: float = WIDTH
    height: float = HEIGHT


def chart(days: Sequence[Day]) -> Chart | None:
    """The curve; None for fewer than two days, or days that are no dates."""
    try:
        numbers_of = [_day_number(day.day) for day in days]
    except ValueError:
        return None
    if len(days) < 2 or not days[-1].tried:
        return None
    first, span, most = numbers_of[0], max(1, numbers_of[-1] - numbers_of[0]), days[-1].tried

    def area(values: Sequence[int]) -> str:
        points, before = [f"0,{HEIGHT:g}"], None
        for number, value in zip(numbers_of, values, strict=True):
            x, y = WIDTH * (number - first) / span, HEIGHT * (1 - value / most)
            if before is not None:  # nothing comes between two days, so the curve has steps
                points.append(f"{x:.1f},{before:.1f}")
            points.append(f"{x:.1f},{y:.1f}")
            before = y
        return " ".join([*points, f"{WIDTH:g},{HEIGHT:g}"])

    tried, hits = [day.tried for day in days], [day.hits for day in days]
    return Chart(area(tried), area(hits), days[0].day, days[-1].day, most)


def _day_number(day: str) -> int:
    return date.fromisoformat(day).toordinal()
