"""A table of URLs becomes a table of results: the ingest job as a whole, over real Datasette instances."""

import contextlib
import hashlib
import json
import sqlite3
from types import SimpleNamespace

import pytest

from datasette_ingest import compat, settings
from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.enrichment import IngestConfig, IngestEnrichment
from datasette_ingest.ingest.enrichment.session import Sessions
from datasette_ingest.ingest.enrichment.sql import guess_url_column
from datasette_ingest.jobs import registry
from datasette_ingest.jobs.errors import BadConfig, IllegalTransition
from datasette_ingest.jobs.model import JobStatus, StartRequest
from datasette_ingest.jobs.service import control, failures, permissions, queries, validation
from datasette_ingest.testing import run_until_idle

from ...conftest import ROOT, rows, serving
from ..origin import Origin, html, pdf, redirect, reply
from ..rerouted import Rerouted
from ..test_articles import BMC, ELIFE, PLOS, handlers_of, resolve_to_loopback

QUICK = {"allow_networks": ["127.0.0.0/8"], "per_host_delay": 0, "robots": "ignore", "timeout": 2, "deadline": 5}


def table(path, urls, more=""):
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute(f"create table papers (id integer primary key, url text {more})")
        conn.executemany("insert into papers (url) values (?)", [(url,) for url in urls])


async def ingest(datasette, filters="", **config):
    job = await control.start(
        datasette, "data", StartRequest("papers", enrichment="ingest", filters=filters, config=config, actor=ROOT)
    )
    await run_until_idle(datasette)
    return await queries.find(datasette, "data", job.id, actor=ROOT)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.db"


async def test_each_rows_columns_agree_with_the_table_of_results(path):
    async with Origin({"/p.pdf": pdf(), "/a": html('<meta name="citation_pdf_url" content="/p.pdf">')}) as site:
        urls = [site.url("/p.pdf"), site.url("/a"), site.url("/missing"), None, "", "   ", "n/a", "10.1234"]
        table(path, urls)
        async with serving(path, plugin=QUICK) as datasette:
            job = await ingest(datasette)
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 8, 0)
    assert job.outcomes == {"success": 2, "terminal-bad-status": 1, "invalid-url": 5}
    columns = "ingest_hit, ingest_status, ingest_terminal_url, ingest_terminal_dt, ingest_terminal_status_code, ingest_terminal_sha1hex"
    on_rows = rows(path, f"select url, {columns} from papers where trim(coalesce(url, '')) <> '' order by url")
    in_table = rows(
        path, f"select base_url, {columns.replace('ingest_', '')} from ingest_file_result order by base_url"
    )
    assert on_rows == in_table and len(in_table) == 5
    assert (
        rows(path, "select ingest_hit, ingest_status, ingest_terminal_url from papers where id in (4, 5, 6)")
        == [(0, "invalid-url", None)] * 3
    )
    assert rows(path, "select count(*) from file_meta where mimetype = 'application/pdf'") == [(1,)]
    assert rows(path, "select rank, rule, outcome from ingest_candidate") == [(1, "citation_pdf_url", "success")]


async def test_the_types_of_the_columns_hold_what_they_are_given(path):
    async with Origin({"/p.pdf": pdf()}) as site:
        table(path, [None, site.url("/p.pdf")])
        async with serving(path, plugin=QUICK) as datasette:
            await ingest(datasette)
    kinds = dict(rows(path, "select name, lower(type) from pragma_table_info('papers') where name like 'ingest_%'"))
    assert kinds["ingest_hit"] == kinds["ingest_terminal_status_code"] == "integer"
    assert {kind for name, kind in kinds.items() if name not in ("ingest_hit", "ingest_terminal_status_code")} == {
        "text"
    }


@pytest.mark.parametrize("kind", ["pdf", "xml"])
async def test_real_articles_from_a_table_end_with_the_digest_of_their_file(path, fixtures, kind):
    table(path, [BMC, PLOS, *([ELIFE] if kind == "xml" else [])])
    names = [f"bmc.{kind}", f"plos_pbio_1001461.{kind}", *(["elife_00160.xml"] if kind == "xml" else [])]
    async with (
        Origin(handlers_of(fixtures)) as site,
        serving(path, plugin={"per_host_delay": 0, "robots": "ignore"}) as datasette,
    ):
        enrichment = IngestEnrichment(
            settings.Settings(per_host_delay=0, robots="ignore", allow_networks=("127.0.0.0/8",)),
            make_crawler=lambda chosen, **shared: Crawler(
                chosen, transport=Rerouted(resolve_to_loopback, site.port), **shared
            ),
        )
        (await registry.enrichments(datasette))["ingest"] = enrichment
        job = await ingest(datasette, ingest_type=kind)
    assert job.outcomes == {"success": len(names)}
    digests = [hashlib.sha1((fixtures / "articles" / name).read_bytes()).hexdigest() for name in names]
    assert rows(path, "select ingest_terminal_sha1hex from papers order by id") == [(digest,) for digest in digests]
    sizes = sorted((fixtures / "articles" / name).stat().st_size for name in names)
    assert [size for (size,) in rows(path, "select size_bytes from file_meta order by 1")] == sizes


async def test_a_young_result_is_used_again_and_force_recrawl_asks_again(path):
    async with Origin({"/p.pdf": pdf()}) as site:
        table(path, [site.url("/p.pdf")])
        async with serving(path, plugin=QUICK) as datasette:
            await ingest(datasette)
            assert (await ingest(datasette)).outcomes == {"success": 1}
            assert site.targets == ["/p.pdf"]
            await ingest(datasette, force_recrawl=True)
            await ingest(datasette, max_age_days=0)
    assert site.targets == ["/p.pdf"] * 3
    assert rows(path, "select attempts, job_id from ingest_file_result") == [(1, 4)]


async def test_a_failure_that_may_pass_hides_no_hit_on_the_row_or_in_the_table(path):
    async with Origin({"/p.pdf": pdf()}) as site:
        table(path, [site.url("/p.pdf")])
        async with serving(path, plugin=QUICK) as datasette:
            await ingest(datasette)
            before = rows(path, "select * from papers")
            site.handlers["/p.pdf"] = reply(status="503 Busy")
            job = await ingest(datasette, force_recrawl=True)
    assert rows(path, "select * from papers") == before and job.outcomes == {"success": 1}
    [(hit, status, message, attempts)] = rows(
        path, "select hit, status, error_message, attempts from ingest_file_result"
    )
    assert (hit, status, attempts) == (1, "success", 1) or (hit, status, attempts) == (1, "success", 2)
    assert "503" in message


async def test_a_type_column_decides_row_by_row(path):
    page = "<h1>x</h1>" + "<h2>Introduction</h2><h2>Methods</h2><h2>References</h2>" + "<p>" + "word " * 400 + "</p>"
    async with Origin({"/p.pdf": pdf(), "/h": html("", page)}) as site:
        table(path, [site.url("/p.pdf"), site.url("/h"), site.url("/h"), site.url("/p.pdf")], ", wanted text")
        with contextlib.closing(sqlite3.connect(path)) as conn, conn:
            conn.executemany(
                "update papers set wanted = ? where id = ?", [("file", 1), ("HTML", 2), (None, 3), ("ogg", 4)]
            )
        async with serving(path, plugin=QUICK) as datasette:
            await ingest(datasette, type_column="wanted")
    assert rows(path, "select ingest_status from papers order by id") == [
        ("success",),
        ("success",),
        ("no-pdf-link",),
        ("not-implemented",),
    ]


async def test_source_columns_record_who_asked_and_the_views_join(path):
    async with Origin({"/p.pdf": pdf()}) as site:
        table(path, [site.url("/p.pdf"), site.url("/none")], ", src text default 'doi', sid text default '10.1/x'")
        async with serving(path, plugin=QUICK) as datasette:
            await ingest(datasette, source_column="src", source_id_column="sid", doi_column="sid")
    assert rows(path, "select source, source_id, actor, request from ingest_request order by base_url")[0] == (
        "doi",
        "10.1/x",
        "root",
        json.dumps({"ext_ids": {"doi": "10.1/x"}}),
    )
    assert rows(path, "select count(*) from ingest_hits") == [(1,)]
    assert rows(path, "select count(*) from ingest_pending") == [(0,)]


async def test_results_go_beside_the_table_or_nowhere_else_when_asked(path):
    async with Origin({"/p.pdf": pdf()}) as site:
        table(path, [site.url("/p.pdf")])
        async with serving(path, plugin=QUICK) as datasette:
            await ingest(datasette, output="none")
            await ingest(datasette, output="shadow")
    assert [name for (name,) in rows(path, "select name from pragma_table_info('papers')")] == ["id", "url"]
    assert rows(path, "select id, ingest_status from _enrichments_papers") == [(1, "success")]


async def test_due_misses_are_tried_again_by_retry(path):
    async with Origin({"/p.pdf": reply(status="503 Busy"), "/q.pdf": pdf()}) as site:
        table(path, [site.url("/p.pdf"), site.url("/q.pdf"), None])
        async with serving(path, plugin=QUICK) as datasette:
            job = await ingest(datasette)
            with pytest.raises(IllegalTransition):
                await control.retry(datasette, "data", job.id, actor=ROOT)
            await datasette.get_database("data").execute_write(
                "update ingest_file_result set next_try = '2000-01-01T00:00:00Z' where hit = 0"
            )
            site.handlers["/p.pdf"] = pdf()
            again = await control.retry(datasette, "data", job.id, actor=ROOT)
            assert again.row_count == 1
            await run_until_idle(datasette)
    assert rows(path, "select ingest_status from papers order by id") == [("success",), ("success",), ("invalid-url",)]


async def test_misses_may_be_fetched_again_before_their_time(path):
    async with Origin({"/p.pdf": reply(status="503 Busy")}) as site:
        table(path, [site.url("/p.pdf")])
        async with serving(path, plugin=QUICK) as datasette:
            job = await ingest(datasette)
            site.handlers["/p.pdf"] = pdf()
            await control.retry(datasette, "data", job.id, actor=ROOT, scope="misses")
            await run_until_idle(datasette)
    assert rows(path, "select ingest_status from papers") == [("success",)]


async def test_a_cell_that_is_not_text_or_not_unicode_has_its_answer(path):
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("create table papers (id integer primary key, url)")
        conn.execute("insert into papers (url) values (42), (3.5), (x'fffe'), (cast(x'fffe' as text))")
    async with serving(path, plugin=QUICK) as datasette:
        job = await ingest(datasette, url_column="url")
    assert job.outcomes == {"invalid-url": 4} and job.error_count == 0
    assert rows(path, "select count(*) from ingest_file_result where status = 'invalid-url'")[0][0] >= 3


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"url_column": "nope"}, "has no column 'nope'; its columns are id, url"),
        ({"ingest_type": "ogg"}, "unknown type 'ogg'; types are dataset, html, pdf, xml"),
        ({"max_age_days": -1}, "write 0 or more"),
        ({"prefix": "1; drop"}, "begins with a letter"),
        ({"prefix": ""}, "begins with a letter"),
        ({"colour": "red"}, "colour: there is no such setting"),
        ({"source_column": "url"}, "go together"),
        ({"output": "everywhere"}, "output"),
    ],
)
async def test_a_setting_that_cannot_be_is_refused_by_its_name(path, config, says):
    table(path, ["http://x.example/"])
    async with serving(path, plugin=QUICK) as datasette:
        with pytest.raises(BadConfig, match=says):
            await ingest(datasette, **config)
    assert rows(path, "select name from sqlite_master") == [("papers",)]


async def test_a_column_of_somebody_elses_that_results_would_overwrite_is_refused(path):
    table(path, ["http://x.example/"], ", ingest_status text")
    async with serving(path, plugin=QUICK) as datasette:
        with pytest.raises(BadConfig, match="choose another prefix"):
            await ingest(datasette)
        papers = await permissions.require_table(datasette, ROOT, "data", "papers")
        enrichment = IngestEnrichment(settings.Settings())
        config, _ = await validation.check_settings(datasette, enrichment, papers, {"prefix": "ft_"}, {})
    assert config.prefix == "ft_"


@pytest.mark.parametrize(
    ("columns", "cells", "guess"),
    [
        ("a, b", [("x", "http://x.example/1"), ("y", "http://x.example/2")], "b"),
        ("doi, title", [("10.1234/abc", "A title"), (None, "Another")], "doi"),
        ("home, url", [("http://h.example/", "http://x.example/"), ("http://h.example/", "http://y.example/")], "url"),
        ("a, url", [], "url"),
        ("a, b", [("x", "y")], None),
    ],
)
def test_the_url_column_is_guessed_from_values_then_names(columns, cells, guess):
    conn = sqlite3.connect(":memory:")
    conn.execute(f"create table t ({columns})")
    conn.executemany(f"insert into t values ({', '.join('?' * (columns.count(',') + 1))})", cells)
    assert guess_url_column(conn, "t") == guess


async def test_the_same_url_in_many_rows_is_fetched_once(path):
    async with Origin({"/old": redirect("/p.pdf"), "/p.pdf": pdf()}) as site:
        table(path, [site.url("/old")] * 50)
        async with serving(path, plugin=QUICK) as datasette:
            job = await ingest(datasette)
    assert job.outcomes == {"success": 50}
    assert len(site.targets) <= 4


def test_the_config_renders_without_a_live_server():
    schema = IngestConfig.model_json_schema()
    assert schema["properties"]["url_column"]["widget"] == "column"
    assert compat.ENRICH_ACTION == "enrich-table"


async def test_a_retry_finds_the_misses_of_rows_that_use_an_old_name_of_a_type(path):
    async with Origin({}) as site:
        table(path, [site.url("/gone.pdf")], ", wanted text")
        with contextlib.closing(sqlite3.connect(path)) as conn, conn:
            conn.execute("update papers set wanted = ' File '")
        async with serving(path, plugin=QUICK) as datasette:
            job = await ingest(datasette, type_column="wanted")
            again = await control.retry(datasette, "data", job.id, actor=ROOT, scope="misses")
    assert again.row_count == 1


async def test_beside_a_users_own_tables_results_live_under_a_prefix(path):
    async with Origin({"/p.pdf": pdf()}) as site:
        table(path, [site.url("/p.pdf"), site.url("/gone")], ", message text")
        mine = ("ingest_file_result", "ingest_candidate", "file_meta", "ingest_request", "html_meta")
        with contextlib.closing(sqlite3.connect(path)) as conn, conn:
            for name in mine:
                conn.execute(
                    f"create table {name} (base_url text, ingest_type text, hit, next_try, terminal_url, mine)"
                )
                conn.execute(f"insert into {name} values ('{site.url('/p.pdf')}', 'pdf', 1, null, 'mine', 'mine')")
        chosen = {"table_prefix": "x_", "output": "none"}
        async with serving(path, plugin=QUICK) as datasette:
            job = await ingest(datasette, **chosen)
            assert job.outcomes == {"success": 1, "terminal-bad-status": 1}
            assert (await ingest(datasette, **chosen)).outcomes == job.outcomes
            assert sorted(site.targets) == ["/gone", "/p.pdf"], "in no order, since both are asked for at once"
            db = datasette.get_database("data")
            query = await failures.failure_query(datasette, db, job, ROOT)
            [[key, url, _code, terminal, _due, outcome, _]] = [
                row async for page in failures.pages(db, query) for row in page
            ]
            assert (key, url, terminal, outcome) == (2, site.url("/gone"), site.url("/gone"), "terminal-bad-status")
            [report] = await failures.row_reports(datasette, db, "papers", "2", actor=ROOT, limit_ms=20_000, most=3)
            assert [each.table for each, _ in report.related] == ["x_ingest_file_result"]
            again = await control.retry(datasette, "data", job.id, actor=ROOT, scope="misses")
            assert again.row_count == 1
            table_ = await permissions.require_table(datasette, ROOT, "data", "ingest_request")
            await control.start_on(
                datasette,
                table_,
                StartRequest("ingest_request", "ingest", config={**chosen, "url_column": "base_url"}, actor=ROOT),
            )
            await run_until_idle(datasette)
    assert [rows(path, f"select mine from {name}") for name in mine] == [[("mine",)]] * len(mine)
    assert rows(path, "select hit from x_ingest_file_result order by 1") == [(0,), (1,)]


async def test_what_our_own_settings_refused_is_asked_again_once_they_allow_it(path):
    async with Origin({"/p.pdf": pdf()}) as site:
        table(path, [site.url("/p.pdf")])
        async with serving(path, plugin={**QUICK, "allow_networks": []}) as datasette:
            refused = await ingest(datasette)
        async with serving(path, plugin=QUICK) as datasette:
            allowed = await ingest(datasette)
    assert (refused.outcomes, allowed.outcomes) == ({"forbidden-address": 1}, {"success": 1})


async def test_a_rule_that_cannot_be_used_stops_datasette_at_its_start(path):
    table(path, [])
    rule = {"name": "ours", "place": "ancor", "key": "get-it"}
    with pytest.raises(settings.SettingsError, match="rules: 'ours': place must be one of"):
        async with serving(path, plugin={**QUICK, "rules": [rule]}):
            pass


@pytest.mark.parametrize("output", ["columns", "shadow", "none"])
async def test_the_misses_are_told_with_their_links_and_reasons_wherever_results_stand(path, output):
    async with Origin({"/p": pdf(), "/gone": reply(b"", status="404 Not Found")}) as site:
        table(path, [site.url("/p"), site.url("/gone"), None, " "])
        async with serving(path, plugin=QUICK) as datasette:
            job = await ingest(datasette, url_column="url", output=output)
            query = await failures.failure_query(datasette, datasette.get_database("data"), job, ROOT)
            found = [row async for page in failures.pages(datasette.get_database("data"), query) for row in page]
    assert query.names == ("id", "url", "code", "terminal_url", "next_try", "outcome", "message")
    assert [(row[0], row[1], row[5]) for row in found] == [
        (2, site.url("/gone"), "terminal-bad-status"),
        (3, None, "invalid-url"),
        (4, " ", "invalid-url"),
    ]
    assert found[0][2:4] == [404, site.url("/gone")] and "404" in found[0][6]


async def test_the_preview_looks_into_no_table_of_a_users_own(path, caplog):
    table(path, ["http://one.example/p.pdf"])
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("create table ingest_file_result (note text)")
    async with serving(path, plugin={"run_jobs": False}) as datasette:
        cookie = {"ds_actor": datasette.sign({"a": ROOT}, "actor")}
        page = await datasette.client.get("/-/ingest/data/papers/ingest", cookies=cookie)
    assert page.status_code == 200 and "one.example" in page.text
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_jobs_with_different_settings_have_crawlers_of_their_own_and_share_the_processes(monkeypatch):
    async def read(db, look):
        return False, {}, {}

    monkeypatch.setattr(compat, "read", read)
    sessions, db = Sessions(Crawler), SimpleNamespace(name="data")
    jobs = [SimpleNamespace(id=number, workers=1) for number in (1, 2, 3)]
    for job, timeout in zip(jobs, (2, 2, 3), strict=True):
        await sessions.begin(
            job, db, settings.load({**QUICK, "timeout": timeout}), 30.0, SimpleNamespace(table_prefix="")
        )
    one, same, other = (sessions.of(job, db).shared.crawler for job in jobs)
    assert one is same is not other
    assert one.pool is other.pool
    for job in jobs:
        await sessions.end(job, db)
