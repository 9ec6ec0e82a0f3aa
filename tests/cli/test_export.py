"""`export` and `stats` as a user calls them."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import json
import pathlib
import sqlite3
import stat
import subprocess
import sys
from typing import Any

import jsonschema
import pytest

from datasette_ingest.ingest import stats as numbers
from datasette_ingest.ingest.export import feed

from ..conftest import rows, serving
from ..ingest.export.kit import Library, hit, miss, url
from ..web.conftest import ROOT, get
from .conftest import QUICK, Cli, read_json


def documents(path: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def library(tmp_path: pathlib.Path) -> Library:
    """A hit with two requests, a miss with one, a request that was not tried."""
    made = Library(tmp_path / "works.db")
    for number, source_id in ((1, "10.1234/a"), (1, "10.1234/b"), (2, "10.1234/c"), (3, "10.1234/d")):
        made.request(number, source_id, ext_ids={"doi": source_id})
    made.result(hit(1))
    made.result(miss(2, "no-pdf-link", error_message="=no link", terminal={"terminal_url": url(2)}))
    return made


@pytest.fixture
def found(cli: Cli, tmp_path: pathlib.Path, site: str) -> pathlib.Path:
    """Requests that were loaded from a file and run over the sample site."""
    db, file = tmp_path / "found.db", tmp_path / "papers.csv"
    links = ("/files/herons.pdf", "/articles/tides", "/articles/lost", "/articles/salt", "/files/herons.pdf")
    file.write_text("url,id\n" + "".join(f"{site}{link},{number}\n" for number, link in enumerate(links)))
    assert cli("load", db, file, "--format", "csv", "--source", "papers", "--source-id-column", "id").exit_code == 0
    assert cli("run", db, "ingest_request", *QUICK).exit_code == 0
    return db


# ---- results ----------------------------------------------------------------------------------------------------


def test_load_run_export_and_load_again_finds_nothing_new(
    cli: Cli, found: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    exported = tmp_path / "results.jsonl"
    assert read_json(cli("export", found, "-o", exported, "--json"))["lines"] == 5
    said = read_json(cli("load", found, exported, "--format", "results", "--json"))
    assert (said["new"], said["known"], said["new_results"], said["refused"]) == (0, 5, 0, 0)


def test_an_export_into_an_empty_database_gives_the_same_export(
    cli: Cli, found: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    first, second, copy = tmp_path / "1.jsonl", tmp_path / "2.jsonl", tmp_path / "copy.db"
    cli("export", found, "-o", first)
    assert read_json(cli("load", copy, first, "--format", "results", "--json"))["new_results"] == 4
    cli("export", copy, "-o", second)
    key = "request"
    assert sorted(documents(first), key=lambda each: json.dumps(each[key])) == sorted(
        documents(second), key=lambda each: json.dumps(each[key])
    )


@pytest.mark.parametrize("name", ["request", "result"])
def test_an_export_is_what_the_schema_says(cli: Cli, found: pathlib.Path, tmp_path: pathlib.Path, name: str) -> None:
    cli("export", found, "-o", tmp_path / "results.jsonl")
    validator = jsonschema.Draft202012Validator(json.loads(cli("schema", name).stdout))
    for document in documents(tmp_path / "results.jsonl"):
        validator.validate(document if name == "result" else document["request"])


def test_what_is_not_known_is_left_out(cli: Cli, found: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cli("export", found, "-o", tmp_path / "results.jsonl")
    by_link = {each["request"]["base_url"].rpartition("/")[2]: each for each in documents(tmp_path / "results.jsonl")}
    pdf, lost, salt = by_link["herons.pdf"], by_link["lost"], by_link["salt"]
    assert pdf["terminal"]["terminal_sha1hex"] == pdf["file_meta"]["sha1hex"]
    assert {"cdx", "error_message", "warnings", "fileset"}.isdisjoint(pdf)
    assert lost["status"] == "terminal-bad-status" and lost["terminal"]["terminal_status_code"] == 404
    assert salt["candidates"][0]["outcome"] == "blocked-wall" and "fileset" not in salt
    assert by_link["tides"]["html_meta"]["biblio"]["title"]


def test_results_of_a_table_that_nobody_loaded_can_be_loaded_elsewhere(
    cli: Cli, papers: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    cli("run", papers, "papers", "--url-column", "url", *QUICK)
    cli("export", papers, "-o", tmp_path / "results.jsonl")
    assert {tuple(each["request"]) for each in documents(tmp_path / "results.jsonl")} == {("ingest_type", "base_url")}
    said = read_json(
        cli(
            "load",
            tmp_path / "new.db",
            tmp_path / "results.jsonl",
            "--format",
            "results",
            "--source",
            "papers",
            "--json",
        )
    )
    assert (said["new"], said["new_results"], said["refused"]) == (4, 4, 0)


def test_the_cursor_at_the_end_continues(cli: Cli, library: Library) -> None:
    done = cli("export", library.path)
    first = done.stdout.splitlines()
    (cursor,) = [
        line.rpartition(" ")[2] for line in done.stderr.splitlines() if line.startswith("Continue with: --since")
    ]
    library.result(hit(3))
    then = cli("export", library.path, "--since", cursor).stdout.splitlines()
    assert (len(first), [json.loads(line)["request"]["base_url"] for line in then]) == (3, [url(3)])


def test_a_database_of_an_earlier_version_is_exported(cli: Cli, library: Library) -> None:
    library.sql("drop index idx_ingest_file_result_seq")
    library.sql("alter table ingest_file_result drop column seq")
    library.sql("delete from _sqlite_migrations where name in ('m004_sequence', 'm005_sequence_index')")
    assert len(cli("export", library.path).stdout.splitlines()) == 3
    assert len(rows(library.path, "select * from ingest_file_result where seq > 0")) == 2


def test_passwords_are_masked_unless_they_are_wanted(cli: Cli, library: Library, tmp_path: pathlib.Path) -> None:
    library.sql("update ingest_request set base_url = 'http://ann:s3cret@h/1.pdf' where base_url = ?", url(1))
    library.sql("update ingest_file_result set base_url = 'http://ann:s3cret@h/1.pdf' where base_url = ?", url(1))
    library.sql(
        "update ingest_file_result set hops = '[\"http://ann:s3cret@h/1.pdf\"]' where hit"
    )  # of another program
    exported = tmp_path / "results.jsonl"
    for form in ("results", "missed", "fatcat"):
        assert "s3cret" not in cli("export", library.path, "--format", form).output
    cli("export", library.path, "-o", exported)
    said = read_json(cli("load", library.path, exported, "--format", "results", "--json"))
    assert (said["refused"], said["new"]) == (2, 0)
    cli("export", library.path, "--passwords", "-o", exported)
    assert stat.S_IMODE(exported.stat().st_mode) == 0o600
    said = read_json(cli("load", library.path, exported, "--format", "results", "--json"))
    assert (said["refused"], said["new"], said["known"]) == (0, 0, 3)


def test_a_url_that_is_not_utf_8_is_exported_as_its_bytes(cli: Cli, library: Library, tmp_path: pathlib.Path) -> None:
    library.sql("update ingest_request set base_url = cast(x'687474703a2f2f682f80' as text) where base_url = ?", url(2))
    library.sql(
        "update ingest_file_result set base_url = cast(x'687474703a2f2f682f80' as text) where base_url = ?", url(2)
    )
    cli("export", library.path, "--miss", "-o", tmp_path / "results.jsonl")
    (document,) = documents(tmp_path / "results.jsonl")
    assert document["request"]["base_url"] == {"$base64": True, "encoded": "aHR0cDovL2gvgA=="}
    assert document["error_message"] == "=no link"


def test_a_file_is_replaced_only_by_a_whole_export(
    cli: Cli, library: Library, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text("what was there")
    monkeypatch.setattr(feed.Feed, "_newly_requested", None)
    monkeypatch.setattr(
        feed.Feed, "_changed", lambda *_: (_ for _ in ()).throw(sqlite3.OperationalError("disk I/O error"))
    )
    assert cli("export", library.path, "-o", file).exit_code == 1
    assert [path.name for path in tmp_path.glob("*results*")] == ["results.jsonl"]
    assert file.read_text() == "what was there"


def test_a_file_that_cannot_be_written_is_named(cli: Cli, library: Library, tmp_path: pathlib.Path) -> None:
    done = cli("export", library.path, "-o", tmp_path / "nowhere" / "results.jsonl")
    assert (done.exit_code, done.stderr) == (
        1,
        f"Error: Cannot write {tmp_path}/nowhere/results.jsonl: No such file or directory\n",
    )


@pytest.mark.parametrize("name", ["works.db", "link.db", "works.db-wal", "other.sqlite", "other.sqlite-journal"])
@pytest.mark.parametrize("option", ["-o", "--left-out"])
def test_no_database_is_written_over(
    cli: Cli, library: Library, tmp_path: pathlib.Path, name: str, option: str
) -> None:
    library.request(1, "no doi", ext_ids={"isbn": "3"})
    (tmp_path / "link.db").symlink_to("works.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "other.sqlite")) as other:
        other.execute("create table mine (a)")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    done = cli("export", library.path, "--format", "fatcat", option, tmp_path / name)
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert f"{name} " in done.stderr and "Name another file" in done.stderr
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_file_that_is_no_list_of_hits_left_out_is_not_written_over(
    cli: Cli, library: Library, tmp_path: pathlib.Path
) -> None:
    library.request(1, "no doi", ext_ids={"isbn": "3"})
    (mine := tmp_path / "works-left-out.csv").write_text("my notes")
    done = cli("export", library.path, "--format", "fatcat", "-o", tmp_path / "files.jsonl")
    assert (done.exit_code, mine.read_text(), (tmp_path / "files.jsonl").exists()) == (1, "my notes", False)
    assert "is no list of hits left out. Name another file for them with --left-out" in done.stderr
    mine.unlink()
    for _ in range(2):
        assert cli("export", library.path, "--format", "fatcat", "-o", tmp_path / "files.jsonl").exit_code == 0
    done = cli("export", library.path, "--format", "fatcat", "-o", mine)
    assert done.exit_code == 2 and "need another file than the records" in done.stderr


def test_a_link_leads_to_the_file_that_is_written(cli: Cli, library: Library, tmp_path: pathlib.Path) -> None:
    (tmp_path / "link.jsonl").symlink_to("results.jsonl")
    assert cli("export", library.path, "-o", tmp_path / "link.jsonl").exit_code == 0
    assert (tmp_path / "link.jsonl").is_symlink() and len(documents(tmp_path / "results.jsonl")) == 3


def test_a_minus_is_standard_output(
    cli: Cli, library: Library, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(cli("export", library.path, "-o", "-").stdout.splitlines()) == 3
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--since", "yesterday"), "neither an ISO time"),
        (("--format", "seeds", "--hit"), "do not apply"),
        (("--format", "missed", "--hit"), "of misses only"),
        (("--format", "fatcat", "--miss"), "of hits only"),
        (("--left-out", "x.csv"), "belongs to --format fatcat"),
    ],
)
def test_options_that_contradict_are_refused(cli: Cli, library: Library, options: tuple[str, ...], said: str) -> None:
    done = cli("export", library.path, *options)
    assert done.exit_code == 2 and said in done.stderr


def test_results_under_a_prefix(cli: Cli, papers: pathlib.Path) -> None:
    cli("run", papers, "papers", "--url-column", "url", "--set", "table_prefix=mine_", *QUICK)
    assert len(cli("export", papers, "--table-prefix", "mine_").stdout.splitlines()) == 4
    assert "0 requests, 4 results." in cli("stats", papers, "--table-prefix", "mine_").stdout
    assert cli("export", papers).exit_code == 1
    assert cli("export", papers, "--table-prefix", "mine; --").exit_code == 2


def test_a_database_without_results_says_how_to_make_some(cli: Cli, tmp_path: pathlib.Path) -> None:
    sqlite3.connect(tmp_path / "new.db").close()
    done = cli("export", tmp_path / "new.db")
    assert (done.exit_code, done.stderr) == (
        1,
        f"Error: There are no results yet. Make some with: datasette ingest run {tmp_path}/new.db TABLE\n",
    )


def test_a_reader_that_waits_does_not_keep_others_from_writing(library: Library) -> None:
    with library.writing() as conn:
        conn.executemany(
            "insert into ingest_file_result (ingest_type, base_url, updated, hit, status, seq) "
            "values ('pdf', ?, '2026-11-30T12:00:00Z', 0, 'bad-http', ?)",
            [(url(number), number) for number in range(10, 3000)],
        )
    command = [sys.executable, "-m", "datasette", "ingest", "export", str(library.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it has begun, and nobody reads on
        library.sql("update ingest_file_result set error_message = 'written' where hit")
        process.stdout.read()
    assert process.returncode == 0


# ---- other formats ----------------------------------------------------------------------------------------------


def test_the_missed_are_the_same_as_a_jobs(cli: Cli, found: pathlib.Path, tmp_path: pathlib.Path) -> None:
    async def of_the_job() -> str:
        async with serving(found) as datasette:
            text: str = (await get(datasette, "/-/ingest-jobs/found/1/missed.csv", ROOT)).text
            return text

    done = cli("export", found, "--format", "missed")
    assert sorted(done.stdout_bytes.decode().splitlines()) == sorted(asyncio.run(of_the_job()).splitlines())
    head, *missed = csv.reader(done.stdout.splitlines())
    assert head == [
        "ingest_type",
        "base_url",
        "source",
        "source_id",
        "code",
        "terminal_url",
        "next_try",
        "outcome",
        "message",
    ]
    assert [(row[3], row[7]) for row in missed] == [("2", "terminal-bad-status"), ("3", "blocked-wall")]


def test_no_cell_of_the_missed_is_a_formula(cli: Cli, library: Library) -> None:
    _, row = csv.reader(cli("export", library.path, "--format", "missed").stdout.splitlines())
    assert row[3:] == ["10.1234/c", "", url(2), row[6], "no-pdf-link", "'=no link"]


def test_records_for_fatcat_and_a_list_of_what_is_left_out(cli: Cli, library: Library, tmp_path: pathlib.Path) -> None:
    library.request(1, "no doi", ext_ids={"isbn": "3"})
    done = cli("export", library.path, "--format", "fatcat", "-o", tmp_path / "files.jsonl", "--json")
    said, listed = read_json(done), tmp_path / "works-left-out.csv"
    assert (said["lines"], said["left_out"], said["left_out_file"]) == (2, {"no-release": 1}, str(listed))
    assert [each["dois"] for each in documents(tmp_path / "files.jsonl")] == [["10.1234/a"], ["10.1234/b"]]
    _, row = csv.reader(listed.read_text().splitlines())
    assert row[:5] == ["pdf", url(1), "doi", "no doi", "no-release"]


def test_a_pdf_of_one_page_is_left_out(cli: Cli, library: Library) -> None:
    library.sql("create table if not exists pdf_meta (sha1hex text primary key, page_count integer)")
    library.sql("insert into pdf_meta (sha1hex, page_count) values (?, 1)", "1" * 40)
    done = cli("export", library.path, "--format", "fatcat")
    assert done.stdout == "" and "2: the PDF has one page, so it is most likely an abstract" in done.stderr


def test_seeds_are_the_pending_urls_each_once(cli: Cli, library: Library) -> None:
    library.request(3, "again")
    for cell in ("HTTP://h:80/3.pdf", "doi:10.1234/XYZ", "no url", "http://ann:pw@h/4.pdf#top"):
        library.sql("insert into ingest_request select 'pdf', ?, 'doi', ?, actor, created, null, null, null from ingest_request limit 1", cell, cell)  # fmt: skip
    done = cli("export", library.path, "--format", "seeds")
    assert done.stdout.splitlines() == [url(3), "https://doi.org/10.1234/xyz", "http://ann:pw@h/4.pdf"]
    assert done.stderr.splitlines() == [
        "3 lines written.",
        "1 request left out: no http(s) URL.",
        "1 line with a password: keep the file to yourself.",
    ]
    assert "pw" not in cli("export", library.path, "--format", "seeds", "--no-passwords").output
    library.sql("update ingest_file_result set next_try = '2020-01-01T00:00:00Z' where hit = 0")
    assert url(2) in cli("export", library.path, "--format", "seeds", "--source", "doi").stdout


# ---- numbers ----------------------------------------------------------------------------------------------------


def test_stats_by_source_status_host_and_day(cli: Cli, library: Library) -> None:
    done = cli("stats", library.path)
    assert done.stdout.splitlines()[:4] == [
        "4 requests, 2 results.",
        "",
        "source  type  requests  tried  hits  coverage",
        "doi     pdf          4      3     2    50.0 %",
    ]
    said = read_json(cli("stats", library.path, "--json"))
    assert said["hosts"] == [{"host": "h", "misses": 1, "status": "no-pdf-link", "of_status": 1}]
    assert said["days"] == [{"day": "2026-11-30", "tried": 2, "hits": 1}]


@pytest.mark.parametrize(
    ("cell", "host"),
    [
        ("http://a.example/x/y", "a.example"),
        ("https://a.example", "a.example"),
        ("http://a/b/c", "a"),
        ("https://a.example:8443?x=/y", "a.example"),
        ("HTTPS://A.example/x", "a.example"),
        ("https:////a.example/x", "a.example"),
        ("http://ann:pw@a.example/x", "a.example"),
        ("10.1234/a/b", "doi.org"),
    ],
)
def test_the_host_of_a_miss_is_that_of_its_url_however_it_is_written(library: Library, cell: str, host: str) -> None:
    library.sql("update ingest_file_result set terminal_url = ? where hit = 0", cell)
    assert [each.host for each in numbers.failing_hosts(library.reading())] == [host]


def test_stats_of_nothing(cli: Cli, tmp_path: pathlib.Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "new.db")):
        pass
    assert cli("stats", tmp_path / "new.db").stdout == "There are no requests and no results yet.\n"
