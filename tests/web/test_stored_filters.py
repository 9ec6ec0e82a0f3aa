"""The filters of a job are shown to, and run for, those who may see all that they name, wherever a job is shown."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote_plus

import pytest
from datasette import hookimpl
from datasette.filters import FilterArguments
from datasette.plugins import pm
from datasette.utils.asgi import Forbidden

from datasette_ingest.jobs.errors import NotAllowed
from datasette_ingest.jobs.service import control, queries
from datasette_ingest.testing import run_until_idle

from .conftest import ROOT, get, post_json, start

CURATOR = {"id": "curator"}
CONFIG = {
    "plugins": {"datasette-ingest": {"run_jobs": False, "allow": {"id": "curator"}}},
    "databases": {
        "library": {
            "allow_sql": {"id": "root"},
            "tables": {
                "tags": {"allow": {"id": "root"}},
                "index_of_papers": {"allow": {"id": "root"}},
                "papers": {"fts_table": "index_of_papers"},
            },
        }
    },
}
THROUGH = '{"table":"tags","column":"codename","value":"s3cret"}'
FILTERS = {
    "SQL": "_where=id+in+(select+paper+from+tags+where+codename+%3D+'s3cret')",
    "through": f"_through={quote_plus(THROUGH)}",
    "through, with others": f"id__gte=1&_through={quote_plus(THROUGH)}&_row=1&_row=2",
    "search": "_search=s3cret",
    "search in a column": "_search_title=s3cret",
    "another plugin's": "_friend=s3cret",
}
SECRETS = ("s3cret", "codename", "index_of_papers")


class Friends:
    """A plugin whose filter `_friend=` is for root alone."""

    __name__ = "friends"

    @hookimpl
    def filters_from_request(self, request: Any) -> FilterArguments | None:
        if "_friend" not in request.args:
            return None
        if (request.actor or {}).get("id") != "root":
            raise Forbidden("friends only")
        return FilterArguments(["id <= :friends"], {"friends": 2}, [f"friend {request.args['_friend']}"])


@pytest.fixture(autouse=True)
def friends() -> Iterator[None]:
    plugin = Friends()
    pm.register(plugin, name="friends")
    yield
    pm.unregister(plugin)


@pytest.fixture
async def library(open_ds: Any, tmp_path: Any) -> Any:
    path = tmp_path / "library.db"
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.executescript("""
            create table papers (id integer primary key, title text);
            insert into papers values (1, 's3cret one'), (2, null), (3, 'three');
            create table tags (id integer primary key, paper integer references papers(id), codename text);
            insert into tags values (1, 1, 's3cret'), (2, 2, 's3cret');
            create virtual table index_of_papers using fts5 (title);
            insert into index_of_papers (rowid, title) values (1, 's3cret one'), (2, 's3cret two'), (3, 'three');
        """)
    return await open_ds(CONFIG, paths=[str(path)])


async def finished(ds: Any, filters: str) -> int:
    job = await start(ds, database="library", table="papers", filters=filters, config={"column": "title"})
    await run_until_idle(ds)
    return int(job.id)


def told(response: Any) -> list[str]:
    said = response.text + str(response.headers)
    return [word for word in SECRETS if word in said]


def places(job_id: int) -> list[str]:
    """Where a job's filters might be told."""
    job = f"/-/ingest-jobs/library/{job_id}"
    pages = [job, f"{job}.json", f"{job}/errors", f"{job}/errors.json", f"{job}/missed.csv"]
    pages += ["/-/ingest-jobs", "/-/ingest-jobs.json", "/-/ingest-jobs/library", "/-/ingest-jobs/library.json"]
    pages += ["/library/_enrichment_jobs", "/library/_enrichment_jobs.json", f"/library/_enrichment_jobs/{job_id}"]
    pages += [f"/-/ingest/library/papers/shout?_again={job_id}", "/library/papers/2", "/library/papers?id=2&_nofacet=1"]
    pages += [f"/library/papers.json?_ingest_retry={job_id}&id=2", f"/library/papers.json?_ingest_failed={job_id}"]
    return pages


@pytest.mark.parametrize("kind", FILTERS)
async def test_no_place_tells_a_filter_to_those_who_may_not_see_what_it_names(library, kind):
    job_id = await finished(library, FILTERS[kind])
    for place in places(job_id):
        for actor in (CURATOR, None):
            response = await get(library, place, actor)
            words = told(response)
            # the row itself, which everybody may read
            words = [word for word in words if not (word == "s3cret" and "s3cret one" in response.text)]
            assert (place, actor, words) == (place, actor, [])
    shown = (await get(library, f"/-/ingest-jobs/library/{job_id}.json", CURATOR)).json()["job"]
    assert (shown["hides_filters"], shown["selection"]) == (True, None)
    page = (await get(library, f"/-/ingest-jobs/library/{job_id}", CURATOR)).text
    assert "not shown in full: the filters name what you may not see" in page
    assert (await get(library, "/library/_enrichment_jobs.json", CURATOR)).status_code == 403


@pytest.mark.parametrize("kind", ["SQL", "through"])
async def test_the_reason_of_a_job_whose_filter_broke_does_not_tell_it(library, kind):
    job = await start(library, database="library", table="papers", filters=FILTERS[kind], config={"column": "title"})
    await library.databases["library"].execute_write("alter table tags rename column codename to name")
    await run_until_idle(library)
    for page in ("", ".json"):
        path = f"/-/ingest-jobs/library/{job.id}{page}"
        shown = await get(library, path, ROOT)
        assert "no such column: codename" in shown.text
        assert told(await get(library, path, CURATOR)) == []
    shown = (await get(library, f"/-/ingest-jobs/library/{job.id}.json", CURATOR)).json()["job"]
    assert (shown["status"], shown["cancel_reason"]) == ("cancelled", "SQLite refused the job's work")
    assert told(await get(library, "/-/ingest-jobs/library.json", CURATOR)) == []


@pytest.mark.parametrize("kind", FILTERS)
async def test_who_may_see_it_all_is_told(library, kind):
    job_id = await finished(library, FILTERS[kind])
    shown = (await get(library, f"/-/ingest-jobs/library/{job_id}.json", ROOT)).json()["job"]
    assert "s3cret" in shown["filter_querystring"]
    assert shown["hides_filters"] is False
    assert (await get(library, "/library/_enrichment_jobs.json", ROOT)).status_code == 200
    page = await get(library, f"/library/papers.json?_ingest_retry={job_id}&_shape=array", ROOT)
    assert [row["id"] for row in page.json()] == [2]


@pytest.mark.parametrize("kind", FILTERS)
async def test_nobody_runs_a_filter_of_what_they_may_not_see(library, kind):
    job_id = await finished(library, FILTERS[kind])
    count = len((await get(library, "/-/ingest-jobs/library.json", ROOT)).json()["jobs"])
    for actor in (CURATOR, None):
        page = await get(library, f"/library/papers.json?_ingest_retry={job_id}", actor)
        assert page.status_code in (400, 403)
        assert "three" not in page.text
        assert told(page) == []
    for path in (f"/-/ingest-jobs/library/{job_id}/retry", "/-/ingest-jobs/library"):
        body: dict[str, Any] = {}
        if path == "/-/ingest-jobs/library":
            filters = f"_ingest_retry={job_id}"
            body = {"table": "papers", "enrichment": "shout", "config": {"column": "title"}, "filters": filters}
        refused = await post_json(library, path, body, CURATOR)
        assert (path, refused.status_code) == (path, 403)
        assert told(refused) == []
    assert len((await get(library, "/-/ingest-jobs/library.json", ROOT)).json()["jobs"]) == count


@pytest.mark.parametrize("kind", FILTERS)
async def test_a_retry_of_a_retry_hides_what_the_first_job_names(library, kind):
    first = await finished(library, FILTERS[kind])
    for scopes in ("", "&_ingest_scope=errors"):
        retried = await finished(library, f"_ingest_retry={first}{scopes}")
        again = await finished(library, f"_ingest_retry={retried}")
        for job_id in (retried, again):
            assert told(await get(library, f"/-/ingest-jobs/library/{job_id}.json", CURATOR)) == []
            assert (await queries.find(library, "library", job_id, actor=CURATOR)).hides_filters
            assert not (await queries.find(library, "library", job_id, actor=ROOT)).hides_filters


@pytest.mark.parametrize("kind", FILTERS)
async def test_a_paused_job_is_resumed_by_those_who_may_see_what_its_filters_name(library, kind):
    job = await start(library, database="library", table="papers", filters=FILTERS[kind], config={"column": "title"})
    await control.pause(library, "library", job.id, actor=CURATOR)
    with pytest.raises(NotAllowed, match=f"The filters of job {job.id} name what you may not see"):
        await control.resume(library, "library", job.id, actor=CURATOR)
    assert (await control.resume(library, "library", job.id, actor=ROOT)).status == "pending"


async def test_a_filter_whose_table_is_gone_is_roots(library, open_ds):
    job_id = await finished(library, FILTERS["through"])
    await library.databases["library"].execute_write("drop table tags")
    opened = await open_ds({"plugins": CONFIG["plugins"]}, paths=[library.databases["library"].path])
    assert (await queries.find(opened, "library", job_id, actor=CURATOR)).hides_filters
    assert not (await queries.find(opened, "library", job_id, actor=ROOT)).hides_filters
    assert (await get(opened, "/library/_enrichment_jobs.json", CURATOR)).status_code == 403


@pytest.mark.parametrize("filters", ["id__gte=1", "title__isnull=1", "_row=1&_row=2", ""])
async def test_filters_of_the_table_itself_are_for_all_who_see_its_jobs(library, filters):
    job_id = await finished(library, filters)
    found = await queries.find(library, "library", job_id, actor=CURATOR)
    assert (found.filter_querystring, found.hides_filters) == (filters, False)
    assert (await control.retry(library, "library", job_id, actor=CURATOR)).row_count == 1
    assert (await get(library, "/library/_enrichment_jobs.json", CURATOR)).status_code == 200


async def test_whoever_may_neither_see_a_job_nor_its_errors_finds_no_rows_by_it(library, open_ds):
    job_id = await finished(library, "id__gte=1")
    await start(library, database="library", table="tags", config={"column": "codename"})  # closes what they share
    for name in ("_ingest_failed", "_ingest_retry"):
        known = await get(library, f"/library/papers.json?{name}={job_id}", None)
        never = await get(library, f"/library/papers.json?{name}=99", None)
        assert (known.status_code, never.status_code) == (400, 400)
        assert known.text.replace(f"={job_id}", "=99") == never.text
        assert (await get(library, f"/library/papers.json?{name}={job_id}", CURATOR)).status_code == 200
    # the outcome itself stands in the table, which everybody may read
    by_word = f"/library/papers.json?_ingest_status=success&_ingest_job={job_id}&_shape=array"
    assert [row["id"] for row in (await get(library, by_word, None)).json()] == [1, 3]
