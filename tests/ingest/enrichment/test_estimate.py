"""What is said of an ingest job before it runs."""

from __future__ import annotations

import contextlib
import sqlite3
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from datasette_ingest import settings
from datasette_ingest.ingest import schema, store
from datasette_ingest.ingest.enrichment import IngestEnrichment
from datasette_ingest.ingest.enrichment.estimate import Estimate, Link
from datasette_ingest.ingest.enrichment.sql import guess_url_column
from datasette_ingest.ingest.errors import RetryClass
from datasette_ingest.ingest.model import IngestRequest, IngestResult
from datasette_ingest.jobs.service import permissions, selection_preview

from ...conftest import ROOT, serving


def links(host: str | None, number: int, *, fresh: int = 0, same: bool = False) -> list[Link]:
    return [Link(("pdf", f"{host}/{0 if same else n}"), host, n < fresh) for n in range(number)]


def facts(looked_at: list[Link], *, count: int | None = None, fresh: int | None = None, **given: Any) -> dict[str, Any]:
    count = len(looked_at) if count is None else count
    return Estimate(looked_at, count, fresh, **{"max_age_days": 30, "per_host_delay": 0.5, **given}).facts()


def test_the_commonest_hosts_are_named_and_the_others_counted():
    looked_at = [link for n in range(8) for link in links(f"h{n}.example", 9 - n)] + links(None, 2)
    said = facts(looked_at)
    assert said["Hosts"] == {
        "h0.example": 9,
        "h1.example": 8,
        "h2.example": 7,
        "h3.example": 6,
        "h4.example": 5,
        "3 other hosts": 9,
    }
    assert said["Without a usable link"] == 2


def test_the_time_is_that_of_the_host_with_most_links_to_fetch():
    said = facts(links("a.example", 500, fresh=450) + links("b.example", 240))
    assert said["Time"].startswith("At least 2 min: 240 links to b.example, which is asked every 0.5 s")
    assert said["Known already"].startswith("450 of these have a fresh result and will not be fetched again")


def test_a_link_that_stands_in_many_rows_is_fetched_once():
    assert "1 link to a.example" in facts(links("a.example", 500, same=True))["Time"]


def test_of_a_larger_selection_the_numbers_are_those_of_its_first_rows_and_say_so():
    said = facts(links("a.example", 2_000, fresh=500), count=200_000)
    assert said["Hosts (of the first 2,000 rows)"] == {"a.example": 2_000}
    assert said["Known already"].startswith("500 of the first 2,000 have a fresh result")
    assert said["Time"].startswith("At least 12 min 30 s for the first 2,000 rows: 1,500 links to a.example")
    assert facts(links("a.example", 2_000), count=200_000, fresh=312)["Known already"].startswith("312 of these")


def test_nothing_to_look_at_nothing_to_fetch_and_nothing_to_use_again():
    assert facts([]) == {}
    assert facts(links("a.example", 3, fresh=3))["Time"] == "Seconds: nothing has to be fetched"
    assert facts(links("a.example", 3))["Known already"] == "No result is fresh: every link is fetched"
    assert facts(links("a.example", 3), force=True)["Known already"].startswith("Every link is fetched")
    said = facts(links("a.example", 3, fresh=1), max_age_days=0)["Known already"]
    assert said == "1 of these have a fresh result and will not be fetched again: its next try is not due"
    assert "Time" not in facts(links(None, 3))


NOW = datetime.now(timezone.utc).replace(microsecond=0)
DAY = timedelta(days=1)


def result(url: str, again: RetryClass | None = None, kind: str = "pdf") -> IngestResult:
    """A hit, or a miss that may be tried again as this class says."""
    request = IngestRequest(ingest_type=kind, base_url=url, source="papers", source_id="1")
    if again is None:
        return IngestResult(request=request, hit=True, status="success")
    return IngestResult(request=request, hit=False, status="no-pdf-link", error_message="because", next_try_class=again)


@pytest.fixture
def known(tmp_path):
    """Papers, and what is stored of their links: a young hit, an old one, a miss that is due and one that is not, a
    final miss, and a hit of another type."""
    path = tmp_path / "data.db"
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        schema.migrate(conn)
        stored = [
            ("young", None, DAY),
            ("old", None, 40 * DAY),
            ("due", RetryClass.SOON, 300 * DAY),
            ("waits", RetryClass.LATER, timedelta(0)),
            ("never", RetryClass.NEVER, DAY),
            ("odd", None, DAY),
        ]
        for name, again, age in stored:
            store.write(conn, result(f"http://a.example/{name}", again), job_id=1, now=NOW - age)
        store.write(conn, result("http://a.example/page", kind="html"), job_id=1, now=NOW)
        conn.execute("update ingest_file_result set updated = 'yesterday' where base_url like '%/odd'")
        conn.execute("create table papers (id integer primary key, url text, kind text)")
        names = ["young", "old", "due", "waits", "never", "page", "new", "odd"]
        conn.executemany("insert into papers (url, kind) values (?, null)", [(f"http://a.example/{n}",) for n in names])
        conn.execute("insert into papers (url, kind) values ('http://a.example/page', ' HTML ')")
        conn.execute("insert into papers (url, kind) values (null, 'file')")
    return path


@pytest.mark.parametrize("config", [{"url_column": "url"}, {"url_column": "url", "type_column": "kind"}])
@pytest.mark.parametrize(
    ("reuse", "fresh"),
    [({}, 3), ({"max_age_days": 60}, 4), ({"max_age_days": 0}, 1), ({"force_recrawl": True}, None)],
)
async def test_all_rows_and_the_first_ones_agree_on_what_is_fresh(known, config, reuse, fresh):
    enrichment = IngestEnrichment(settings.Settings())
    config = enrichment.Config(**config, **reuse)
    async with serving(known) as datasette:
        papers = await permissions.require_table(datasette, ROOT, "data", "papers")
        chosen = await selection_preview.open_preview(datasette, papers, actor=ROOT)

        async def said(count: int) -> str:
            facts = await selection_preview.facts(
                datasette, chosen, enrichment, config.model_dump(), count, selection_preview.SLOW_MS
            )
            return facts["Known already"]

        # a selection that is said to be larger than what the preview is given is counted by SQL
        one_by_one, by_sql = await said(10), await said(3_000)
    assert one_by_one == by_sql
    if fresh is not None and config.type_column is not None and config.max_age_days != 0:
        fresh += 1
    assert one_by_one.startswith("Every link is fetched" if fresh is None else f"{fresh} of these")


async def test_before_anything_was_fetched_nothing_is_known(db_path):
    enrichment = IngestEnrichment(settings.Settings())
    async with serving(db_path) as datasette:
        papers = await permissions.require_table(datasette, ROOT, "data", "papers")
        chosen = await selection_preview.open_preview(datasette, papers, actor=ROOT)
        said = await selection_preview.facts(
            datasette, chosen, enrichment, {"url_column": "title"}, 5, selection_preview.SLOW_MS
        )
    assert said == {"Without a usable link": 5, "Known already": "No result is fresh: every link is fetched"}


@pytest.mark.parametrize(
    ("columns", "cells", "guess"),
    [
        ("note, paper_url", [("http://x.example/1", "http://x.example/2")], "paper_url"),
        ("fulltextLink, other", [], "fulltextLink"),
        (
            "id, source, ingest_hit, ingest_status, ingest_terminal_url, ingest_terminal_dt, "
            "ingest_terminal_status_code, ingest_terminal_sha1hex",
            [
                (1, "http://x.example/1", 1, "success", "http://y.example/1", "", 200, ""),
                (2, "see the shelf", 1, "success", "http://y.example/2", "", 200, ""),
            ],
            "source",
        ),
        ("curl, text", [(1, 2)], None),
    ],
)
def test_the_url_column_is_told_by_part_of_its_name_and_never_one_that_an_ingest_wrote(columns, cells, guess):
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        conn.execute(f"create table t ({columns})")
        conn.executemany(f"insert into t values ({', '.join('?' * (columns.count(',') + 1))})", cells)
        assert guess_url_column(conn, "t") == guess


def test_captures_take_the_time_that_their_places_allow():
    said = facts(links("a.example", 1_000), capture_delay=20 / 7)["Time"]
    assert said.startswith("About 47 min 37 s: 1,000 links to capture, one every 2.9 s")


@pytest.mark.parametrize(
    ("config", "beginning"),
    [
        ({"sources": ["spn2"]}, "About 23 s: 8 links to capture"),
        ({"sources": ["wayback", "spn2"], "force_recrawl": True}, "About 23 s: 8 links to capture"),
        ({"sources": ["wayback", "spn2"], "max_age_days": 0}, "At least 20 s: the index of the web archive"),
        ({"sources": ["live", "spn2"], "max_age_days": 0}, "At least 4 s: 8 links to a.example"),
    ],
)
async def test_the_time_is_that_of_the_source_that_is_asked_first(known, config, beginning):
    enrichment = IngestEnrichment(settings.Settings())
    config = enrichment.Config(**{"url_column": "url", "max_age_days": 0} | config).model_dump()
    async with serving(known) as datasette:
        papers = await permissions.require_table(datasette, ROOT, "data", "papers")
        chosen = await selection_preview.open_preview(datasette, papers, actor=ROOT)
        said = await selection_preview.facts(datasette, chosen, enrichment, config, 10, selection_preview.SLOW_MS)
    assert said["Time"].startswith(beginning)
