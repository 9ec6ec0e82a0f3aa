"""What is read from the files is the same in two databases: of a local run, and of one over the fleet."""

from __future__ import annotations

import pathlib
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from datasette_ingest.ingest.remote import messages
from datasette_ingest.jobs.model import JobStatus

from ...conftest import serving
from ..documents import pdfs
from ..documents.test_html import ARTICLE as PAGE
from ..documents.test_html import WORK
from ..documents.test_xml import ARTICLE as DOCUMENT
from ..origin import Origin, html, pdf, redirect, reply
from .brokers import Broker
from .test_jobs import at_work, contents, ended, fleet, plugin, start

pytestmark = [pytest.mark.processors, pytest.mark.slow]

LONG = pdfs.pdf(*("\n".join(f"Heron {page} {line} at the lake" for line in range(40)) for page in range(30)))
HANDLERS = {
    "/p.pdf": pdf(pdfs.pdf("Herons at the lake", "Second page", info={"Title": "Herons"})),
    "/long.pdf": pdf(LONG),
    "/broken.pdf": pdf(b"%PDF-1.4\nnothing\n%%EOF"),
    "/landing": html('<meta name="citation_pdf_url" content="/p.pdf"><meta name="citation_title" content="Herons">'),
    "/x.xml": reply(DOCUMENT, content_type="application/xml"),
    "/broken.xml": reply(b"<?xml version='1.0'?><article><p>no end", content_type="application/xml"),
    "/page": html(WORK, PAGE),
    "/moved": redirect("/page"),
    "/nothing": html("<p>no link</p>"),
}
WANTED = [
    *(("pdf", path) for path in ("/p.pdf", "/long.pdf", "/broken.pdf", "/landing", "/nothing", "/gone", "/page")),
    *(("xml", path) for path in ("/x.xml", "/broken.xml", "/nothing")),
    *(("html", path) for path in ("/page", "/moved", "/nothing", "/p.pdf")),
]


def kept(store: pathlib.Path) -> dict[str, bytes]:
    return {each.relative_to(store).as_posix(): each.read_bytes() for each in store.rglob("*") if each.is_file()}


@pytest.mark.parametrize(("prefix", "room"), [("", messages.MAX_RESULT_BYTES), ("lake_", 20_000)])
async def test_words_pictures_and_facts_are_those_of_a_local_run(
    broker: Broker, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, prefix: str, room: int
) -> None:
    monkeypatch.setattr(messages, "MAX_RESULT_BYTES", room)
    kafka = broker.settings()
    found: dict[str, tuple[Any, ...]] = {}
    async with Origin(HANDLERS) as site:
        for run_on in ("local", "kafka"):
            path, store = tmp_path / run_on / "data.db", tmp_path / f"store-{run_on}"
            path.parent.mkdir()
            with closing(sqlite3.connect(path)) as conn, conn:
                conn.execute("create table papers (id integer primary key, url text, kind text)")
                conn.executemany(
                    "insert into papers (url, kind) values (?, ?)", [(site.url(each), kind) for kind, each in WANTED]
                )
            given = plugin(kafka, store=str(store))
            async with (
                serving(path, plugin=given) as datasette,
                at_work(datasette),
                fleet(kafka, store=str(store)),
            ):
                job = await start(datasette, run_on=run_on, type_column="kind", table_prefix=prefix)
                done = await ended(datasette, job)
            assert (done.status, done.error_count) == (JobStatus.FINISHED, 0)
            found[run_on] = (done.outcomes, contents(path), kept(store))
    local, remote = found["local"], found["kafka"]
    assert local[0] == remote[0]
    words = f"{prefix}ingest_fulltext"
    for _, tables, _ in (local, remote):
        tables[words] = sorted(
            row[1:] for row in tables[words]
        )  # their numbers are those of the order in which they came
        assert len(tables[words]) >= 4 and len(tables[f"{prefix}ingest_thumbnail"]) == 2
    for name in local[1].keys() | remote[1].keys():
        assert remote[1].get(name) == local[1].get(name), name
    assert local[2].keys() == remote[2].keys()
    assert local[2] == remote[2]
