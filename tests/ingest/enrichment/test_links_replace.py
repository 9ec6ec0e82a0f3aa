"""Replacing the addresses of links that have moved: what is written, what never is, and that nothing is lost."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
from typing import Any

import pytest

from datasette_ingest.ingest.enrichment.links_config import ReplaceConfig
from datasette_ingest.ingest.enrichment.links_replace import replacement, replacing
from datasette_ingest.ingest.store.links import StoredLink
from datasette_ingest.jobs import registry
from datasette_ingest.jobs.model import StartRequest
from datasette_ingest.jobs.service import control, dry_run, permissions, queries
from datasette_ingest.testing import run_until_idle

from ...conftest import ROOT, rows, serving
from ..linkcheck.site import Site

QUICK = {"allow_networks": ["127.0.0.0/8"], "per_host_delay": 0, "timeout": 2, "deadline": 5}
OLD, NEW = "http://a.example/old", "https://a.example/new"


def moved(url: str | None, status: str = "moved") -> StoredLink:
    return StoredLink("2026-01-01T00:00:00Z", status, url, 200, None, None, None, 1, None, 1)


@pytest.mark.parametrize(
    "cell, link, word, new",
    [
        (OLD, moved(NEW), "replaced", NEW),
        (f" {OLD}\n", moved(NEW), "replaced", NEW),
        (OLD, moved("https://b.example/new"), "replaced", "https://b.example/new"),
        (OLD, moved(NEW, "redirected"), "not moved", None),
        (OLD, moved(NEW, "dead"), "not moved", None),
        (NEW, moved(NEW), "not moved", None),
        (OLD, None, "not checked", None),
        ("10.1234/abc", moved(NEW), "not moved", None),
        (b"http://a.example/old", moved(NEW), "not moved", None),
        ("http://me:secret@a.example/old", moved(NEW), "to be done by hand", None),
        (OLD, moved("https://***@a.example/new"), "to be done by hand", None),
        (OLD, moved("https://me:secret@a.example/new"), "to be done by hand", None),
        (OLD, moved(f"{NEW};jsessionid=1F"), "to be done by hand", None),
        (OLD, moved(f"{NEW}?X-Amz-Signature=ab"), "to be done by hand", None),
        (OLD, moved(f"{NEW}?access_token=ab"), "to be done by hand", None),
        (f"{OLD}?token=x", moved(f"{NEW}?token=x"), "replaced", f"{NEW}?token=x"),
    ],
)
def test_what_is_done_with_a_row(cell: Any, link: StoredLink | None, word: str, new: str | None) -> None:
    assert replacement(cell, link, ReplaceConfig(url_column="url")) == (word, new)


def test_a_new_host_can_be_left_to_a_person() -> None:
    config = ReplaceConfig(url_column="url", hosts_may_change=False)
    assert replacement(OLD, moved("https://b.example/new"), config) == ("to be done by hand", None)
    assert replacement(OLD, moved("https://www.a.example/new"), config)[0] == "replaced"


async def run(datasette: Any, slug: str, **config: Any) -> Any:
    request = StartRequest("papers", slug, "", {"url_column": "url", **config}, actor=ROOT)
    job = await control.start(datasette, "data", request)
    await run_until_idle(datasette)
    return await queries.find(datasette, "data", job.id, actor=ROOT)


KEYS = {
    "a number": ("id integer primary key, url text", "url", 1),
    "a text": ("id text primary key, url text", "id, url", 2),
    "two columns": ("a text, b integer, url text, primary key (a, b)", "a, b, url", 3),
    "no key": ("url text, note text", "url", 1),
    "without rowid": ("id text primary key, url text", "id, url", 2, "without rowid"),
}


@pytest.mark.parametrize("kind", KEYS)
async def test_links_that_moved_are_replaced_and_the_old_ones_kept(tmp_path: pathlib.Path, kind: str) -> None:
    path = tmp_path / "data.db"
    columns, names, width, *more = KEYS[kind]
    async with Site() as site:
        links = [f"http://127.0.0.1:{site.port}{one}" for one in ("/301", "/302", "/page", "/301#here", "/404")]
        with contextlib.closing(sqlite3.connect(path)) as conn, conn:
            conn.execute(f"create table papers ({columns}) {' '.join(more)}")
            marks = ", ".join("?" * width)
            for number, link in enumerate(links):
                conn.execute(
                    f"insert into papers ({names}) values ({marks})", [*[f"k{number}", number][: width - 1], link]
                )
        async with serving(path, plugin=QUICK) as datasette:
            await run(datasette, "links")
            papers = await permissions.require_table(datasette, ROOT, "data", "papers")
            enrichment = await registry.enrichment(datasette, "links-replace")
            tried = await dry_run.run(
                datasette, papers, enrichment=enrichment, config={"url_column": "url"}, actor=ROOT
            )
            assert rows(path, "select url from papers") == [(link,) for link in links], "a dry run changes nothing"
            job = await run(datasette, "links-replace")
            again = await run(datasette, "links-replace")
    page = links[2]
    assert tried.rows[0].values == {"url": page, "url_before": links[0]}
    assert (job.error_count, job.outcomes) == (0, {"replaced": 2, "not moved": 3})
    assert rows(path, "select url, url_before from papers") == [
        (page, links[0]),
        (links[1], None),
        (page, None),
        (f"{page}#here", links[3]),
        (links[4], None),
    ]
    assert again.outcomes == {"not moved": 4, "not checked": 1}


async def test_a_link_that_was_changed_after_the_check_stays(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.db"
    async with Site() as site:
        old = f"http://127.0.0.1:{site.port}/301"
        with contextlib.closing(sqlite3.connect(path)) as conn, conn:
            conn.execute("create table papers (id integer primary key, url text)")
            conn.executemany("insert into papers (url) values (?)", [(old,), (old,)])
        async with serving(path, plugin=QUICK) as datasette:
            await run(datasette, "links")
            with contextlib.closing(sqlite3.connect(path)) as conn, conn:
                conn.execute("update papers set url = 'http://mine.example/' where id = 1")
                conn.execute(
                    "create trigger meanwhile before insert on _enrichment_batches begin "
                    "update papers set url = 'http://also-mine.example/' where id = 2; end"
                )
            job = await run(datasette, "links-replace")
    assert rows(path, "select url from papers order by id") == [
        ("http://mine.example/",),
        ("http://also-mine.example/",),
    ]
    assert job.outcomes.get("replaced", 0) == 0


def test_the_write_itself_refuses_a_cell_that_is_not_what_was_read() -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        conn.execute("create table papers (id integer primary key, url text)")
        conn.execute("insert into papers values (1, 'http://mine.example/')")
        with pytest.raises(ValueError, match="changed since it was read"):
            replacing("papers", ReplaceConfig(url_column="url"), 1, OLD, NEW)(conn)
        assert conn.execute("select url from papers").fetchall() == [("http://mine.example/",)]


async def test_the_first_of_several_old_links_is_kept(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.db"
    async with Site() as site:
        old = f"http://127.0.0.1:{site.port}/301"
        with contextlib.closing(sqlite3.connect(path)) as conn, conn:
            conn.execute("create table papers (id integer primary key, url text, url_before text)")
            conn.execute("insert into papers (url, url_before) values (?, 'http://oldest.example/')", [old])
        async with serving(path, plugin=QUICK) as datasette:
            await run(datasette, "links")
            await run(datasette, "links-replace")
    assert rows(path, "select url, url_before from papers") == [
        (f"http://127.0.0.1:{site.port}/page", "http://oldest.example/")
    ]
