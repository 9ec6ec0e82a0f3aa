"""`load` as a user calls it."""

from __future__ import annotations

import csv
import gzip
import json
import pathlib
import sqlite3
import subprocess
import sys

import pytest

from ..conftest import rows
from ..ingest.load.kit import lines, place, request, unpaywall
from .conftest import QUICK, Cli, read_json, tables


@pytest.fixture
def dump(tmp_path: pathlib.Path) -> pathlib.Path:
    """Two requests of Unpaywall, and a line that is none."""
    path = tmp_path / "dump.jsonl.gz"
    records = [
        unpaywall("10.1/a", place(url_for_pdf="http://h/1.pdf")),
        unpaywall("10.1/b", place(url_for_landing_page="http://h/2")),
        unpaywall("10.1/c"),
    ]
    path.write_bytes(gzip.compress(lines(*records, b'{"doi": 7}')))
    return path


@pytest.fixture
def db(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "new papers.db"


def test_a_dump_is_loaded_and_what_was_refused_is_listed(cli: Cli, db: pathlib.Path, dump: pathlib.Path) -> None:
    done = cli("load", db, dump, "--format", "unpaywall")
    refused = db.with_name("new papers-refused.csv")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "4 lines read: 2 new requests loaded, 0 known, 1 line refused.",
        f"Refused lines are listed in {refused}:",
        "  1: Expected `str | null`, got `int` - at `$.doi`",
        f"Find their files with: datasette ingest run '{db}' ingest_request",
    ]
    with refused.open() as file:
        assert list(csv.reader(file))[1:] == [["", "4", "Expected `str | null`, got `int` - at `$.doi`"]]
    assert {"ingest_request", "ingest_pending", "ingest_hits"} <= tables(db)
    assert len(rows(db, "select * from ingest_pending")) == 2


@pytest.mark.parametrize("content", [b"my notes", b"SQLite format 3\0", b"file,line\r\n"])
def test_a_file_that_is_no_list_of_refused_lines_is_not_written_over(
    cli: Cli, db: pathlib.Path, dump: pathlib.Path, content: bytes
) -> None:
    (refused := db.with_name("new papers-refused.csv")).write_bytes(content)
    done = cli("load", db, dump, "--format", "unpaywall")
    assert (done.exit_code, refused.read_bytes()) == (1, content)
    assert (
        f"{refused} exists, and is no list of refused lines. Name another file for them with --refused" in done.stderr
    )
    assert cli("load", db, dump, "--format", "unpaywall", "--refused", db.with_name("other.csv")).exit_code == 0
    refused.write_bytes(b"file,line,reason\r\n,1,old\r\n")
    assert cli("load", db, dump, "--format", "unpaywall").exit_code == 0
    assert b"old" not in refused.read_bytes()


def test_the_dump_and_the_database_are_not_written_over(cli: Cli, db: pathlib.Path, dump: pathlib.Path) -> None:
    before = dump.read_bytes()
    assert cli("load", db, dump, "--format", "unpaywall", "--refused", dump).exit_code == 1
    assert dump.read_bytes() == before
    assert cli("load", db, dump, "--format", "unpaywall", "--refused", db).exit_code == 1
    assert tables(db) >= {"ingest_request"}


def test_a_second_load_finds_all_known(cli: Cli, db: pathlib.Path, dump: pathlib.Path) -> None:
    said = [read_json(cli("load", db, dump, "--format", "unpaywall", "--json")) for _ in range(2)]
    assert [(each["new"], each["known"]) for each in said] == [(2, 0), (0, 2)]


def test_a_dry_run_writes_nothing(cli: Cli, db: pathlib.Path, dump: pathlib.Path) -> None:
    said = read_json(cli("load", db, dump, "--format", "unpaywall", "--dry-run", "--json"))
    assert (said["new"], said["dry_run"], db.exists()) == (2, True, False)


def test_a_limit_counts_new_requests_and_the_next_load_goes_on(cli: Cli, db: pathlib.Path, dump: pathlib.Path) -> None:
    said = [read_json(cli("load", db, dump, "--format", "unpaywall", "--limit", 1, "--json")) for _ in range(3)]
    assert [(each["new"], each["known"]) for each in said] == [(1, 0), (1, 1), (0, 2)]


def test_a_cut_file_keeps_what_came_and_the_same_command_goes_on(
    cli: Cli, db: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    whole = lines(*(request(number) for number in range(1, 20_001)))
    (path := tmp_path / "requests.gz").write_bytes(gzip.compress(whole)[:-20_000])
    done = cli("load", db, path, "--format", "jsonl")
    number = len(rows(db, "select * from ingest_request"))
    assert (done.exit_code, 0 < number < 20_000) == (1, True)
    assert done.stderr == f"Error: {path}, line {number + 1:,}: the gzip data is cut: its end is missing\n"
    path.write_bytes(gzip.compress(whole))
    said = read_json(cli("load", db, path, "--format", "jsonl", "--json"))
    assert (said["new"], said["known"]) == (20_000 - number, number)


def test_standard_input_is_read(db: pathlib.Path) -> None:
    command = [sys.executable, "-m", "datasette", "ingest", "load", str(db), "-", "--format", "jsonl", "--json"]
    done = subprocess.run(command, input=gzip.compress(lines(request())), capture_output=True, check=True)
    assert json.loads(done.stdout)["new"] == 1


def test_rows_of_a_table_are_loaded_by_a_query(cli: Cli, papers: pathlib.Path) -> None:
    sql = "select id, url from papers where year > 2020"
    assert read_json(cli("load", papers, "--sql", sql, "--source", "papers", "--json"))["new"] == 3


def test_a_users_own_table_of_that_name_is_left_alone(cli: Cli, papers: pathlib.Path, dump: pathlib.Path) -> None:
    with sqlite3.connect(papers) as conn:
        conn.execute("create table ingest_request (mine)")
    done = cli("load", papers, dump, "--format", "unpaywall")
    assert done.exit_code == 1
    assert "has a table of that name that no enrichment made" in done.stderr
    assert rows(papers, "select * from ingest_request") == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Give a FILE with --format, or --sql QUERY"),
        (("FILE",), "Give --format: unpaywall, openalex, jsonl, csv, tsv, results"),
        (("FILE", "--format", "parquet"), "Invalid value for '--format'"),
        (("FILE", "--sql", "select 1"), "Give a FILE with --format, or --sql QUERY"),
        (("--sql", "select 1", "--format", "csv"), "--sql takes no --format"),
        (("FILE", "--format", "unpaywall", "--where", "year"), "--where: 'year' is no condition"),
    ],
)
def test_wrong_usage(cli: Cli, db: pathlib.Path, dump: pathlib.Path, arguments: tuple[str, ...], said: str) -> None:
    done = cli("load", db, *(dump if word == "FILE" else word for word in arguments))
    assert (done.exit_code, db.exists()) == (2, False)
    assert said in done.stderr


@pytest.mark.parametrize(
    ("content", "format", "said"),
    [
        (b"", "csv", "it is empty"),
        (b"a,b\n1,2\n", "csv", "no column seems to hold URLs or DOIs"),
        (b"url\nhttp://h/1\n", "csv", "nothing says where these requests are from; give --source NAME"),
        (lines(request()), "unpaywall", "line 1: it is not unpaywall: it looks like jsonl (--format jsonl)"),
    ],
)
def test_a_bad_file_is_one_line(
    cli: Cli, db: pathlib.Path, tmp_path: pathlib.Path, content: bytes, format: str, said: str
) -> None:
    (path := tmp_path / "file").write_bytes(content)
    done = cli("load", db, path, "--format", format)
    assert done.exit_code == 1
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_what_is_loaded_is_found_by_a_job_and_what_is_due_is_tried_again(
    cli: Cli, db: pathlib.Path, tmp_path: pathlib.Path, site: str
) -> None:
    links = ("/files/herons.pdf", "/articles/tides", "/articles/lost", "/articles/salt")
    records = [unpaywall(f"10.1/{n}", place(url_for_landing_page=site + link)) for n, link in enumerate(links)]
    (path := tmp_path / "dump.jsonl").write_bytes(lines(*records))
    assert cli("load", db, path, "--format", "unpaywall").exit_code == 0
    assert cli("run", db, "ingest_request", *QUICK).exit_code == 0
    assert rows(db, "select source_id from ingest_hits order by 1") == [("10.1/0",), ("10.1/1",)]
    job = read_json(cli("show", db, 1, "--json"))["job"]
    assert job["outcomes"] == {"success": 2, "terminal-bad-status": 1, "blocked-wall": 1}
    assert job["retries"] == {"later": 1, "never": 1}
    assert "misses:   1 later, 1 never" in cli("show", db, 1).stdout.splitlines()
    assert "1 later, 1 never" in cli("jobs", db).stdout
    assert read_json(cli("run", db, "ingest_request", "--due", *QUICK, "--json"))["row_count"] == 0
    with sqlite3.connect(db) as conn:
        conn.execute("update ingest_file_result set next_try = '2000-01-01T00:00:00Z' where next_try is not null")
    cli("load", db, path, "--format", "unpaywall", "--source", "again")
    again = read_json(cli("run", db, "ingest_request", "--due", "--filter", "source=unpaywall", *QUICK, "--json"))
    assert (again["row_count"], again["outcomes"]) == (1, {"terminal-bad-status": 1})
    assert rows(db, "select attempts from ingest_file_result where status = 'terminal-bad-status'") == [(2,)]


def test_due_goes_by_the_usual_columns(cli: Cli, papers: pathlib.Path) -> None:
    done = cli("run", papers, "papers", "--due", "--url-column", "url")
    assert done.exit_code == 2 and "leave out --url-column and --type" in done.stderr
    assert read_json(cli("run", papers, "papers", "--due", *QUICK, "--json"))["row_count"] == 0
    assert read_json(cli("run", papers, "papers", "--pending", *QUICK, "--json"))["row_count"] == 4


def test_a_place_that_cannot_be_written_is_one_line(cli: Cli, tmp_path: pathlib.Path, dump: pathlib.Path) -> None:
    done = cli("load", tmp_path / "nowhere" / "a.db", dump, "--format", "unpaywall")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1) and "No such file or directory" in done.stderr
    done = cli("load", tmp_path / "a.db", dump, "--format", "unpaywall", "--refused", tmp_path / "nowhere" / "x.csv")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1) and "Name another file with --refused" in done.stderr


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_what_is_no_database_is_left_as_it_is(
    cli: Cli, tmp_path: pathlib.Path, dump: pathlib.Path, options: tuple[str, ...]
) -> None:
    (path := tmp_path / "notes.txt").write_text("These are my notes, and no database.\n" * 100)
    before = path.read_bytes()
    done = cli("load", path, dump, "--format", "unpaywall", *options)
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1) and "not a" in done.stderr
    assert path.read_bytes() == before


@pytest.mark.slow
def test_a_load_that_is_killed_leaves_whole_requests_and_the_same_command_goes_on(
    cli: Cli, db: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    records = [unpaywall(f"10.1/{n}", place(url_for_pdf=f"http://h/{n}.pdf")) for n in range(150_000)]
    (path := tmp_path / "dump.jsonl").write_bytes(lines(*records))
    command = [sys.executable, "-m", "datasette", "ingest", "load", str(db), "-", "--format", "unpaywall"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process, path.open("rb") as file:
        assert process.stdin is not None
        process.stdin.write(file.read(path.stat().st_size * 2 // 3))  # the rest never comes
        process.stdin.flush()
        while process.poll() is None:
            if "ingest_request" in (tables(db) if db.exists() else ()) and rows(
                db, "select 1 from ingest_request limit 1"
            ):
                process.kill()
                break
    kept = len(rows(db, "select * from ingest_request"))
    assert process.wait() < 0 and 0 < kept < 150_000
    assert rows(db, "pragma integrity_check") == [("ok",)]
    said = read_json(cli("load", db, path, "--format", "unpaywall", "--json"))
    assert (said["new"], said["known"]) == (150_000 - kept, kept)
