"""`schema` and `drop`."""

from __future__ import annotations

import contextlib
import json
import pathlib
import sqlite3

import jsonschema
import pytest
from click.testing import CliRunner
from datasette.cli import cli as datasette_cli

from ..conftest import rows
from ..ingest.load.kit import lines, request
from ..ingest.load.test_write import result
from .conftest import QUICK, Cli, tables

MIGRATIONS = {"_sqlite_migrations", "idx__sqlite_migrations_migration_set_name"}
"""What sqlite-utils makes, and other plugins use."""


@pytest.mark.parametrize(("name", "document"), [("request", request()), ("result", result())])
def test_a_schema_is_printed_that_takes_what_load_takes(cli: Cli, name: str, document: object) -> None:
    schema = json.loads(cli("schema", name).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({}, schema)


@pytest.fixture
def used(cli: Cli, papers: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """A database with requests, jobs, results and a shadow table, and a user's tables."""
    (path := tmp_path / "requests.jsonl").write_bytes(lines(request()))
    assert cli("load", papers, path, "--format", "jsonl").exit_code == 0
    assert cli("run", papers, "papers", *QUICK, "--set", "output=shadow").exit_code == 0
    with contextlib.closing(sqlite3.connect(papers)) as conn:
        conn.execute("create table file_meta_of_mine (id)")
    return papers


def test_drop_removes_all_of_ours_and_nothing_else(cli: Cli, used: pathlib.Path) -> None:
    assert {"ingest_request", "_enrichments_papers", "_enrichment_jobs", "ingest_hits"} <= tables(used)
    before = rows(used, "select * from papers")
    done = cli("drop", used, "--yes")
    assert done.exit_code == 0 and "ingest_request" in done.stdout
    assert tables(used) == {"papers", "notes", "recent", "file_meta_of_mine", *MIGRATIONS}
    assert rows(used, "select * from _sqlite_migrations") == []
    assert rows(used, "select * from papers") == before
    assert cli("drop", used).stdout == f"{used} has no table of this plugin.\n"
    assert cli("run", used, "papers", *QUICK).exit_code == 0


THEIRS = """
create table _enrichment_jobs (id integer primary key, status text, enrichment text, database_name text, table_name text,
  filter_querystring text, config text, started_at text, finished_at text, cancel_reason text, next_cursor text,
  row_count integer, error_count integer, done_count integer, actor_id text, cost_100ths_cent integer);
create table _enrichment_errors (id integer primary key, job_id integer references _enrichment_jobs(id), created_at text,
  row_pks text, error text);
create table _enrichment_progress (id integer primary key, job_id integer references _enrichment_jobs(id),
  timestamp_ms_2025 integer, success_count integer, error_count integer, message text);
create table _enrichments_mine (id integer primary key);
insert into _enrichment_jobs (status, enrichment, table_name) values ('f', 'theirs', 'papers');
insert into _enrichment_errors (job_id, error) values (1, 'theirs');
insert into _enrichment_progress (job_id, message) values (1, 'theirs');
"""
"""What datasette-enrichments leaves, and a table of a user's own."""


def test_drop_leaves_the_jobs_of_datasette_enrichments(cli: Cli, papers: pathlib.Path) -> None:
    with contextlib.closing(sqlite3.connect(papers)) as conn:
        conn.executescript(THEIRS)
    before = tables(papers)
    assert cli("drop", papers).stdout == f"{papers} has no table of this plugin.\n"
    assert cli("run", papers, "papers", *QUICK).exit_code == 0
    done = cli("drop", papers, "--yes")
    assert done.exit_code == 0 and "our rows of _enrichment_jobs" in done.stdout
    assert {name for name in tables(papers) if not name.startswith("_enrichment_")} <= before | MIGRATIONS
    assert rows(papers, "select id, enrichment from _enrichment_jobs") == [(1, "theirs")]
    assert rows(papers, "select error from _enrichment_errors") == [("theirs",)]
    assert rows(papers, "select message from _enrichment_progress") == [("theirs",)]
    with contextlib.closing(sqlite3.connect(papers)) as conn, conn:
        conn.execute("insert into _enrichment_jobs (status, enrichment, table_name) values ('f', 'theirs', 'papers')")
        assert conn.execute("select count(*) from pragma_foreign_key_check").fetchone() == (0,)
    assert cli("drop", papers).stdout == f"{papers} has no table of this plugin.\n"
    assert cli("run", papers, "papers", *QUICK).exit_code == 0


def test_drop_asks_first(used: pathlib.Path) -> None:
    before = tables(used)
    done = CliRunner().invoke(datasette_cli, ["ingest", "drop", str(used)], input="n\n")
    assert done.exit_code == 1
    assert "  table ingest_request: 1 row\n" in done.stdout and "  view ingest_pending: a view\n" in done.stdout
    assert tables(used) == before


def test_drop_works_where_no_job_has_run(cli: Cli, tmp_path: pathlib.Path) -> None:
    (path := tmp_path / "requests.jsonl").write_bytes(lines(request()))
    cli("load", tmp_path / "a.db", path, "--format", "jsonl")
    assert cli("drop", tmp_path / "a.db", "--yes").exit_code == 0
    assert tables(tmp_path / "a.db") == MIGRATIONS


def test_drop_is_refused_while_a_job_runs(cli: Cli, used: pathlib.Path) -> None:
    with contextlib.closing(sqlite3.connect(used)) as conn, conn:
        conn.execute("update _enrichment_jobs set status = 'running'")
    done = cli("drop", used, "--yes")
    assert (done.exit_code, done.stderr) == (1, "Error: Job 1 is running: pause or cancel it first\n")
