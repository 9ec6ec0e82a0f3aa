"""Datasets as a wanted type: of a request, of a job over a table, of the command line."""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
import sqlite3
from typing import Any

import click
import pytest

from datasette_ingest.cli.url import explanation, url
from datasette_ingest.ingest import schema, store
from datasette_ingest.ingest.enrichment import IngestConfig
from datasette_ingest.ingest.errors import NOT_TRIED, SUCCESS, RetryClass
from datasette_ingest.ingest.facts import FileMeta
from datasette_ingest.ingest.model import CandidateOutcome, FileEntry, Fileset, IngestRequest, IngestResult, Terminal
from datasette_ingest.ingest.types import INGEST_TYPES, tables_of
from datasette_ingest.jobs.model import JobStatus

from ...conftest import rows, serving
from ..enrichment.test_jobs import QUICK, ingest, table
from ..origin import Origin, html, pdf, reply
from ..store.test_results import NOW

TABLE = b"a,b\n1,2\n"
SHA1 = hashlib.sha1(TABLE).hexdigest()


def described(*names: str) -> str:
    files = [{"@type": "DataDownload", "contentUrl": name, "encodingFormat": "text/csv"} for name in names]
    node = {"@type": "Dataset", "identifier": "doi:10.5072/x", "distribution": files}
    return f'<script type="application/ld+json">{json.dumps(node)}</script>'


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "data.db"


# A type among the others


def test_only_the_dataset_has_a_table_of_its_own() -> None:
    assert {name: tables_of(name) for name in INGEST_TYPES if tables_of(name)} == {"dataset": ("ingest_fileset",)}
    assert tables_of("file") == tables_of("hologram") == ()


def test_the_form_and_the_command_line_offer_it() -> None:
    assert IngestConfig(url_column="url", ingest_type="dataset").ingest_type == "dataset"
    assert IngestConfig.model_json_schema()["properties"]["ingest_type"]["enum"] == ["pdf", "xml", "html", "dataset"]
    (option,) = [parameter for parameter in url.params if parameter.name == "ingest_type"]
    assert isinstance(option.type, click.Choice) and "dataset" in option.type.choices


# A table of datasets


async def test_a_job_writes_each_dataset_with_its_files(path: pathlib.Path) -> None:
    site_files: dict[str, Any] = {
        "/d": html(described("/a.csv", "/gone.csv")),
        "/a.csv": reply(TABLE, content_type="text/csv"),
        "/empty": html("", "<h1>No data here</h1><p>" + "words " * 60),
    }
    async with Origin(site_files) as site:
        table(path, [site.url("/d"), site.url("/empty"), None])
        async with serving(path, plugin=QUICK) as datasette:
            job = await ingest(datasette, ingest_type="dataset")
    assert (job.status, job.error_count) == (JobStatus.FINISHED, 0)
    assert job.outcomes == {"success": 1, "no-platform-match": 1, "invalid-url": 1}
    ((platform, platform_id, count, size, manifest),) = rows(
        path, "select platform, platform_id, file_count, total_size, manifest from ingest_fileset"
    )
    assert (platform, platform_id, count, size) == ("json-ld", "doi:10.5072/x", 2, None)
    assert [(file["path"], file["status"], file.get("sha1hex")) for file in json.loads(manifest)] == [
        ("a.csv", "success", SHA1),
        ("gone.csv", "terminal-bad-status", None),
    ]
    assert rows(path, "select sha1hex, size_bytes, mimetype from file_meta") == [(SHA1, len(TABLE), "text/plain")]
    assert rows(path, "select hit, terminal_sha1hex, warnings from ingest_file_result where status = 'success'") == [
        (1, None, '["terminal-bad-status"]')
    ]


async def test_a_type_column_may_ask_for_a_dataset_in_one_row_and_a_paper_in_another(path: pathlib.Path) -> None:
    async with Origin({"/d": html(described("/a.csv")), "/a.csv": reply(TABLE), "/p.pdf": pdf()}) as site:
        table(path, [site.url("/d"), site.url("/p.pdf")], ", kind text")
        with contextlib.closing(sqlite3.connect(path)) as conn, conn:
            conn.execute("update papers set kind = 'dataset' where id = 1")
        async with serving(path, plugin=QUICK) as datasette:
            job = await ingest(datasette, type_column="kind")
    assert job.outcomes == {"success": 2}
    assert rows(path, "select count(*) from ingest_fileset") == [(1,)]


async def test_a_job_for_papers_makes_no_table_of_datasets(path: pathlib.Path) -> None:
    async with Origin({"/p.pdf": pdf()}) as site:
        table(path, [site.url("/p.pdf")])
        async with serving(path, plugin=QUICK) as datasette:
            await ingest(datasette)
    assert rows(path, "select count(*) from sqlite_master where name = 'ingest_fileset'") == [(0,)]


# What is stored


META = FileMeta("a" * 40, "b" * 64, "c" * 32, 8, "text/plain")
FILESET = Fileset(
    "zenodo",
    "71",
    (
        FileEntry("a.csv", "https://h/a.csv", 8, {}, "text/csv", SUCCESS, "a" * 40),
        FileEntry("b.csv", "https://h/b.csv"),
    ),
    (META,),
)


def result(status: str = SUCCESS, *, fileset: Fileset | None = FILESET, **fields: Any) -> IngestResult:
    return IngestResult(IngestRequest("dataset", "https://h/71"), status == SUCCESS, status, fileset=fileset, **fields)


@pytest.fixture
def conn() -> Any:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        schema.migrate(connection, (*schema.RESULT_TABLES, *schema.FILESET_TABLES))
        yield connection


def stored(conn: sqlite3.Connection) -> list[Any]:
    return conn.execute("select ingest_type, base_url, platform, file_count, total_size from ingest_fileset").fetchall()


def test_the_last_list_replaces_the_one_before(conn: sqlite3.Connection) -> None:
    store.write(conn, result(), job_id=1, now=NOW)
    assert stored(conn) == [("dataset", "https://h/71", "zenodo", 2, None)]
    store.write(conn, result(fileset=Fileset("zenodo", "71", FILESET.files[:1])), job_id=1, now=NOW)
    assert stored(conn) == [("dataset", "https://h/71", "zenodo", 1, 8)]
    assert conn.execute("select sha1hex from file_meta").fetchall() == [("a" * 40,)]


def test_a_failure_that_may_pass_leaves_the_list_and_one_that_may_not_takes_it_away(conn: sqlite3.Connection) -> None:
    store.write(conn, result(), job_id=1, now=NOW)
    store.write(conn, result("platform-404", fileset=None, next_try_class=RetryClass.LATER), job_id=2, now=NOW)
    assert stored(conn) == [("dataset", "https://h/71", "zenodo", 2, None)]
    store.write(conn, result("platform-scope", fileset=None), job_id=3, now=NOW)
    assert stored(conn) == []


def test_a_miss_keeps_the_list_that_was_read(conn: sqlite3.Connection) -> None:
    store.write(conn, result("platform-restricted"), job_id=1, now=NOW)
    assert stored(conn) == [("dataset", "https://h/71", "zenodo", 2, None)]


def test_the_largest_sizes_still_fit(conn: sqlite3.Connection) -> None:
    files = tuple(FileEntry(str(n), "https://h/a", 2**49) for n in range(10_000))
    store.write(conn, result(fileset=Fileset("zenodo", None, files)), job_id=1, now=NOW)
    assert stored(conn)[0][4] == 10_000 * 2**49


# For a person


def test_explain_shows_the_files_as_a_table() -> None:
    lines = explanation(result()).splitlines()
    assert lines[-4] == "Files (zenodo, 71): 2 files"
    assert lines[-3].split() == ["outcome", "bytes", "checksum", "file", "URL"]
    assert lines[-2].split() == [SUCCESS, "8", "a.csv", "https://h/a.csv"]
    assert lines[-1].split() == [NOT_TRIED, "b.csv", "https://h/b.csv"]


def test_the_manual_shows_what_explain_prints_and_its_query_runs(conn: sqlite3.Connection) -> None:
    page = (pathlib.Path(__file__).resolve().parents[3] / "docs" / "datasets.md").read_text("utf-8")
    host, name = "https://data.example.org", "doi:10.5072/FK2/TIDES"
    landing = f"{host}/dataset.xhtml?persistentId={name}"
    api = f"{host}/api/datasets/:persistentId/?persistentId=doi%3A10.5072%2FFK2%2FTIDES"
    contents = {"README.txt": b"Read it all\n", "data/levels.csv": b"n,species\n1"}
    urls = [f"{host}/api/access/datafile/{number}" for number in (7001, 7002)]
    files = tuple(
        FileEntry(path, url, len(data), {"md5": hashlib.md5(data).hexdigest()}, status=SUCCESS)
        for url, (path, data) in zip(urls, contents.items(), strict=True)
    )
    found = result(
        fileset=Fileset("dataverse", name, files),
        hops=("https://doi.org/10.5072/fk2/tides", landing, api, *urls),
        terminal=Terminal(landing, status_code=200),
        candidates=(CandidateOutcome(1, api, "dataverse-api", SUCCESS, 200),),
    )
    assert f"```\n{explanation(found)}\n```\n" in page
    store.write(conn, found, job_id=1, now=NOW)
    query = page.partition("```sql\n")[2].partition("```")[0]
    assert conn.execute(query).fetchall() == [
        ("https://h/71", "README.txt", 12, SUCCESS),
        ("https://h/71", "data/levels.csv", 11, SUCCESS),
    ]


def test_explain_names_the_warnings_beside_a_hit() -> None:
    assert explanation(result(warnings=("mismatch", "timeout"))).splitlines()[1] == "but: mismatch, timeout"


def test_explain_shortens_names_from_the_front() -> None:
    long = Fileset("zenodo", None, (FileEntry("folder/" * 20 + "end.csv", "https://h/a", 1),))
    *_, about, _, line = explanation(result(fileset=long)).splitlines()
    assert about == "Files (zenodo): 1 file, 1 byte"
    assert "…" in line and "/end.csv  https://h/a" in line
